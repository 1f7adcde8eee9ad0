"""Nothing lost, nothing twice: the real program is killed and started again on the same home."""

import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import ANN, OnTelegram

SLOW = [{"match": {"contains": "slow"}, "reply": {"text": "the slow answer", "hold": "for ever"}}]


@pytest.mark.slow  # the sweep of make faults kills it there as well
@pytest.mark.requirement("W-12", "W-13", "B-52")
async def test_a_kill_during_the_model_call_answers_once_after_the_restart(doubles: Doubles, program: Start) -> None:
    await doubles.llm.post("script", SLOW)
    telegram, tieline = (
        OnTelegram(doubles),
        program(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)),
    )
    async with tieline:
        await telegram.say("slow please")
        await until(lambda: asked(doubles, 1), what="the model call")
        tieline.kill()
        await doubles.llm.post("script", [{"match": {"contains": "slow"}, "reply": {"text": "the slow answer"}}])
        tieline.start()
        await tieline.ready()
        await telegram.hears("the slow answer")
        await telegram.say("are you there")
        await telegram.hears("are you there")
        assert sum("the slow answer" in text for text in await telegram.texts()) == 1


@pytest.mark.slow  # three starts; the sweep of make faults repeats it
@pytest.mark.requirement("G-12")
async def test_the_same_update_twice_or_after_a_restart_is_answered_once(doubles: Doubles, program: Start) -> None:
    telegram, tieline = (
        OnTelegram(doubles),
        program(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)),
    )
    update = {"user": ANN, "text": "only once", "duplicate": 1}
    async with tieline:
        await doubles.telegram.post("updates", update)
        await telegram.hears("only once")
        await tieline.settled()
        tieline.kill()
        raw = (await doubles.telegram.get("state"))["messages"][0]
        tieline.start()
        await tieline.ready()
        await doubles.telegram.post("updates", {"raw": {"message": raw}})
        await telegram.say("and now")
        await telegram.hears("and now")
        assert sum("only once" in text for text in await telegram.texts()) == 1


async def asked(doubles: Doubles, count: int) -> bool:
    """The model was called so often."""
    return len((await doubles.llm.get("calls"))["calls"]) >= count
