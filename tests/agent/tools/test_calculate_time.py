"""The time in any zone."""

from dataclasses import replace

import pytest

from agent.core.cancellation import CancelToken
from agent.core.errors import ToolError
from agent.core.ids import CallId, ConversationId, RunId
from agent.core.tools import Asker, ToolContext
from agent.tools.calculate import TimeTools
from tests.fakes.clock import FakeClock

CONTEXT = ToolContext(
    conversation=ConversationId("console:"),
    run=RunId("r"),
    call=CallId("c"),
    person=None,
    idempotency_key="k",
    cancel=CancelToken(),
)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "Thursday, 2026-01-01T12:00:00+00:00 (UTC)"),
        ({"zone": "Europe/Berlin"}, "Thursday, 2026-01-01T13:00:00+01:00 (Europe/Berlin, CET)"),
        ({"zone": "Pacific/Kiritimati"}, "Friday, 2026-01-02T02:00:00+14:00 (Pacific/Kiritimati, +14)"),
    ],
)
async def test_current_time(arguments: dict[str, str], said: str, clock: FakeClock) -> None:
    assert await TimeTools(clock).current_time.run(arguments, CONTEXT) == said


async def test_without_a_zone_it_is_that_of_the_person_who_asked(clock: FakeClock) -> None:
    tool, context = TimeTools(clock).current_time, replace(CONTEXT, asker=Asker(zone="Asia/Tokyo"))
    assert await tool.run({}, context) == "Thursday, 2026-01-01T21:00:00+09:00 (Asia/Tokyo, JST)"
    assert "(UTC)" in await tool.run({"zone": "UTC"}, context)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [("Europe/Berln", "did you mean Europe/Berlin"), ("../../etc/passwd", "no time zone"), ("", None)],
)
async def test_an_unknown_zone_says_what_is_near(zone: str, hint: str | None, clock: FakeClock) -> None:
    if hint is None:
        assert "UTC" in await TimeTools(clock).current_time.run({"zone": zone}, CONTEXT)
        return
    with pytest.raises(ToolError, match=hint):
        await TimeTools(clock).current_time.run({"zone": zone}, CONTEXT)
