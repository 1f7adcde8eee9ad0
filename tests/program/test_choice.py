"""A chat keeps the provider that was chosen in it, across a restart and when the provider goes away."""

import anyio
import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram

BOB = {"id": 78, "first_name": "Bob"}


async def models_asked(doubles: Doubles) -> list[str]:
    return [call["body"]["model"] for call in (await doubles.llm.get("calls"))["calls"]]


@pytest.mark.slow  # three starts
@pytest.mark.requirement("Z-65", "Z-66", "Z-67", "Z-70", "Z-73", "G-33")
async def test_a_choice_outlives_restarts_and_falls_back_silently(doubles: Doubles, program: Start) -> None:
    def config(*names: str) -> str:
        return configs.ACCESS + configs.models(doubles, *names) + configs.telegram(doubles)

    telegram, tieline = OnTelegram(doubles), program(config("a", "b"))
    async with tieline:
        await telegram.say("/provider b")
        await telegram.hears("This chat now uses")
        await telegram.say("first")
        await telegram.hears("first")
        assert await tieline.stop() == 0
        tieline.start()
        await tieline.ready()
        await telegram.say("second")
        await telegram.hears("second")
        await telegram.say("third", user=BOB)
        await telegram.hears("third", chat=78)
        assert await models_asked(doubles) == ["model-b", "model-b", "model-a"]
        assert await tieline.stop() == 0

        tieline.write(config("a"))
        tieline.start()
        await tieline.ready()
        await telegram.say("fourth")
        await telegram.hears("fourth")
        await until(lambda: asked(doubles, 4))
        assert (await models_asked(doubles))[-1] == "model-a"
        assert not any("b" in text and "provider" in text.lower() for text in (await telegram.texts())[-1:])


@pytest.mark.slow
@pytest.mark.requirement("Z-02", "Z-20")
async def test_a_button_switches_and_reset_keeps_the_history(doubles: Doubles, program: Start) -> None:
    telegram = OnTelegram(doubles)
    async with program(configs.ACCESS + configs.models(doubles, "a", "b") + configs.telegram(doubles)):
        await telegram.say("remember the word plover")
        await telegram.hears("plover")
        await telegram.say("/provider")
        await telegram.hears("Providers")
        listed = (await telegram.messages())[-1]
        assert listed["reply_markup"]["inline_keyboard"][0][0]["callback_data"] == "c:/provider b"
        await telegram.press(listed["message_id"], "c:/provider b")
        await telegram.hears("This chat now uses")
        await telegram.say("/provider reset")
        await telegram.hears("The history is kept")
        await telegram.say("next")
        await telegram.hears("next")
        last = (await doubles.llm.get("calls"))["calls"][-1]["body"]
        assert last["model"] == "model-a"
        assert "plover" in str(last["messages"])


async def asked(doubles: Doubles, count: int) -> bool:
    return len((await doubles.llm.get("calls"))["calls"]) >= count


def down(*models: str) -> list[dict[str, object]]:
    return [{"match": {"model": model}, "reply": {"error": {"status": 500, "message": "down"}}} for model in models]


@pytest.mark.requirement("Z-20", "Z-33", "Z-73")
async def test_others_stand_in_for_a_while_and_the_list_may_change(doubles: Doubles, program: Start) -> None:
    def config(*names: str) -> str:
        chain = ", ".join(f'"{name}"' for name in names)
        quick = "[retry]\nbackoff_ms = 10\nbreaker_open_ms = 500\n"
        llm = f"[llm]\nfailover = [{chain}]\n"
        return configs.ACCESS + quick + llm + configs.models(doubles, *names) + configs.telegram(doubles)

    telegram, tieline = OnTelegram(doubles), program(config("a", "b", "c"), about={"llm.failover", "retry"})
    async with tieline:
        await doubles.llm.post("script", down("model-a"))
        await telegram.say("one")
        await telegram.hears("one")
        assert (await models_asked(doubles))[-1] == "model-b"
        await doubles.llm.post("script", down("model-a", "model-b"))
        await telegram.say("two")
        await telegram.hears("two")
        assert (await models_asked(doubles))[-1] == "model-c"
        await telegram.say("/status")
        assert "a is not answering just now; c stands in" in await telegram.hears("stands in")

        await doubles.llm.post("script", [])

        async def back() -> bool:
            await anyio.sleep(0.6)  # nobody may write as fast as a test asks
            await telegram.say("are you back")
            await telegram.hears("are you back")
            return (await models_asked(doubles))[-1] == "model-a"

        await until(back, what="the first provider's return")

        tieline.write(config("d", "a"), about={"llm.failover", "retry"})

        async def listed() -> bool:
            await anyio.sleep(0.6)  # nobody may write as fast as a test asks
            await telegram.say("/provider")
            return any("model-d" in text for text in await telegram.texts())

        await until(listed, what="the new provider")
        await telegram.say("the new default")
        await telegram.hears("the new default")
        assert (await models_asked(doubles))[-1] == "model-d"
