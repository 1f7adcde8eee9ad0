"""What an operator may set about tools; light, because the configuration embeds it (SPEC §20.4)."""

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """`[approvals]`. `approvers` are people such as `telegram:77` whose word counts everywhere; `requester` says
    whether the word of the one who asked for the work counts. `ask` and `deny` name tools (`*` stands for anything)
    that are always asked about, or never run.

    `auto_approve` answers yes for everybody (W-50); `force` opens every gate but the scope, also for what is denied
    (W-51). Both are for machines with nothing to lose, and cannot be set from a chat.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

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
