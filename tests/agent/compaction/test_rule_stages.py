"""Active messages are put back after every summary, byte for byte and behind the pinned ones."""

import pytest

from agent.compaction.rule_stages import replace_oldest
from agent.compaction.stages import Stage
from agent.compaction.state import CompactionState, Options
from agent.compaction.subgoals import Tier
from agent.core.messages import Message, TextPart, text_message


def talk(state: CompactionState, count: int, *, pinned: int) -> list[Message]:
    said = [
        Message(role="user" if number % 2 == 0 else "assistant", parts=(TextPart(text=f"m{number} " + "x" * 400),),
                pinned=number == pinned)
        for number in range(count)
    ]  # fmt: skip
    state.window.extend(said)
    return said


@pytest.mark.requirement("Z-50", "Z-51", "H-08", "G-22")
def test_the_order_is_summary_pinned_active_tail() -> None:
    state = CompactionState(count=lambda message: len(message.content))
    state.begin_turn(Options())
    said = talk(state, 12, pinned=2)
    state.watch.subgoals.push_active("the newest half", 6)
    state.watch.subgoals.extend_active(10)
    reclaimed = replace_oldest(
        state, 9, "what was", label="[s]", stage=Stage.HARD, tokens_before=1, mechanical=False
    )  # fmt: skip
    assert reclaimed.count == 5
    messages = state.window.messages
    assert messages[0].content == "[s]\nwhat was"
    assert messages[1:] == [said[2], *said[6:12]], "the very same messages"
    assert list(state.tiers.active(len(messages))) == [2, 3, 4, 5]
    assert state.tiers.tier(1) is not Tier.ACTIVE
    state.window.append(text_message("user", "and now?"))
    assert state.tiers.tier(6) is not Tier.ACTIVE
