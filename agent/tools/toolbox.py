"""The tools of the gateway by name, those that others lend it, and the frozen list that a model sees."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import anyio

from agent.core.clock import Clock
from agent.core.function_tools import tools_of
from agent.core.tools import Tool, ToolSpec
from agent.providers.provider import ToolSchema
from agent.tools.files.edit import EditTools, read
from agent.tools.files.search import glob, grep, list_folder, set_working_directory
from agent.tools.images import ImageTools, PictureService
from agent.tools.sending import Sending, SendTools
from agent.tools.settings import FileSettings, ShellSettings, WebSettings
from agent.tools.shell.shell import Room, Shell
from agent.tools.web.fetching import Fetcher
from agent.tools.web.tools import WebTools

KEPT_SCHEMAS = 256  # sets of visible tools; most conversations share one


class Toolbox:
    """Shared by all agents. the built-in tools never change; those of a lender are replaced as a whole.

    Two tools of one name are refused, and a lender's never take the place of the gateway's: where a tool comes from
    decides, not what it is called. `inventory` counts the changes.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.name in self._tools:
                raise ValueError(f"two tools are called {tool.spec.name!r}; rename one")
            self._tools[tool.spec.name] = tool
        self._lent: dict[str, frozenset[str]] = {}
        self._expected: dict[str, str] = {}
        self._untried: set[str] = set()
        self._came = anyio.Event()
        self.inventory = 0
        self._know()
        self._schemas: dict[tuple[frozenset[str], tuple[str, ...]], ToolSchema] = {}

    def _know(self) -> None:
        """Note the facts that every request asks for, before it asks."""
        self.names = frozenset(self._tools)
        self.categories = frozenset(tool.spec.category for tool in self._tools.values())

    def make_schemas(self) -> None:
        """Make the schemas that are made when something first asks, so that no turn waits for them. Blocks."""
        for one in tuple(self._tools.values()):
            len(one.spec.schema)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def lend(self, lender: str, tools: Iterable[Tool]) -> None:
        """Put these in the place of all that the lender has lent before."""
        for name in self._lent.pop(lender, frozenset()):
            del self._tools[name]
        added = {tool.spec.name: tool for tool in tools if tool.spec.name not in self._tools}
        self._tools |= added
        self._lent[lender] = frozenset(added)
        self._expected.pop(lender, None)
        self.tried(lender)
        self._schemas.clear()
        self.inventory += 1
        self._know()

    def expect(self, lender: str, prefix: str) -> None:
        """Expect that lender to lend tools whose names begin so, as soon as it can."""
        self._expected[lender] = prefix
        self._untried.add(lender)

    def tried(self, lender: str) -> None:
        """Note that the lender has connected, or that its last attempt failed."""
        self._untried.discard(lender)
        self._came.set()
        self._came = anyio.Event()

    @property
    def awaits_first(self) -> bool:
        """Whether some lender has neither come nor failed yet."""
        return bool(self._untried)

    @property
    def waiting(self) -> int:
        """How many wait for what is expected."""
        return self._came.statistics().tasks_waiting

    async def all_tried(self) -> None:
        """Wait until every lender has come, or could not. Give it a deadline."""
        while self._untried:
            await self._came.wait()

    def is_expected(self, name: str) -> bool:
        """Whether a tool of that name is not there and may come."""
        return name not in self._tools and any(map(name.startswith, self._expected.values()))

    async def arrived(self, name: str) -> None:
        """Wait until the tool is there, or nobody is expected any more who might lend it. Give it a deadline."""
        while self.is_expected(name):
            await self._came.wait()

    def specs(self, names: frozenset[str]) -> tuple[ToolSpec, ...]:
        """The specifications of the tools of these names."""
        return tuple(tool.spec for name, tool in self._tools.items() if name in names)

    def schema(self, names: frozenset[str], extra: Sequence[ToolSpec] = ()) -> ToolSchema:
        """The schema of these tools, sorted by name: the same object for the same tools (Z-03, R-03).

        `extra` are specs that are no tools of the box, told apart by their descriptions.
        """
        key = (names, tuple(spec.description for spec in extra))
        schema = self._schemas.get(key)
        if schema is None:
            if len(self._schemas) >= KEPT_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            specs = sorted((*self.specs(names), *extra), key=lambda spec: spec.name)
            schema = self._schemas[key] = ToolSchema(specs=tuple(specs))
        return schema

    def nearest(self, name: str, among: frozenset[str]) -> str:
        """A hint for a model that called a tool it does not have."""
        known = sorted(among)
        near = get_close_matches(name, known, n=1)
        return f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"


# The working tools (files, programs, web, other chats), built from what they need of the gateway.

# All tools that there may be; `shell`, `web_search` and `image` only where the machine and the settings have them.
FILE_FUNCTIONS = (read, list_folder, glob, grep, set_working_directory)
WORKING_TOOLS = (
    *FILE_FUNCTIONS,
    *(one for kind in (EditTools, WebTools, SendTools, ImageTools, Shell) for one in tools_of(kind)),
)
WORKING = frozenset(one.spec.name for one in WORKING_TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The needs of these tools. Its settings are for calls outside of a turn; no `room`: no shell; no `pictures`, or
    none with a provider: no `image`."""

    clock: Clock
    files: Callable[[], FileSettings]
    commands: Callable[[], ShellSettings]
    web: Callable[[], WebSettings]
    sending: Sending
    pictures: PictureService | None = None
    room: Room | None = None
    proxy: str | None = None


def working_tools(reach: Reach) -> tuple[Tool, ...]:
    """All that can be had here."""
    fetcher = Fetcher(reach.proxy)
    web = WebTools(reach.web, fetcher, reach.proxy)
    tools: list[Tool] = [
        *FILE_FUNCTIONS,
        *tools_of(EditTools(reach.files)),
        web.web_fetch,
        web.web_scrape,
        *tools_of(SendTools(reach.sending)),
    ]
    if reach.room is not None:
        tools.append(Shell(reach.room, reach.clock, reach.commands, reach.files).shell_tool)
    if reach.pictures is not None and reach.pictures.settings.provider:
        tools += tools_of(ImageTools(reach.pictures, reach.sending, fetcher, reach.web))
    if reach.web().search:
        tools.append(web.web_search)
    return tuple(tools)
