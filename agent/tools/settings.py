"""Settings of tools; light, because the configuration embeds it."""

import re
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Literal

from pydantic import SecretStr

from agent.core.settings_section import SECTION_CONFIG, refuse
from agent.tools.shell.policy import denied

HookPoint = Literal[
    "session_start",  # the first turn of a session has begun
    "on_turn_start",  # before each request: a failure ends the turn
    "pre_compact",  # right before room is made in the window
    "pre_prompt",  # a request is assembled and about to leave; not again for a repeat
    "pre_tool_use",  # before each call: a failure keeps it from running
    "post_tool_use",
    "turn_end",  # everything is stored
    "session_end",  # another session begins, or the conversation has been left alone
    "stop",  # the turn is over, nothing of its end is stored
    "cwd_changed",
    "file_changed",
    "permission_denied",
    "subagent_start",
    "subagent_stop",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """One `[[hooks]]` entry: `command` goes to /bin/sh at the point `on`, where tool and file match (empty: all)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    name: str
    on: HookPoint
    command: str
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    timeout_ms: int = 30_000
    stdin: bool = False

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = []
        if not self.name.strip():
            mistakes.append("name is empty; call the hook something")
        if not self.command.strip():
            mistakes.append("command is empty; write what is to be run")
        elif why := denied(self.command):  # unconditional, whoever wrote it
            mistakes.append(f"command must never run: {why}")
        if not 100 <= self.timeout_ms <= 600_000:
            mistakes.append(f"timeout_ms is {self.timeout_ms}; it must be 100 to 600000")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """`[approvals]`. `approvers` are people such as `telegram:77` whose word counts everywhere; `requester` says
    whether the word of the one who asked for the work counts. `ask` and `deny` name tools (`*` stands for anything)
    that are always asked about, or never run.

    `auto_approve` answers yes for everybody (W-50); `force` opens every gate but the scope, also for what is denied
    (W-51). Both are for machines with nothing to lose, and cannot be set from a chat.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    ttl_secs: float = 300.0
    approvers: tuple[str, ...] = ()
    requester: bool = True
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    auto_approve: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = []
        if not 10 <= self.ttl_secs <= 86_400:
            mistakes.append(f"ttl_secs is {self.ttl_secs:g}; it must be 10 to 86400")
        mistakes += [
            f'approvers: {name!r} is no person; write "<platform>:<user id>", such as "telegram:77"'
            for name in self.approvers
            if not all(name.partition(":"))
        ]
        if not self.requester and not self.approvers:
            mistakes.append("requester is false and there are no approvers: nobody could approve anything")
        refuse(mistakes)


# Named roles of the operator.

RESERVED = ("owner", "admin", "member", "guest", "blocked", "stranger")  # ranks, which nobody may redefine
_ROLE = re.compile(r"[\w-]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSettings:
    """One `[[roles]]` entry: rights that `people` (`telegram:77`) have beyond or below their rank.

    `platform_roles` are roles and user groups of the platforms (`discord:112233`), whose people have the role where the
    platform tells so. `tools`, `commands` and `models` (`provider/model`) are names or patterns; `!` before one denies.
    `approve` names tools: calls of these that others asked for may be approved by people of the role.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    name: str
    people: tuple[str, ...] = ()
    platform_roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = []
        if self.name.lower() in RESERVED:
            mistakes.append(f"name is {self.name!r}, which is a rank of its own; choose another")
        elif not _ROLE.fullmatch(self.name):
            mistakes.append(f"name is {self.name!r}; use up to 32 letters, digits, - and _")
        for key, names, example in (
            ("people", self.people, "telegram:77"),
            ("platform_roles", self.platform_roles, "discord:112233"),
        ):
            mistakes += [
                f'{key}: {name!r} names no platform; write it as "{example}"'
                for name in names
                if not all(name.partition(":"))
            ]
        for key in ("tools", "commands", "models", "approve"):
            mistakes += [f"{key}: {rule!r} names nothing" for rule in getattr(self, key) if not rule.strip("! ")]
        mistakes += [
            f"commands: {rule!r} begins with /; write {rule.replace('/', '', 1)!r}"
            for rule in self.commands
            if rule.removeprefix("!").startswith("/")
        ]
        refuse(mistakes)


# Sections `[tools.files]`, `[tools.shell]`, `[tools.web]`: tools that reach for files, programs and the web.

SearchProvider = Literal["", "searxng", "brave", "tavily"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """`[tools.files]`: how much one conversation's workspace may hold, in mebibytes and files."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    workspace_mb: int = 512
    workspace_files: int = 20_000

    def __post_init__(self) -> None:
        known = (("workspace_mb", self.workspace_mb), ("workspace_files", self.workspace_files))
        refuse([f"{key} is {value}; it must be 1 or more" for key, value in known if value < 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSettings:
    """`[tools.shell]`: where commands run, and what one may take of the machine.

    `mode`: "sandbox" runs them in bubblewrap, and there are none where it does not work; "open" runs them as the
    gateway's own user, with the limits and nothing else; "off". `network` opens it to sandboxed commands. `read_only`
    are further folders they see. Memory is of one process, in mebibytes; output in bytes; time in seconds. Of all
    conversations together `at_once` commands run, others wait for up to a minute. `timeout_s`
    ends a command a little before `[timeouts] tool_exec` (600) would end the whole call, and what it wrote with it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    mode: Literal["sandbox", "open", "off"] = "sandbox"
    network: bool = False
    read_only: tuple[str, ...] = ()
    timeout_s: float = 590.0
    cpu_s: int = 120
    memory_mb: int = 1024
    processes: int = 64
    at_once: int = 32
    file_mb: int = 256
    output_kb: int = 1024
    grace_s: float = 5.0

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value}; it must be more than 0"
            for key, value in (("timeout_s", self.timeout_s), ("grace_s", self.grace_s))
            if not (isfinite(value) and value > 0)
        ]
        mistakes += [
            f"{key} is {value}; it must be {least} or more"
            for key, value, least in (
                ("cpu_s", self.cpu_s, 1),
                ("memory_mb", self.memory_mb, 64),
                ("processes", self.processes, 8),
                ("at_once", self.at_once, 1),
                ("file_mb", self.file_mb, 1),
                ("output_kb", self.output_kb, 16),
            )
            if value < least
        ]
        mistakes += [f"read_only: {path!r} must begin with /" for path in self.read_only if not path.startswith("/")]
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """`[tools.web]`: what may be fetched, and who is asked for searches.

    `internal` are the only addresses within the operator's own network that may be fetched ("host" or "host:port");
    `blocked` are hosts that may not, with all below them; with `only`, nothing else may.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    internal: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    timeout_s: float = 20.0
    max_mb: float = 5.0
    search: SearchProvider = ""
    search_url: str = ""
    search_key: SecretStr | None = None
    search_results: int = 8

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value}; it must be more than 0"
            for key, value in (("timeout_s", self.timeout_s), ("max_mb", self.max_mb))
            if not (isfinite(value) and value > 0)
        ]
        if not 1 <= self.search_results <= 20:
            mistakes.append(f"search_results is {self.search_results}; it must be 1 to 20")
        if self.search == "searxng" and not self.search_url:
            mistakes.append('search is "searxng"; it needs search_url, such as "http://127.0.0.1:8888"')
        if self.search in ("brave", "tavily") and not (self.search_key and self.search_key.get_secret_value()):
            mistakes.append(f'search is "{self.search}"; it needs search_key, such as "env:SEARCH_KEY"')
        if self.search_url and not self.search_url.startswith(("http://", "https://")):
            mistakes.append("search_url must begin with http:// or https://")
        refuse(mistakes)
