"""A model or a platform that fails, and what the person gets: the answer, or one short message; never silence, never a
sign of life that stays (docs/reliability.md). The real program, both model APIs, Telegram."""

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import count
from typing import Any

import anyio
import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.doubles import all_doubles, until
from tests.program.people import GROUP, OnTelegram
from tests.program.running import Program
from tests.program.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUICK = """
[retry]
max_retries = 2
backoff_ms = 50
stream_retries = 2
stream_backoff_ms = 50
[timeouts]
llm = 6.0
"""
TYPING_EVERY_S = 4.0
ANSWER = "Here is the whole answer, word by word."
PARTIAL = "Here is the"

BUSY = "The model service “a” is not answering just now."
CUT = "The connection to the model broke off and could not be restored."
REFUSED = "The model service “a” refused the request"
TOO_LONG = "This conversation no longer fits the model"

Reply = Mapping[str, Any]

# What does not depend on the model's kind is tried with one.
with_one_model = pytest.mark.parametrize("stage", ["openai"], indirect=True)
_persons = count(1001)


def error(status: int, **more: Any) -> Reply:
    return {"error": {"status": status, "message": "trouble", **more}}


def broken(kind: str, after_tokens: int, **more: Any) -> Reply:
    return {"text": ANSWER, "token_delay": 0.01, "fault": {"kind": kind, "after_tokens": after_tokens, **more}}


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["openai", pytest.param("anthropic", marks=pytest.mark.slow)]
)
async def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with all_doubles() as doubles:
        program = Program(tmp_path_factory.mktemp("h", numbered=True), "")
        access = configs.ACCESS + "messages_per_minute = 600\n"
        model = configs.models(doubles, "a", kind=request.param)
        program.write(
            access + QUICK + model + configs.telegram(doubles, more="draft_interval_ms = 500"),
            about={"retry", "timeouts"},
        )
        async with program:
            stage = Stage(doubles, program)
            await warm_up(stage)
            yield stage


async def warm_up(stage: Stage) -> None:
    """Until the model's library is loaded: that takes longer than the silence that counts as a stall here."""

    async def answered() -> bool:
        person = Person(stage)
        await person.asks({"text": "warm"})
        return "warm" in await person.hears("")

    await until(answered, what="a first answer")


class Person(OnTelegram):
    """A new person, to whom the model answers as told."""

    def __init__(self, stage: Stage) -> None:
        number = next(_persons)
        super().__init__(stage.doubles, {"id": number, "first_name": f"P{number}"})
        self.stage = stage
        self.words = f"question of {number}"

    async def asks(self, *replies: Reply) -> None:
        """Ask; the model gives these replies in order, the last one as often as it is asked."""
        for reply in replies[:-1]:
            rule = {"match": {"contains": self.words}, "reply": reply, "times": 1}
            await self.stage.doubles.llm.post("script", [rule], append="1")
        last = {"match": {"contains": self.words}, "reply": replies[-1]}
        await self.stage.doubles.llm.post("script", [last], append="1")
        await self.say(self.words)

    async def gets(self, *texts: str) -> None:
        """Wait until these are the bot's messages, each by its beginning, and nothing else is on the screen."""

        async def same() -> bool:
            seen, state = await self.texts(), await self.state()
            left = [
                key
                for what in ("drafts", "reactions")
                for key, value in state[what].items()
                if value and self._is_mine(key)
            ]
            return len(seen) == len(texts) and all(map(str.startswith, seen, texts)) and not left

        try:
            await until(same)
        except AssertionError:
            raise AssertionError(f"expected {texts}, got {await self.texts()}") from None

    def _is_mine(self, key: str) -> bool:
        return key.split(":")[0] == str(self.user["id"])

    async def calls_made(self) -> Sequence[dict[str, Any]]:
        return await self.stage.asked(self.words)

    async def refused(self) -> list[dict[str, Any]]:
        """The bot's calls about this chat that the platform refused."""
        calls = (await self.stage.doubles.telegram.get("calls"))["calls"]
        mine = str(self.user["id"])
        return [call for call in calls if str(call["params"].get("chat_id")) == mine and call.get("fault")]

    async def sent(self) -> list[dict[str, Any]]:
        """The calls of the bot that sent something to this chat, refused ones too."""
        mine = str(self.user["id"])
        return [call for call in await self.calls("sendMessage") if str(call["params"].get("chat_id")) == mine]

    async def goes_on(self) -> None:
        """The next message is answered as if nothing had been."""
        self.words = f"and now, {self.user['id']}"
        before = len(await self.texts())
        await self.asks({"text": "Fine again."})
        await self.hears("Fine again.")
        assert len(await self.texts()) == before + 1


