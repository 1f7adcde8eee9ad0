"""Rules that need more of a platform than it gives by itself: which hold for an account."""

from dataclasses import dataclass
from typing import Any

import pytest

from gateway.access.needs import needs
from gateway.access.settings import AccessSettings


@dataclass(frozen=True)
class PlaceRule:
    match: str
    mention: str | None = "always"
    context: str | None = None


@dataclass(frozen=True)
class RoleRule:
    name: str
    platform_roles: tuple[str, ...] = ()


@pytest.mark.requirement("G-45")
@pytest.mark.parametrize(
    ("rules", "found"),
    [
        pytest.param({}, {}, id="the defaults need nothing"),
        pytest.param(
            {"access": AccessSettings(require_mention=False)},
            {"unaddressed messages": ("[access] require_mention = false",)},
            id="answers without a mention",
        ),
        pytest.param(
            {"access": AccessSettings(platform_admins=True)},
            {"platform roles": ("[access] platform_admins = true",)},
            id="administrators of the platform",
        ),
        pytest.param(
            {"places": [PlaceRule("telegram:-1005")]},
            {"unaddressed messages": ('[[places]] match = "telegram:-1005", mention = "always"',)},
            id="a place of the platform",
        ),
        pytest.param(
            {"places": [PlaceRule("telegram@work:*")]},
            {"unaddressed messages": ('[[places]] match = "telegram@work:*", mention = "always"',)},
            id="a place of the account",
        ),
        pytest.param(
            {"places": [PlaceRule("*")]},
            {"unaddressed messages": ('[[places]] match = "*", mention = "always"',)},
            id="any place",
        ),
        pytest.param(
            {"places": [PlaceRule("tele*:-1005*")]},
            {"unaddressed messages": ('[[places]] match = "tele*:-1005*", mention = "always"',)},
            id="a pattern for the platform",
        ),
        pytest.param(
            {"places": [PlaceRule("telegram:-1005", "ambient", "window")]},
            {
                "unaddressed messages": (
                    '[[places]] match = "telegram:-1005", mention = "ambient"',
                    '[[places]] match = "telegram:-1005", context = "window"',
                )
            },
            id="a place where it reads along",
        ),
        pytest.param({"places": [PlaceRule("telegram@home:*")]}, {}, id="a place of another account"),
        pytest.param({"places": [PlaceRule("slack:C1")]}, {}, id="a place of another platform"),
        pytest.param({"places": [PlaceRule("telegram:-1005", "mentioned")]}, {}, id="a place where it is mentioned"),
        pytest.param({"places": [PlaceRule("telegram:-1005", None)]}, {}, id="a place without a word on mentions"),
        pytest.param(
            {"roles": [RoleRule("keepers", ("slack:S1", "telegram:administrator"))]},
            {"platform roles": ('[[roles]] name = "keepers", platform_roles',)},
            id="a role of the platform",
        ),
        pytest.param(
            {"roles": [RoleRule("keepers", ("600000000000000001",))]},
            {"platform roles": ('[[roles]] name = "keepers", platform_roles',)},
            id="a role that names no platform",
        ),
        pytest.param({"roles": [RoleRule("keepers", ("slack:S1",))]}, {}, id="a role of another platform"),
        pytest.param({"roles": [RoleRule("keepers")]}, {}, id="a role of people alone"),
        pytest.param({"catches_up": True}, {"history": ("[network] catch_up_max_age",)}, id="it catches up"),
    ],
)
def test_what_rules_need(rules: dict[str, Any], found: dict[str, tuple[str, ...]]) -> None:
    given: dict[str, Any] = {"access": AccessSettings(), "catches_up": False} | rules
    assert needs("telegram@work", given.pop("access"), **given) == found
