"""Long results of tools: the model gets beginning and end, a file keeps the whole for a while.

Files lie below the data directory, one folder a conversation; the gateway's upkeep removes old ones.
"""

import hashlib
import logging
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import anyio
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.files.store import FileStore, LocalFiles
from agent.core.function_tools import tool
from agent.core.ids import ConversationId
from agent.core.tools import ToolContext

FOLDER = "outputs"
LONGEST_SHOWN = 30_000  # characters
SHOWN_HEAD = 20_000  # of them at the beginning; the rest is the end, where results of programs say how it went
LONGEST_KEPT = 20_000_000
MOST_CHARS = 20_000  # of a stretch that is read
MOST_HITS = 40
AROUND = 200  # characters shown on either side of a hit
NOTICE = (
    "\n[{left_out} characters are left out here; read_output reads them: "
    'output "{name}", characters {begin} to {end}]\n'
)

log = logging.getLogger("tieline.tools")


def outputs_of(home: Path, conversation: ConversationId) -> Path:
    """Where those of a conversation lie."""
    return home / FOLDER / quote(conversation, safe="@._-")


def move_outputs(home: Path, old: ConversationId, new: ConversationId) -> None:
    """The conversation has another name now: what was kept is read under that. Safe to repeat. Raises OSError."""
    before, after = (outputs_of(home, name) for name in (old, new))
    if not before.is_dir():
        return
    after.mkdir(parents=True, exist_ok=True, mode=0o700)
    for file in before.iterdir():  # named by content: what is there already is the same
        file.replace(after / file.name)
    before.rmdir()


class Outputs:
    """The files with the whole of what was cut, and the tool that reads on in them."""

    def __init__(self, home: Path, files: FileStore = LocalFiles()) -> None:  # noqa: B008 - without state
        self._home = home
        self._files = files

    async def shortened(self, conversation: ConversationId, content: str) -> str:
        """A result for the model: all of it, or its beginning, a notice of how to read the rest, its end."""
        if len(content) <= LONGEST_SHOWN:
            return content
        tail = LONGEST_SHOWN - SHOWN_HEAD
        begin, end = SHOWN_HEAD, len(content) - tail
        name = await self.keep(conversation, content)
        if name is None:
            left_out = f"\n[{end - begin} characters are left out here; they could not be kept]\n"
        else:
            left_out = NOTICE.format(left_out=end - begin, name=name, begin=begin, end=end)
        return content[:begin] + left_out + content[end:]

    async def keep(self, conversation: ConversationId, content: str) -> str | None:
        """Put it into a file; its name is made of its content. None when the disk would not take it."""
        name = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=8).hexdigest()
        try:
            await anyio.to_thread.run_sync(self._write, self._path(conversation, name), content[:LONGEST_KEPT])
            await self._files.put(self._stored(conversation, name), conversation=conversation)
        except OSError as error:
            log.warning("a long result is not kept: %s", error, extra={"conversation": conversation})
            return None
        return name

    async def read(self, conversation: ConversationId, name: str) -> str:
        """The whole of a result of this conversation. Raises ToolError when there is none of that name."""
        path = self._path(conversation, name)
        try:
            await self._files.need(self._stored(conversation, name))
            return await anyio.to_thread.run_sync(lambda: path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ToolError(f"there is no output {name!r} any more; run the tool again") from error

    @tool(
        category="info", risk="safe", touches="own", effects=[], retryable=True, untrusted=True
    )  # what stands there may be a stranger's
    async def read_output(
        self,
        context: ToolContext,
        *,
        output: Annotated[str, Field(description="The name in the notice.", max_length=64)],
        from_char: Annotated[int | None, Field(description="First character, from 0.", ge=0)] = None,
        find: Annotated[str | None, Field(description="A text to look for, as written.", min_length=1)] = None,
    ) -> str:
        """Reads more of a tool result of which only beginning and end were shown. Give `find` to see the places where
        a text stands, else a stretch from `from_char` on is given."""
        content = await self.read(context.conversation, output)
        if find is not None:
            return _found(content, find)
        begin = from_char or 0
        if begin >= len(content):
            raise ToolError(f"the output has {len(content)} characters; from_char is {begin}")
        end = min(begin + MOST_CHARS, len(content))
        more = f"go on with from_char={end}" if end < len(content) else "this is its end"
        return f"[characters {begin} to {end} of {len(content)}; {more}]\n{content[begin:end]}"

    def _path(self, conversation: ConversationId, name: str) -> Path:
        return outputs_of(self._home, conversation) / f"{quote(name, safe='')}.txt"

    def _stored(self, conversation: ConversationId, name: str) -> str:
        return str(self._path(conversation, name).relative_to(self._home))

    def _write(self, path: Path, content: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(".part")
        partial.touch(mode=0o600)
        partial.write_text(content, encoding="utf-8", errors="replace", newline="")
        partial.replace(path)


def _found(content: str, wanted: str) -> str:
    """Each place with what stands around it; overlapping surroundings are joined."""
    stretches: list[tuple[int, int]] = []
    hits, at = 0, content.find(wanted)
    while at >= 0 and hits < MOST_HITS:
        hits += 1
        begin, end = max(0, at - AROUND), min(len(content), at + len(wanted) + AROUND)
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], end)
        else:
            stretches.append((begin, end))
        at = content.find(wanted, at + len(wanted))
    if not stretches:
        raise ToolError(f"{wanted!r} does not stand in that output of {len(content)} characters")
    rest = f"\n[there are more places than {MOST_HITS}; look for something rarer]" if at >= 0 else ""
    return "\n".join(f"[from character {begin}]\n{content[begin:end]}" for begin, end in stretches) + rest
