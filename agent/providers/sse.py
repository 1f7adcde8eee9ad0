"""Server-sent events from raw bytes: complete lines only, so that no character is ever cut (SPEC §6.7)."""

LARGEST_EVENT = 8 * 1024 * 1024  # bytes; more than any API sends in one event


class EventReader:
    """Takes the body in pieces of any size and gives the `data` of every event that is complete.

    Names, ids and comments are skipped: both model APIs repeat the event's kind inside its data.
    """

    def __init__(self, largest: int = LARGEST_EVENT) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._largest = largest
        self._begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that `piece` completed. Raises ValueError when one grows beyond all measure."""
        text = self._rest + piece
        if not self._begun:
            if len(text) < 3 and b"\xef\xbb\xbf".startswith(text):
                self._rest = text  # perhaps the beginning of a byte order mark
                return []
            self._begun = True
            text = text.removeprefix(b"\xef\xbb\xbf")
        held = b""
        if b"\r" in text:
            if text.endswith(b"\r"):  # perhaps the first half of a line end
                text, held = text[:-1], b"\r"
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + held
        if len(self._rest) + self._size > self._largest:
            raise ValueError(f"an event is larger than {self._largest} bytes")
        return [event for line in lines if (event := self._line(line)) is not None]

    def finish(self) -> list[bytes]:
        """The body has ended: what its last line completed. An event without its blank line counts (some servers)."""
        events = self.feed(b"\n\n")
        self._rest = b""
        return events

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data, self._size = [], 0
            return event
        if line.startswith(b"data:"):
            value = line[6:] if line.startswith(b"data: ") else line[5:]
            self._data.append(value)
            self._size += len(value)
            if self._size > self._largest:
                raise ValueError(f"an event is larger than {self._largest} bytes")
        return None


class Body:
    """The body of an answer: events, or one JSON object though a stream was asked for."""

    def __init__(self) -> None:
        self.is_plain: bool = False
        self.has_begun: bool = False
        self._events = EventReader()
        self._whole = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """What `piece` completed; b"" stands for the end. Raises ValueError for what grows beyond all measure."""
        if not self.has_begun and piece.strip():
            self.has_begun, self.is_plain = True, piece.lstrip().startswith((b"{", b"["))
        if not self.is_plain:
            return self._events.feed(piece) if piece else self._events.finish()
        self._whole += piece
        if len(self._whole) > LARGEST_EVENT:
            raise ValueError(f"an answer is larger than {LARGEST_EVENT} bytes")
        return [] if piece else [self._whole]
