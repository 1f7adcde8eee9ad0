"""Doors for other programs: the real program, killed while one waits, and `tieline key`, `send` and `ask`."""

import anyio
import openai
import pytest

from tests.fakes.waiting import until
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles
from tests.program.people import OnTelegram


@pytest.mark.slow  # three starts of the program and five commands
async def test_a_program_that_repeats_after_a_kill_gets_the_answer_of_the_one_turn(
    doubles: Doubles, program: Start
) -> None:
    tieline = program(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles))
    rule = {"match": {"contains": "count"}, "reply": {"text": "There are nine.", "hold": "nine", "hold_after": 1}}
    await doubles.llm.post("script", [rule], append="1")
    key = ""

    async def ask() -> str:
        client = openai.AsyncOpenAI(base_url=f"{tieline.url}/v1", api_key=key, max_retries=0)
        answer = await client.chat.completions.create(
            model="tieline",
            user="anna",
            messages=[{"role": "user", "content": "count them"}],
            extra_headers={"Idempotency-Key": "once"},
        )
        return str(answer.choices[0].message.content)

    async def cut_off() -> None:
        with pytest.raises(openai.APIConnectionError):
            await ask()

    async def asked() -> bool:
        return bool((await doubles.llm.get("calls"))["calls"])

    async with tieline, anyio.create_task_group() as tasks:
        made = await tieline.cli("key", "create", "crm", "--scope", "chat")
        key = made.stdout.strip()
        assert key.startswith("sk-tieline-"), made.stderr
        tasks.start_soon(cut_off)
        await until(asked)
        tieline.kill()
    await doubles.llm.post("release", {"name": "nine"})
    async with tieline:
        assert await ask() == "There are nine."
        tieline.kill()
    async with tieline:
        assert await ask() == "There are nine."
        assert tieline.rows("select status, count(*) from inbox group by status") == [("done", 1)]
        telegram = OnTelegram(doubles)
        await telegram.say("good morning")
        await telegram.hears("good morning")
        sent = await tieline.cli("send", "telegram:77", "-", stdin="**Build** 42 failed")
        assert sent.stdout == "Sent.\n", sent.stderr
        await telegram.hears("Build 42 failed")
        told = await tieline.cli("ask", "telegram:77", "how are you?")
        assert "how are you?" in told.stdout, told.stderr
        await telegram.hears("how are you?")
        nowhere = await tieline.cli("send", "matrix:1", "hello")
        assert nowhere.returncode == 1
        assert "no account here" in nowhere.stderr
        assert key[:20] not in tieline.log.read_text()
