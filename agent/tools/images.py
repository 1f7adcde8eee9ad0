"""The tool that makes a picture of words, keeps it in the workspace and sends it; it spends."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Protocol

import anyio
from pydantic import Field

from agent.core.errors import AgentError, ToolError
from agent.core.files.safe import Names, Tree
from agent.core.function_tools import tool
from agent.core.ids import CostAttribution
from agent.core.phrases import money
from agent.core.tools import Appraisal, ToolContext
from agent.providers.images import ImageSettings, MadePicture
from agent.tools.files.paths import shown, tree_of
from agent.tools.sending import Sending
from agent.tools.settings import WebSettings
from agent.tools.web.fetching import Fetcher

FOLDER = "pictures"  # of the workspace; below it one for each turn
LONGEST_PROMPT, LONGEST_CAPTION, LONGEST_REASON = 4_000, 1_000, 400  # characters
MEBIBYTE = 1024 * 1024
# The types that every platform shows, by ending, and how their bytes begin.
KINDS = {
    "png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    "jpg": ("image/jpeg", b"\xff\xd8\xff"),
    "webp": ("image/webp", b"RIFF"),
}
PNG_END = b"IEND\xaeB`\x82"


class PictureService(Protocol):
    """Makes pictures on somebody's account (`agent.pictures.Pictures`)."""

    @property
    def settings(self) -> ImageSettings: ...

    async def make(self, prompt: str, payer: CostAttribution) -> MadePicture: ...


class ImageTools:
    """Offered where `[images]` names a provider."""

    def __init__(
        self, pictures: PictureService, sending: Sending, fetcher: Fetcher, web: Callable[[], WebSettings]
    ) -> None:
        self._pictures = pictures
        self._sending = sending
        self._fetcher = fetcher
        self._web = web

    @tool(
        category="exec",
        risk="write",
        touches="place",
        effects=["write", "spend"],
        concurrency_safe=False,
        retryable=True,
    )
    async def image(
        self,
        context: ToolContext,
        *,
        prompt: Annotated[
            str, Field(min_length=1, max_length=LONGEST_PROMPT, description="What the picture shows, in detail.")
        ],
        caption: Annotated[
            str, Field(max_length=LONGEST_CAPTION, description="A sentence for people that goes with it.")
        ] = "",
    ) -> str:
        """Makes a picture from a description, sends it to the people of this conversation and keeps it in the
        workspace. It costs money: call it only when somebody wants a picture."""
        tree, key = tree_of(context), context.idempotency_key
        found = await anyio.to_thread.run_sync(_made_before, tree, key)
        if found is None:
            found = await self._make(prompt, context, tree)
        names, data = found
        mime_type = KINDS[names[-1].rpartition(".")[2]][0]
        await self._sending.file(context.conversation, data, names[-1], mime_type, caption, key)
        return f"The picture is on its way to the chat; it is kept as {shown(names)} ({len(data)} bytes)."

    @image.appraised_by
    async def _appraise_image(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        """A person is asked, and may allow every later picture here."""
        price = self._pictures.settings.usd_per_image
        costs = f" (about {money(price)})" if price else ""
        told = f"\nCaption: {caption}" if (caption := arguments.get("caption")) else ""
        return Appraisal(
            arguments={"caption": "", **arguments},
            reason="a picture costs money",
            shown=f"Make a picture{costs}:\n{arguments['prompt']}{told}",
            covers="every picture in this chat",
        )

    async def _make(self, prompt: str, context: ToolContext, tree: Tree) -> tuple[Names, bytes]:
        settings = self._pictures.settings
        if not settings.provider or context.payer is None:
            raise ToolError("pictures are switched off here ([images] provider)")
        made_so_far = await anyio.to_thread.run_sync(_count, tree, context.idempotency_key)
        if made_so_far >= settings.most_per_turn:
            raise ToolError(f"no more than {settings.most_per_turn} pictures are made for one message")
        try:
            made = await self._pictures.make(prompt, context.payer)
        except AgentError as error:
            raise ToolError(f"no picture was made: {str(error)[:LONGEST_REASON]}") from error
        most = int(settings.max_mb * MEBIBYTE)
        data = made.data or await self._fetched(made, settings.max_mb)
        ending = _kind(data)
        if ending is None or len(data) > most:
            raise ToolError(
                f"no picture was made: the service gave {len(data)} bytes that are no picture of a known type"
            )
        names = (*_folder(context.idempotency_key), f"{_stem(context.idempotency_key)}.{ending}")
        await anyio.to_thread.run_sync(tree.write, names, data)
        return names, data

    async def _fetched(self, made: MadePicture, max_mb: float) -> bytes:
        """The picture from the address that the service gave: anybody's, so with the limits of `[tools.web]`."""
        document = await self._fetcher.get(made.url, replace(self._web(), max_mb=max_mb))
        if document.status != 200 or document.cut:
            raise ToolError(f"no picture was made: its address answers {document.status}")
        return document.data


def _folder(key: str) -> Names:
    """The pictures of one turn: a key begins with the number of the message that is answered."""
    return FOLDER, key.partition(":")[0]


def _stem(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=4).hexdigest()


def _made_before(tree: Tree, key: str) -> tuple[Names, bytes] | None:
    """The picture that this very call has made before a crash."""
    for ending in KINDS:
        names = (*_folder(key), f"{_stem(key)}.{ending}")
        if tree.look(names) is not None:
            return names, tree.read(names)
    return None


def _count(tree: Tree, key: str) -> int:
    folder = _folder(key)
    return len(tree.folder(folder)) if tree.is_folder(folder) else 0


def _kind(data: bytes) -> str | None:
    """The ending for a picture, which must be whole as far as its bytes tell; None for anything else."""
    for ending, (_, sign) in KINDS.items():
        if data.startswith(sign):
            broken = (ending == "png" and not data.endswith(PNG_END)) or (ending == "webp" and data[8:12] != b"WEBP")
            return None if broken else ending
    return None
