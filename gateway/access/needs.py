"""Rules of the configuration that need more of a platform than it gives by itself. Pure."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Protocol

from gateway.access.settings import AccessSettings
from gateway.channels.adapter import Affected


class PlaceRule(Protocol):
    """A `[[places]]` section, as far as it matters here."""

    @property
    def match(self) -> str: ...

    @property
    def mention(self) -> str | None: ...

    @property
    def context(self) -> str | None: ...


class RoleRule(Protocol):
    """A `[[roles]]` section, as far as it matters here."""

    @property
    def name(self) -> str: ...

    @property
    def platform_roles(self) -> Iterable[str]: ...


def needs(
    channel_type: str,
    access: AccessSettings,
    *,
    places: Iterable[PlaceRule] = (),
    roles: Iterable[RoleRule] = (),
    catches_up: bool = True,
) -> Mapping[Affected, tuple[str, ...]]:
    """The rules that hold for an account, by what each needs of its platform; each named as the configuration has it.

    `catches_up` tells whether what was written while the gateway heard nothing is answered at all.
    """
    unaddressed = [
        *(["[access] require_mention = false"] if not access.require_mention else []),
        *(
            f'[[places]] match = "{place.match}", {key} = "{value}"'
            for place in places
            for key, value in (("mention", place.mention), ("context", place.context))
            if value in ("always", "ambient", "window") and _concerns(place.match, channel_type)
        ),
    ]
    people = [
        *(["[access] platform_admins = true"] if access.platform_admins else []),
        *(
            f'[[roles]] name = "{role.name}", platform_roles'
            for role in roles
            if any(_concerns(named, channel_type) for named in role.platform_roles)
        ),
    ]
    history = ["[network] catch_up_max_age"] if catches_up else []
    found: dict[Affected, list[str]] = {
        "unaddressed messages": unaddressed,
        "platform roles": people,
        "history": history,
    }
    return {affected: tuple(rules) for affected, rules in found.items() if rules}


def _concerns(named: str, channel_type: str) -> bool:
    """Whether a name or pattern may be of this account: `telegram:…`, `telegram@work:…`, `*`; without `:` of any."""
    account, colon, _ = named.partition(":")
    platform = channel_type.partition("@")[0]
    return not colon or fnmatchcase(channel_type, account) or fnmatchcase(platform, account)
