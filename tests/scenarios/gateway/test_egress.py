"""No secret of the configuration leaves the gateway by any way: seen on the bytes that accounts were given."""

from collections.abc import Callable

import pytest

from agent.core.ids import ConversationId
from agent.core.outbox import Question
from agent.tools.files.paths import workspace_of
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, World, calling

SECRET = "sk-double"  # the key of the model double: of no known shape, but ours


@pytest.mark.requirement("G-28")
async def test_previews_answers_status_questions_and_notices_hold_no_secret(
    world_of: "Callable[..., World]",
) -> None:
    unstarted = world_of()
    leak = f"It is {SECRET}, that is sk-**dou**ble. " + "And more words follow. " * 12
    unstarted.script({"match": {"contains": "tell"}, "reply": {"text": leak, "token_delay": 0.04}})
    async with unstarted.process() as world:
        await world.say("tell me")
        await world.shows("And more words")
        await world.settled()
        await world.notice(f"notice {SECRET}", ANN)
        await world.shows("notice")
        voice = world.services.delivery.outbox_for(world.said("").key)
        voice.status(f"status {SECRET}")
        await until(lambda: any("status" in call.text for call in world.screen().calls))
        channel = world.services.delivery.channel_for(world.said("").key)
        assert channel is not None
        question = Question(prompt=f"really {SECRET}?", asked_of=None, timeout_s=5)

        async def ask() -> None:
            await world.services.delivery.questions.ask(channel, question, "en")

        async with running(ask):
            await world.shows("really")
        calls = world.screen().calls
        assert {"send", "edit"} <= {call.act for call in calls}, "also edits of a growing answer"
        leaked = [call for call in calls if SECRET[:6] in call.text or "double" in call.text]
        assert leaked == []
        assert any("[redacted]" in text for text in world.texts())


@pytest.mark.requirement("Z-03", "G-28")
async def test_a_secret_that_a_tool_comes_upon_reaches_no_model_in_any_conversation(
    world_of: "Callable[..., World]",
) -> None:
    async with world_of().process() as world:
        world.script(*calling("read it", "read", path="found.txt"))
        for person in (ANN, BOB):
            folder = workspace_of(world.home, ConversationId(f"telegram:{person}"))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "found.txt").write_text(f"the key is {SECRET}, keep it")
            await world.answered("read it", "Done: read it", person=person)
            (result,) = [one["content"] for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"]
            assert "the key is [redacted], keep it" in result
        assert not [body for body in world.llm.bodies if SECRET in str(body)]
