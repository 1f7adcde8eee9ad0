"""The trace context of callers, and ids that any process finds again."""

import pytest

from agent.core.ids import RunId
from gateway.otel.context import TurnContext, accepted

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
WHOLE = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.requirement("G-126")
@pytest.mark.parametrize(
    ("header", "kept"),
    [
        pytest.param(WHOLE, WHOLE, id="as the standard has it"),
        pytest.param(f" {WHOLE} ", WHOLE, id="blanks around it"),
        pytest.param(f"01-{TRACE}-{SPAN}-01-more", f"01-{TRACE}-{SPAN}-01", id="a later version with more"),
        pytest.param(f"{WHOLE}-more", "", id="this version with more"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", "", id="the version that is none"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", "", id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", "", id="no span"),
        pytest.param(WHOLE.upper(), "", id="capitals"),
        pytest.param(f"00-{TRACE}-{SPAN}", "", id="too short"),
        pytest.param("", "", id="none"),
        pytest.param("0" * 1_000_000, "", id="endless"),
        pytest.param(f"{WHOLE}\n", WHOLE, id="the end of a line"),
    ],
)
def test_which_headers_count(header: str, kept: str) -> None:
    assert accepted(header) == kept


@pytest.mark.requirement("G-126")
def test_ids_follow_from_the_run_and_the_attempt_alone() -> None:
    one, again = TurnContext(RunId("r"), 1), TurnContext(RunId("r"), 1)
    second, other = TurnContext(RunId("r"), 2), TurnContext(RunId("s"), 1)
    assert (one.trace_id, one.turn_id, one.delivery_id(7)) == (again.trace_id, again.turn_id, again.delivery_id(7))
    assert (len(one.trace_id), len(one.turn_id)) == (16, 8)
    assert second.trace_id == one.trace_id != other.trace_id
    assert len({one.turn_id, second.turn_id, one.delivery_id(7), one.delivery_id(8), one.part_id(7)}) == 5


def test_a_callers_trace_is_gone_on_with() -> None:
    context = TurnContext(RunId("r"), 1, WHOLE)
    assert (context.trace_id.hex(), context.parent_id.hex()) == (TRACE, SPAN)
    assert context.turn_id == TurnContext(RunId("r"), 1).turn_id
