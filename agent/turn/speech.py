"""The texts of a run's rounds, one under the other, as the person sees them. Previews may vanish, `text` arrives."""

from agent.core.outbox import Outbox

BETWEEN = "\n\n"


class Speech:
    """Follows one run; `earlier` are the texts of rounds before a crash that are not committed yet.

    `was_committed`: a part of the run's text stands in the outbox already.
    """

    def __init__(self, outbox: Outbox, earlier: tuple[str, ...] = (), *, was_committed: bool = False) -> None:
        self._outbox = outbox
        self._rounds = [text for text in earlier if text]
        self._open: list[str] = []
        self._previewed = False  # the preview holds the rounds before this one
        self.was_committed = was_committed

    @property
    def text(self) -> str:
        """Everything that is said and not committed yet, what is being streamed included."""
        return BETWEEN.join(text for text in (*self._rounds, self.unfinished) if text)

    @property
    def unfinished(self) -> str:
        """What was streamed of a round that has not ended."""
        return "".join(self._open)

    def delta(self, text: str) -> None:
        """The round grows by `text`: show it."""
        if not self._open:
            if self._rounds:
                self._outbox.preview(BETWEEN if self._previewed else BETWEEN.join(self._rounds) + BETWEEN)
            self._previewed = True
        self._open.append(text)
        self._outbox.preview(text)

    def retract(self) -> None:
        """What was streamed of this round is void; it will come again (G-24)."""
        if self._open:
            self._open = []
            self._previewed = False
            self._outbox.reset_preview()

    def end_round(self, text: str) -> None:
        """The round said `text`, all in all."""
        self._open = []
        if text:
            self._rounds.append(text)

    def committed(self) -> None:
        """The rounds so far stand in the outbox: `text` begins anew, and so does the preview."""
        self._rounds = []
        self._previewed = False
        self.was_committed = True
        self._outbox.end_preview()
