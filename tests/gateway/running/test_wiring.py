"""Present rights of a person who set something up earlier."""

import pytest

from agent.core.ids import PersonId
from gateway.access.grants import AccessBook
from gateway.access.settings import AccessSettings
from gateway.running.rights import is_blocked
from gateway.storage.grants import Grant

BOB = "telegram:78"
BLOCK = Grant(subject=BOB, kind="person", role="blocked", granted_by="telegram:77", at=1)


@pytest.mark.parametrize(
    ("book", "access", "blocked"),
    [
        pytest.param(AccessBook(), AccessSettings(allow=(BOB,)), False, id="let in"),
        pytest.param(AccessBook(), AccessSettings(), False, id="who lost their place is a stranger, not blocked"),
        pytest.param(AccessBook([BLOCK]), AccessSettings(allow=(BOB,)), True, id="by a command"),
        pytest.param(AccessBook(), AccessSettings(allow=(BOB,), block=(BOB,)), True, id="by the configuration"),
    ],
)
def test_who_is_blocked(book: AccessBook, access: AccessSettings, blocked: bool) -> None:
    assert is_blocked(book, access, PersonId(BOB)) is blocked
    assert not is_blocked(book, access, None)
