"""Messages to an agent, as rows keep them."""

import json
from datetime import UTC, datetime

import pytest

from agent.inbox import AccessRole, Incoming, read_role, written_role
from agent.storage.payloads import decode_incoming, encode_incoming


@pytest.mark.parametrize(
    ("text", "role", "roles"),
    [
        pytest.param("member", "member", (), id="a row from before there were named roles"),
        pytest.param("guest ops on-call", "guest", ("ops", "on-call"), id="with named roles"),
    ],
)
def test_roles_of_a_row(text: str, role: AccessRole, roles: tuple[str, ...]) -> None:
    assert read_role(text) == (role, roles)
    assert written_role(role, roles) == text


def test_a_message_keeps_its_roles() -> None:
    said = Incoming(text="hello", role="guest", roles=("ops",), received_at=datetime(2026, 1, 1, tzinfo=UTC))
    stored = encode_incoming(said)
    assert decode_incoming(stored) == said
    before = {key: value for key, value in json.loads(stored).items() if key != "roles"}
    assert decode_incoming(json.dumps(before)).roles == (), "an older row is readable"
