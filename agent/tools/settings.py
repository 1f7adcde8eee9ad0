"""What an operator may set about tools; light, because the configuration embeds it (SPEC §20.4)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from agent.core.section_config import SECTION_CONFIG
from agent.tools.shell.denied import denied

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
        elif why := denied(self.command):  # unconditional, whoever wrote it (SPEC §12.1)
            mistakes.append(f"command must never run: {why}")
        if not 100 <= self.timeout_ms <= 600_000:
            mistakes.append(f"timeout_ms is {self.timeout_ms}; it must be 100 to 600000")
        if mistakes:
            raise ValueError("; ".join(mistakes))


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
        if mistakes:
            raise ValueError("; ".join(mistakes))
