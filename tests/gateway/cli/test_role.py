"""`tieline run --role`: a process that cannot be what it is told does not start."""

import pytest

from tests.gateway.cli.conftest import Tieline


@pytest.mark.requirement("G-137")
def test_the_command_refuses_what_it_cannot_be(tieline: Tieline) -> None:
    unknown = tieline("run", "--role", "boss", TIELINE__CLUSTER__ROLES="all")
    assert unknown.exit_code != 0
    assert "'boss' is no role; write all, or one or more of" in unknown.output
    alone = tieline("run", "--role", "worker", TIELINE__CLUSTER__ROLES="all")
    assert alone.exit_code != 0
    assert "a SQLite file belongs to one process" in alone.output
