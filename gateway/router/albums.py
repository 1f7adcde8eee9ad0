"""An album of files, which Telegram sends as one message a file: one piece of work with all of them. Pure.

Nothing says how many parts there are. The first one waits for the next for a moment, and each next one for another.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from datetime import timedelta

from agent.inbox import Incoming
from gateway.channels.inbound import MessageReceived
from gateway.router.attachments import FETCH_TIMEOUT_S
from gateway.router.incoming import with_notes

SETTLES_S = 1.5  # parts come in one batch, or in two that follow each other
SETTLES = timedelta(seconds=SETTLES_S)
FETCHING = SETTLES + timedelta(seconds=FETCH_TIMEOUT_S)  # while the files of a part are on their way


class Refused:
    """The newest albums of which a part was refused: the others follow it, and that is not said once a picture."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._albums: OrderedDict[Hashable, None] = OrderedDict()

    def note(self, part: MessageReceived) -> None:
        if part.album is not None:
            self._albums[_identity(part)] = None
            if len(self._albums) > self._most:
                self._albums.popitem(last=False)

    def has(self, part: MessageReceived) -> bool:
        return part.album is not None and _identity(part) in self._albums


def joined(album: Incoming, part: Incoming) -> Incoming:
    """The album with one more part; the answer goes below its first message."""
    words = "\n".join(filter(None, (_words(album), _words(part))))
    notes = album.notes + part.notes
    return replace(
        album,
        text=with_notes(words, notes),
        files=album.files + part.files,
        notes=notes,
        quoted=album.quoted or part.quoted,
    )


def _identity(part: MessageReceived) -> Hashable:
    return part.key, part.sender.id, part.album


def _words(said: Incoming) -> str:
    """Its text without the notes at its end."""
    lines = said.text.split("\n")
    return "\n".join(lines[: len(lines) - len("\n".join(said.notes).split("\n"))] if said.notes else lines)