@pytest.mark.requirement("Z-33", "B-32", "W-41", "G-24")
@pytest.mark.parametrize(
    "replies",
    [
        pytest.param([error(429)], id="429"),
        pytest.param([error(500), error(500)], id="500 twice"),
        pytest.param([error(529)], id="529"),
        pytest.param([error(503), error(429)], id="one after another"),
        pytest.param([broken("truncate", 0)], id="cut before the first word"),
        pytest.param([broken("truncate", 4)], id="cut in the middle"),
        pytest.param([broken("disconnect", 4), broken("disconnect", 5)], id="disconnected twice in the middle"),
        pytest.param([broken("error_event", 3)], id="an error in the stream"),
        pytest.param([broken("malformed", 3)], id="nonsense in the stream"),
    ],
)
async def test_what_passes_is_tried_again_and_answered_once(stage: Stage, replies: list[Reply]) -> None:
    person = Person(stage)
    await person.asks(*replies, {"text": ANSWER})
    await person.gets(ANSWER)
    assert len(await person.calls_made()) == len(replies) + 1


@pytest.mark.requirement("Z-33", "B-32", "B-33", "W-41", "G-24")
async def test_silence_counts_as_broken_off(stage: Stage) -> None:
    """Before the first word, in the middle, and again and again: three persons at once, since silence takes long."""
    first, middle, always = Person(stage), Person(stage), Person(stage)
    await first.asks(broken("stall", 0, delay=90), {"text": ANSWER})
    await middle.asks(broken("stall", 3, delay=90), {"text": ANSWER})
    await always.asks(broken("stall", 3, delay=90))
    await first.gets(ANSWER)
    await middle.gets(ANSWER)
    await always.gets(PARTIAL, CUT)
    assert [len(await one.calls_made()) for one in (first, middle, always)] == [2, 2, 3]
    await always.goes_on()


@pytest.mark.requirement("B-37")
async def test_a_wait_that_the_service_asks_for_is_kept(stage: Stage) -> None:
    person = Person(stage)
    await person.asks(error(429, retry_after=1.3), {"text": ANSWER})
    await person.gets(ANSWER)
    first, second = await person.calls_made()
    assert second["at"] - first["at"] >= 1.3


async def test_while_it_tries_again_the_person_sees_why(stage: Stage) -> None:
    person = Person(stage)
    await person.asks(error(529), {"text": ANSWER, "hold": person.words})
    await person.hears("The model service is not answering; trying again (1)…")
    await stage.release(person.words)
    await person.gets(ANSWER)


@pytest.mark.requirement("Z-33", "B-32", "B-33", "W-43", "W-44", "R-42")
@pytest.mark.parametrize(
    ("reply", "texts", "calls"),
    [
        pytest.param(error(429), [BUSY], 3, id="429"),
        pytest.param(error(500), [BUSY], 3, id="500"),
        pytest.param(error(529), [BUSY], 3, id="529"),
        pytest.param(broken("truncate", 0), [BUSY], 3, id="cut before the first word"),
        pytest.param(broken("disconnect", 3), [PARTIAL, CUT], 3, id="disconnected in the middle"),
        pytest.param(broken("truncate", 3), [PARTIAL, CUT], 3, id="cut in the middle"),
        pytest.param(broken("malformed", 3), [PARTIAL, CUT], 3, id="nonsense"),
        pytest.param(error(401), [REFUSED], 1, id="the key is refused"),
        pytest.param(error(403), [REFUSED], 1, id="the key may not do this"),
        pytest.param(error(404), [REFUSED], 1, id="no such model"),
        pytest.param(error(400), [REFUSED], 1, id="a bad request"),
        pytest.param(
            error(400, message="prompt is too long: 210000 tokens > 200000 maximum", code="context_length_exceeded"),
            [TOO_LONG],
            1,
            id="the prompt is too long",
        ),
        pytest.param(
            {"text": ANSWER, "stop_reason": "max_tokens"}, [ANSWER, "The answer was cut"], 1, id="the answer is cut"
        ),
        pytest.param({"text": ""}, ["The model gave an empty answer."], 1, id="nothing is said"),
    ],
)
async def test_what_stays_is_told_in_one_short_message(
    stage: Stage, reply: Reply, texts: list[str], calls: int
) -> None:
    person = Person(stage)
    await person.asks(reply)
    await person.gets(*texts)
    assert len(await person.calls_made()) == calls
    told = (await person.texts())[-1]
    assert len(told) < 200
    assert "trouble" not in told, "the service's own words are for the log"
    assert "sk-double" not in told
    await person.goes_on()


