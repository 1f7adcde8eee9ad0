"""Settings of MCP servers (`[mcp]`). Light: the configuration embeds it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import SecretStr

from agent.core.settings_section import SECTION_CONFIG, refuse

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,19}")  # no "_": names of tools are taken apart at "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """One `[[mcp.servers]]`: a program that is started (`command`), or an address (`url`).

    `approval`: "always" asks a person before each call; "writes" trusts the server's word on which of its tools only
    read; "never" asks nobody. `tools` are the only ones offered, `blocked` are not; both by the server's own names.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG
    has_entry: ClassVar[bool] = True  # in the configuration

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, SecretStr] = field(default_factory=dict)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    approval: Literal["always", "writes", "never"] = "always"
    tools: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        mistakes = []
        if not _NAME.fullmatch(self.name):
            mistakes.append(f"name is {self.name!r}; it must be 1 to 20 letters, digits and hyphens")
        if bool(self.command) == bool(self.url):
            mistakes.append(f"{self.name}: give command (a program to start) or url (an address), one of them")
        if self.url and not self.url.startswith(("http://", "https://")):
            mistakes.append(f"{self.name}: url must begin with http:// or https://")
        refuse(mistakes)

    @property
    def has_own_login(self) -> bool:
        """Whether the configuration itself says who we are to it."""
        return any(name.lower() == "authorization" for name in self.headers)


class AddedServerSettings(ServerSettings):
    """One that was added in a chat: by its address, and without an entry in the configuration."""

    __slots__ = ()
    has_entry: ClassVar[bool] = False


WANTS_LOGIN = "it wants a login, or another one"  # begins the trouble of a server that refuses a stranger


def login_file(home: Path, name: str) -> Path:
    """Where the login at that server is kept, made by `tieline mcp login`."""
    return home / "secrets" / f"mcp-{name.lower()}.json"


def is_login(name: str) -> bool:
    """Whether a file of that name among the secrets is a login."""
    return name.startswith("mcp-") and name.endswith(".json") and "/" not in name


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """`[mcp]`. `top_k`: of more tools than so many the model is shown those that fit its task; 0: all (W-33, W-34).

    `start_wait_s`: how long a turn waits for servers that are being connected for the first time. `call_wait_s`: how
    long a call waits for its server.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    top_k: int = 15
    start_wait_s: float = 5.0
    call_wait_s: float = 10.0
    servers: tuple[ServerSettings, ...] = ()

    def __post_init__(self) -> None:
        names = [one.name.lower() for one in self.servers]
        mistakes = [f"two servers are called {name!r}" for name in sorted(set(names)) if names.count(name) > 1]
        if not 0 <= self.top_k <= 200:
            mistakes.append(f"top_k is {self.top_k}; it must be 0 to 200")
        waits = {"start_wait_s": self.start_wait_s, "call_wait_s": self.call_wait_s}
        mistakes += [f"{name} is {wait:g}; it must be 0 to 60" for name, wait in waits.items() if not 0 <= wait <= 60]
        refuse(mistakes)

    @property
    def secrets(self) -> frozenset[str]:
        """Values given to servers that must not be seen elsewhere."""
        return frozenset(
            value.get_secret_value()
            for server in self.servers
            for value in (*server.env.values(), *server.headers.values())
        )
