"""Roles of a process: what of the gateway's work it does (G-137). Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from agent.core.settings_section import SECTION_CONFIG

Role = Literal["ingress", "worker", "scheduler", "delivery"]
ROLES: tuple[Role, ...] = get_args(Role)
ALL = "all"


def roles_of(text: str) -> frozenset[Role]:
    """The roles in `all` or `ingress,delivery`. Raises ValueError with the known ones."""
    named = {part.strip() for part in text.split(",")}
    if named == {ALL}:
        return frozenset(ROLES)
    unknown = sorted(named.difference(ROLES))
    if unknown:
        known = ", ".join(ROLES)
        raise ValueError(f"{unknown[0]!r} is no role; write {ALL}, or one or more of {known} with commas between")
    return frozenset(role for role in ROLES if role in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """`[cluster]`: what this process does of the work; with SQLite it does all of it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    roles: str = ALL

    def conflicts(self, database_url: str) -> Iterator[str]:
        """Conflicts, each with its key in front and the fix."""
        try:
            chosen = roles_of(self.roles)
        except ValueError as error:
            yield f"cluster.roles: {error}"
            return
        if chosen != frozenset(ROLES) and database_url.startswith("sqlite"):
            yield (
                f"cluster.roles: {self.roles!r} needs PostgreSQL, since a SQLite file belongs to one process; write"
                ' roles = "all", or name a server in [database] url'
            )
