"""Debug dumps: requests and replies of models, as numbered files in a directory of the session.

They hold secrets and people's words: mode 0600, off by default. Never changes what is done.
"""

import json
import logging
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote

from agent.compaction.scoring import Block
from agent.compaction.subgoals import Subgoal
from agent.core.ids import ConversationId

Form = Literal["json", "raw", "trace"]
FORMS: tuple[Form, ...] = get_args(Form)
TRACE = "trace.jsonl"

log = logging.getLogger("tieline.dumps")


class Dumps:
    """One numbering for all kinds of files. Off until `start`; what cannot be written is reported once.

    `form` says what is kept: "json" all there is, "raw" requests as the words that a model reads, "trace" one line for
    each thing with its size and nothing of what it says.
    """

    def __init__(self) -> None:
        self.form: Form = "json"
        self.on = False
        self._directory: Path | None = None
        self._count = 0
        self._complained = False

    @property
    def directory(self) -> Path | None:
        return self._directory

    def start(self, directory: Path) -> None:
        """Write into `directory` from now on; it is made with the first file."""
        self.on, self._directory, self._count, self._complained = True, directory, 0, False

    def stop(self) -> None:
        self.on, self._directory = False, None

    def write(self, name: str, text: str) -> None:
        """Put `text` into `NNNN-name`, or its size into the trace; blocks for the time of one small write."""
        if self._directory is None:
            return
        numbered, how = f"{self._count:04d}-{name}", os.O_TRUNC
        self._count += 1
        if self.form == "trace":
            text = json.dumps({"what": numbered, "chars": len(text)}) + "\n"
            numbered, how = TRACE, os.O_APPEND
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._directory / numbered, os.O_WRONLY | os.O_CREAT | how, 0o600)
            with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            if not self._complained:
                log.warning("debug dumps cannot be written to %s: %s", self._directory, error)
            self._complained = True


def dump_folder(under: Path, conversation: ConversationId, at: datetime) -> Path:
    """Where the dumps of a conversation that begin now belong: named by the second, in UTC."""
    return under / quote(conversation, safe="@._-") / f"{at:%Y%m%dT%H%M%S}"


def registry_text(subgoals: Iterable[Subgoal]) -> str:
    """The registry as a dump shows it, one line for each subgoal (Z-56, H-35)."""
    lines = [f"{one.id} {one.state} [{one.start}, {one.end}) {one.description}\n" for one in subgoals]
    return "".join(lines) or "no subgoals\n"


def scores_text(strategy: str, blocks: Sequence[Block], scores: Sequence[float | None]) -> str:
    """The judgement of pruning on each result, one line each; a protected one has no score."""
    lines = [
        f"{block.position} {block.call} {block.tool} {block.tokens} tokens: "
        f"{'never' if score is None else format(score, '.4f')}\n"
        for block, score in zip(blocks, scores, strict=True)
    ]
    return "".join((f"{strategy}\n", *lines))
