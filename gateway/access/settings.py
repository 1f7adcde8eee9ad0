"""Settings of access: who may talk to the bot. Closed unless opened."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

from agent.core.settings_section import SECTION_CONFIG
from agent.tools.settings import RoleSettings

DirectPolicy = Literal["pairing", "allowlist", "open", "closed"]
GroupPolicy = Literal["allowlist", "open", "closed"]
BotPolicy = Literal["ignore", "mentions"]

# In the dashboard: look; decide, retry, pause and the like; read what people wrote; change the configuration.
DashboardRight = Literal["view", "operate", "transcripts", "configure"]
DASHBOARD_RIGHTS: frozenset[DashboardRight] = frozenset(get_args(DashboardRight))

# Named roles whose section says nothing of the dashboard.
DASHBOARD_ROLES: Mapping[str, frozenset[DashboardRight]] = MappingProxyType(
    {"viewer": frozenset({"view"}), "operator": frozenset({"view", "operate"})}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """The `[access]` section.

    People are named `<platform>:<user id>`, groups `<platform>:<place>`. `admins` may use admin commands everywhere.
    Who is on `block` is never answered, whatever else names them. `bots` lets other bots talk to this one when they
    mention it, within the loop guard. `messages_per_minute` is one person's flood limit in one chat.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    dm: DirectPolicy = "pairing"
    groups: GroupPolicy = "allowlist"
    require_mention: bool = True
    allow: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    platform_admins: bool = False
    bots: BotPolicy = "ignore"
    messages_per_minute: int = 20

    def mistakes(self) -> list[str]:
        """Mistakes, one line each."""
        named = (
            ("allow", self.allow),
            ("allow_groups", self.allow_groups),
            ("admins", self.admins),
            ("block", self.block),
        )
        found = [
            f'access.{key}: {name!r} names no platform; write it as "{_example(key)}"'
            for key, names in named
            for name in names
            if ":" not in name
        ]
        if self.messages_per_minute < 1:
            found.append(f"access.messages_per_minute: {self.messages_per_minute} is too small; use 1 or more")
        return found


def _example(key: str) -> str:
    return "telegram:-1005" if key == "allow_groups" else "telegram:77"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSettings:
    """One `[[people]]`: accounts of one person. With `rights` the ranks and roles of one hold for all of them."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    name: str
    accounts: tuple[str, ...]
    rights: bool = False

    def mistakes(self) -> list[str]:
        """Mistakes, one line each."""
        found = [
            f'accounts: {name!r} names no platform; write it as "telegram:77"'
            for name in self.accounts
            if not all(name.partition(":"))
        ]
        if len(set(self.accounts)) < 2:
            found.append("accounts: name two or more accounts of one person")
        if not self.name.strip():
            found.append("name: is empty; name the person")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSection(RoleSettings):
    """One `[[roles]]`: what an agent goes by, and the rights in the dashboard (left out: by the name of the role)."""

    dashboard: tuple[DashboardRight, ...] | None = None

    @property
    def rights(self) -> frozenset[DashboardRight]:
        """The rights in the dashboard of the role's people."""
        if self.dashboard is None:
            return DASHBOARD_ROLES.get(self.name.lower(), frozenset())
        return frozenset(self.dashboard)