@with_one_model
@pytest.mark.requirement("G-09", "G-11")
async def test_a_platform_that_says_wait_gets_its_wait_and_the_answer_comes_once(stage: Stage) -> None:
    person = Person(stage)
    methods = ("sendMessage", "sendMessageDraft", "sendChatAction")
    refusal = {"kind": "rate_limit", "retry_after": 1, "chat_id": person.user["id"]}  # no earlier chat uses it up
    faults = [{"method": method, **refusal} for method in methods]
    await stage.doubles.telegram.post("faults", faults)
    long = " ".join(f"word{number}" for number in range(30))
    await person.asks({"text": long, "hold": person.words, "hold_after": 10})

    async def refused() -> bool:
        return {call["method"] for call in await person.refused()} >= {"sendMessageDraft", "sendChatAction"}

    await until(refused, what="a refused draft and sign of life")
    await stage.release(person.words)
    await person.gets(long)
    assert {call["method"] for call in await person.refused()} == set(methods)
    last = max(call["at"] for call in await person.refused() if call["method"] == "sendMessage")
    (sent,) = [call for call in await person.sent() if not call.get("fault")]
    assert sent["at"] - last >= 1, "the wait that was asked for"
    await person.goes_on()


@with_one_model
@pytest.mark.requirement("G-09")
async def test_in_a_group_an_edit_that_must_wait_does_not_lose_the_end(stage: Stage) -> None:
    person, number = Person(stage), -next(_persons)
    chat = {**GROUP, "id": number}
    answer = " ".join(f"word{place}" for place in range(40))
    rule = {"match": {"contains": person.words}, "reply": {"text": answer, "hold": person.words, "hold_after": 10}}
    await stage.doubles.llm.post("script", [rule], append="1")
    fault = {"method": "editMessageText", "kind": "rate_limit", "retry_after": 1, "chat_id": number}
    await stage.doubles.telegram.post("faults", fault)
    await person.say(f"@double_bot {person.words}", chat=chat)
    await person.hears("word9", chat=number)
    await stage.release(person.words)
    assert await person.hears("word39", chat=number) == answer
    assert len(await person.messages(number)) == 1


@with_one_model
@pytest.mark.requirement("G-09")
async def test_a_platform_that_fails_for_a_while_gets_the_answer_later(stage: Stage) -> None:
    person = Person(stage)
    fault = {"method": "sendMessage", "kind": "server_error", "status": 502, "times": 2, "chat_id": person.user["id"]}
    await stage.doubles.telegram.post("faults", fault)
    await person.asks({"text": ANSWER})
    assert await person.hears(ANSWER) == ANSWER


@with_one_model
async def test_at_the_end_nobody_is_typing(stage: Stage) -> None:
    """The last one of the file: after all that trouble no sign of life goes on."""
    person = Person(stage)
    before = len(await person.calls("sendChatAction"))
    await anyio.sleep(TYPING_EVERY_S + 0.5)  # typing is shown again so often
    assert len(await person.calls("sendChatAction")) == before
    state = await person.state()
    assert not any(state["drafts"].values())
    assert not any(state["reactions"].values())
    assert not [one for one in state["messages"] if "not answering; trying" in str(one)]
