"""The tools that reach for files, programs, the web and other chats, built of what they need of the gateway."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.core.clock import Clock
from agent.core.tools import Tool
from agent.tools.files.edit import Edit
from agent.tools.files.grep import Grep
from agent.tools.files.listing import Glob, List
from agent.tools.files.moving import SetWorkingDirectory
from agent.tools.files.read import Read
from agent.tools.files.write import Write
from agent.tools.reach import FileSettings, ShellSettings, WebSettings
from agent.tools.sending import SendFile, Sending, SendMessage
from agent.tools.shell.shell import Room, Shell
from agent.tools.web.fetch_tools import WebFetch, WebScrape
from agent.tools.web.fetching import Fetcher
from agent.tools.web.search import WebSearch

# What there may be; `shell` and `web_search` only where the operator's machine and settings have them.
WORKING = frozenset(
    {"read", "write", "edit", "list", "glob", "grep", "set_working_directory", "shell", "web_fetch", "web_scrape",
     "web_search", "send_file", "send_message"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What they need. A turn brings its own settings, these are for calls outside of one; no `room`: no shell."""

    clock: Clock
    files: Callable[[], FileSettings]
    commands: Callable[[], ShellSettings]
    web: Callable[[], WebSettings]
    sending: Sending
    room: Room | None = None
    proxy: str | None = None


def working_tools(reach: Reach) -> tuple[Tool, ...]:
    """All that can be had here."""
    fetcher = Fetcher(reach.proxy)
    tools: list[Tool] = [
        Read(),
        Write(reach.files),
        Edit(reach.files),
        List(),
        Glob(),
        Grep(),
        SetWorkingDirectory(),
        WebFetch(fetcher, reach.web),
        WebScrape(fetcher, reach.web),
        SendFile(reach.sending),
        SendMessage(reach.sending),
    ]
    if reach.room is not None:
        tools.append(Shell(reach.room, reach.clock, reach.commands, reach.files))
    if reach.web().search:
        tools.append(WebSearch(reach.web, reach.proxy))
    return tuple(tools)
