"""A model that fails: retried within bounds, else one short sentence, never silence."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from agent.core.errors import AgentError, ContextTooLong, NoProviders, ProviderBusy, ProviderRefused, RequestInvalid
from agent.core.events import LoopFailed, RetryScheduled, TokensUsed
from agent.core.messages import Message, Thinking
from agent.ledger.spending import Limit, Spending
from agent.providers.failures import classify, read_error
from agent.providers.provider import Done, Prices, TextDelta, ThinkingDelta, Unknown, Usage
from agent.run.settings import Settings, TimeoutSettings
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import Script, ScriptedProvider, calls, cut, fails, says, thinks
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

BUSY = ProviderBusy("503")
QUICK = Settings(timeouts=TimeoutSettings(llm=0.4, llm_stream=1.5, no_providers_backoff=1.0))


@pytest.mark.requirement("Z-33", "B-32", "B-37")
async def test_a_busy_provider_is_asked_again(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[fails(ProviderBusy("429", after_s=7)), fails(BUSY), fails(BUSY), says("ok")])
    world = World(database, tmp_path, provider)
    assert await world.say("hi") == ["ok"]
    retries = [event for event in world.events if isinstance(event, RetryScheduled)]
    assert [event.attempt for event in retries] == [1, 2, 3]
    assert retries[0].after_s == 7
    assert retries[0] in world.outbox.shown
    assert world.outbox.statuses[-1] == "", "the status line is cleared when the answer comes"


@pytest.mark.requirement("B-29")
async def test_the_answer_after_a_wait_is_shown_as_it_comes(sqlite_database: Database, tmp_path: Path) -> None:
    answer = Script(chunks=(TextDelta("Once "), TextDelta("upon a "), TextDelta("time"), Done("end_turn")))
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[fails(BUSY), answer]))
    assert await world.say("hi") == ["Once upon a time"]
    assert world.outbox.previews == ["Once ", "Once upon a ", "Once upon a time"]


@pytest.mark.requirement("B-37")
async def test_a_rate_limit_is_waited_out_also_when_the_last_message_met_it(
    sqlite_database: Database, tmp_path: Path
) -> None:
    limited = fails(ProviderBusy("429", after_s=20, limited=True))
    provider = ScriptedProvider(scripts=[limited] * 5, otherwise=says("here I am"))
    world = World(sqlite_database, tmp_path, provider)
    first, second = await world.admit("hi"), await world.admit("are you there?")
    await world.run_through(first)
    assert await world.turn_state(first) == "failed"
    await world.run_through(second)
    assert [say.text for say in await world.says(second)] == ["here I am"]


@pytest.mark.requirement("B-32", "B-86", "R-01", "R-42", "W-43", "Z-33")
async def test_after_three_retries_the_person_is_told(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(otherwise=fails(BUSY))
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("hi")
    await world.run_through(work)
    (said,) = await world.says(work)
    assert "“scripted” is not answering" in said.text
    assert await world.turn_state(work) == "failed"
    assert len(provider.requests) == 4
    failed = [event for event in world.events if isinstance(event, LoopFailed)]
    assert [event.error for event in failed] == ["ProviderBusy: 503"]


@pytest.mark.requirement("B-32")
async def test_a_stand_in_is_asked_again_as_often_as_the_one_before_it(
    sqlite_database: Database, tmp_path: Path
) -> None:
    first = ScriptedProvider(name="first", otherwise=fails(BUSY))
    second = ScriptedProvider(name="second", scripts=[fails(BUSY), fails(BUSY), fails(BUSY), says("here I am")])
    world = World(sqlite_database, tmp_path, first, second)
    world.slot.failover = ("second",)
    assert await world.say("hi") == ["here I am"]
    assert (len(first.requests), len(second.requests)) == (4, 4)


@pytest.mark.requirement("R-45")
async def test_what_a_turn_took_that_fails_in_the_end_is_told_too(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("current_time")], otherwise=fails(ProviderRefused("no")))
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("what time is it?")
    await world.run_through(work)
    assert await world.turn_state(work) == "failed"
    [told] = [event for event in world.events if isinstance(event, TokensUsed)]
    assert (told.prompt, told.output) == (10, 5)


@pytest.mark.requirement("W-41", "W-42", "G-24")
async def test_a_cut_stream_is_begun_anew_without_doubling_the_text(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[cut("Hello wor"), fails(BUSY, after="Hello w"), says("Hello world.")])
    world = World(sqlite_database, tmp_path, provider)
    assert await world.say("hi") == ["Hello world."]
    assert world.outbox.preview_text == "Hello world."
    assert world.outbox.resets == 2
    assert await world.texts() == [("user", "hi"), ("assistant", "Hello world.")]


@pytest.mark.requirement("W-41", "W-43", "B-33")
async def test_a_stream_that_is_cut_thrice_leaves_its_text_and_a_sentence(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(otherwise=cut("Half an ans"))
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("hi")
    await world.run_through(work)
    said = [say.text for say in await world.says(work)]
    assert said == ["Half an ans", "The connection to the model broke off and could not be restored."]
    assert len(provider.requests) == 3
    assert (await world.texts())[-1] == ("assistant", "Half an ans")
    assert await world.turn_state(work) == "failed", "half an answer is none"
    failed = [event.error for event in world.events if isinstance(event, LoopFailed)]
    assert [error.partition(":")[0] for error in failed] == ["ProviderBusy"]


@pytest.mark.requirement("W-42")
async def test_a_stream_without_its_end_is_a_failure_even_if_the_provider_does_not_notice(
    sqlite_database: Database, tmp_path: Path
) -> None:
    class Careless(ScriptedProvider):
        async def stream(self, request: object):  # type: ignore[no-untyped-def]
            self.requests.append(request)  # type: ignore[arg-type]
            yield TextDelta("half")
            if len(self.requests) > 1:
                yield Done("end_turn")

    provider = Careless()
    world = World(sqlite_database, tmp_path, provider)
    assert await world.say("hi") == ["half"]
    assert len(provider.requests) == 2


@pytest.mark.requirement("Z-33")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(ProviderRefused("bad key sk-123"), "refused the request", id="refused"),
        pytest.param(ContextTooLong("too long"), "no longer fits", id="too long with nothing to trim"),
    ],
)
async def test_what_a_retry_does_not_change_is_told_at_once(
    sqlite_database: Database, tmp_path: Path, error: AgentError, said: str
) -> None:
    provider = ScriptedProvider(otherwise=fails(error))
    world = World(sqlite_database, tmp_path, provider)
    (told_text,) = await world.say("hi")
    assert said in told_text
    assert "sk-123" not in told_text
    assert len(provider.requests) == 1


@pytest.mark.requirement("B-33", "R-18")
async def test_a_stream_that_takes_too_long_keeps_its_text(sqlite_database: Database, tmp_path: Path) -> None:
    endless = Script(chunks=(TextDelta("Well, "),), stalls=True)
    settings = replace(QUICK, timeouts=replace(QUICK.timeouts, llm=30.0))
    world = World(sqlite_database, tmp_path, ScriptedProvider(otherwise=endless), settings=settings)
    with anyio.fail_after(15):  # well before the longer time that it may be silent
        said = await world.say("hi")
    assert said == ["Well, ", "The model took too long to answer."]


@pytest.mark.requirement("R-18")
async def test_the_whole_stream_has_a_time_limit_however_lively_it_is(
    sqlite_database: Database, tmp_path: Path
) -> None:
    class Chatty(ScriptedProvider):
        async def stream(self, request: object):  # type: ignore[no-untyped-def]
            while True:
                await anyio.sleep(0.01)
                yield TextDelta("and ")

    world = World(sqlite_database, tmp_path, Chatty(), settings=QUICK)
    with anyio.fail_after(60):
        said = await world.say("hi")
    assert said[0].startswith("and ")
    assert said[1] == "The model took too long to answer."


async def test_a_stream_that_stalls_is_begun_anew(sqlite_database: Database, tmp_path: Path) -> None:
    stalled = Script(chunks=(ThinkingDelta("hm"),), stalls=True)
    provider = ScriptedProvider(scripts=[stalled, says("ok")])
    settings = replace(QUICK, timeouts=replace(QUICK.timeouts, llm_stream=60.0))
    world = World(sqlite_database, tmp_path, provider, settings=settings)
    assert await world.say("hi") == ["ok"]
    assert provider.closed_early == 1, "the stalled connection was closed"


@pytest.mark.requirement("G-34", "R-24")
async def test_unknown_pieces_of_a_stream_do_not_matter(
    sqlite_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(chunks=(Unknown("video_delta"), TextDelta("ok"), Done("other")))
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[script]))
    work = await world.admit("hi")
    await world.run(work)
    assert [say.text for say in await world.says(work)] == ["ok"]
    assert await world.turn_state(work) == "done", "an answer, whatever it stopped for"
    assert "video_delta" in caplog.text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param(Script(chunks=(Done("end_turn"),)), ["The model gave an empty answer"], id="empty"),
        pytest.param(thinks("hm", "s", Script(chunks=(Done("end_turn"),))), ["The model gave an empty"], id="thoughts"),
        pytest.param(Script(chunks=(TextDelta("  \n"), Done("end_turn"))), ["The model gave an empty"], id="blank"),
        pytest.param(Script(chunks=(Done("refusal"),)), ["The model declined"], id="declined"),
        pytest.param(
            Script(chunks=(TextDelta("I can't."), Done("refusal"))), ["I can't.", "The model declined"], id="in words"
        ),
        pytest.param(
            Script(chunks=(TextDelta("It begins"), Done("max_tokens"))), ["It begins", "The answer was cut"], id="cut"
        ),
    ],
)
@pytest.mark.requirement("W-44")
async def test_never_silence(sqlite_database: Database, tmp_path: Path, script: Script, said: list[str]) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[script, says("fine")]))
    got = await world.say("hi")
    assert len(got) == len(said)
    assert all(text.startswith(begin) for text, begin in zip(got, said, strict=True))
    assert await world.say("and now?") == ["fine"]


async def test_a_defect_ends_one_turn_and_not_the_conversation(
    sqlite_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ScriptedProvider):
        async def stream(self, request: object):  # type: ignore[no-untyped-def]
            yield TextDelta("Well")
            raise RuntimeError("boom")

    provider = Broken()
    world = World(sqlite_database, tmp_path, provider)
    said = await world.say("hi")
    assert said[0] == "Well"
    assert "Something went wrong on my side" in said[1]
    assert "boom" not in said[1]
    assert "boom" in caplog.text
    assert world.names()[-1] == "loop:error"


@pytest.mark.requirement("Z-25", "W-43")
async def test_without_any_provider_it_waits_and_tells(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[fails(NoProviders("all breakers open"))]))
    before = world.clock.monotonic()
    work = await world.admit("hi")
    await world.run_through(work)
    (said,) = await world.says(work)
    assert "No model service is available" in said.text
    assert await world.turn_state(work) == "failed", "nobody has stopped it"
    failed = [event.error for event in world.events if isinstance(event, LoopFailed)]
    assert failed == ["NoProviders: all breakers open"]
    assert world.agent.provider.none_at == before
    assert world.clock.monotonic() - before >= 2.0


@pytest.mark.requirement("Z-02", "Z-20")
async def test_another_provider_chosen_during_the_back_off_counts_at_once(
    sqlite_database: Database, tmp_path: Path
) -> None:
    first, second = ScriptedProvider(otherwise=fails(BUSY)), ScriptedProvider(name="second", model="s-2")
    world = World(sqlite_database, tmp_path, first, second)
    work = await world.admit("hi")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(world.clock.sleepers))
        world.agent.operations.switch_provider("second")
        world.clock.advance(60)
    assert [say.text for say in await world.says(work)] == ["ok"]
    assert (len(first.requests), len(second.requests)) == (1, 1)


def using(script: Script, usage: Usage) -> Script:
    """The same reply, reported with that usage."""
    return replace(script, chunks=tuple(usage if isinstance(chunk, Usage) else chunk for chunk in script.chunks))


@pytest.mark.requirement("R-15", "R-16")
class TestUsage:
    async def test_reported_usage_is_stored_summed_and_priced(self, database: Database, tmp_path: Path) -> None:
        usage = Usage(prompt=1000, output=200, cache_creation=300, cache_read=400)
        prices = Prices(input=3, output=15, cache_write=3.75, cache_read=0.3)
        provider = ScriptedProvider(scripts=[says("ok", usage=usage)], prices=prices)
        world = World(database, tmp_path, provider)
        await world.say("hi")
        (row,) = await world.usage_rows()
        assert (row.prompt, row.output, row.cache_creation, row.cache_read) == (1000, 200, 300, 400)
        assert row.cost_usd == pytest.approx((3000 + 3000 + 1125 + 120) / 1e6)
        assert (row.estimated, row.person, row.provider) == (False, "telegram:77", "scripted")
        event = next(event for event in world.events if isinstance(event, TokensUsed))
        assert (event.prompt, event.output, event.cache_creation, event.cache_read) == (1000, 200, 300, 400)
        assert event.estimated_cost_usd == pytest.approx(row.cost_usd)
        (session,) = await world.agent.operations.sessions()
        assert (session.prompt_tokens, session.output_tokens, session.message_count) == (1700, 200, 2)

    async def test_the_calls_of_a_turn_are_summed(self, sqlite_database: Database, tmp_path: Path) -> None:
        first, second = Usage(prompt=100, output=5, cache_creation=900), Usage(prompt=30, output=7, cache_read=900)
        third = Usage(prompt=40, output=2, cache_creation=60, cache_read=1000)
        scripts = [
            using(calls("echo", {"text": "a"}, id="a"), first),
            using(calls("echo", {"text": "b"}, id="b"), second),
            says("ok", usage=third),
        ]
        world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=scripts), tools=(FakeTool(),))
        await world.say("hi")
        (event,) = [event for event in world.events if isinstance(event, TokensUsed)]
        assert (event.prompt, event.output, event.cache_creation, event.cache_read) == (170, 14, 960, 1900)

    async def test_without_a_report_or_a_price_it_is_estimated_and_unpriced(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        world = World(
            sqlite_database, tmp_path, ScriptedProvider(scripts=[Script(chunks=(TextDelta("ok"), Done("end_turn")))])
        )
        await world.say("hi")
        (row,) = await world.usage_rows()
        assert row.estimated
        assert row.prompt > 50
        assert row.cost_usd is None

    async def test_a_call_that_was_cut_off_is_paid_for_too(self, sqlite_database: Database, tmp_path: Path) -> None:
        world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[cut("Half"), says("Whole.")]))
        await world.say("hi")
        rows = await world.usage_rows()
        assert [row.estimated for row in rows] == [True, False]

    async def test_the_estimate_learns_from_what_is_reported(self, sqlite_database: Database, tmp_path: Path) -> None:
        world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[says("ok", usage=Usage(prompt=99999))]))
        await world.say("hi")
        assert world.agent.metrics.estimator.scale == 2.0


async def test_an_account_without_credit_is_stood_in_for_and_no_history_suspected(
    sqlite_database: Database, tmp_path: Path
) -> None:
    body = {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}}
    poor = ScriptedProvider(name="a", otherwise=fails(classify("a", read_error(body, 400))))
    world = World(sqlite_database, tmp_path, poor, ScriptedProvider(name="b", otherwise=says("b answers")))
    world.slot.failover = ("b",)
    assert await world.say("hello") == ["b answers"]
    assert await world.say("and now?") == ["b answers"]
    assert len(poor.requests) == 1, "asked once, then passed over"


async def test_a_stand_in_without_a_price_leaves_it_to_the_next(sqlite_database: Database, tmp_path: Path) -> None:
    priced = Prices(input=1, output=1)
    down = ScriptedProvider(name="a", prices=priced, otherwise=fails(ProviderRefused("401", any_request=True)))
    local = ScriptedProvider(name="b", model="local")
    world = World(
        sqlite_database, tmp_path, down, local, ScriptedProvider(name="c", prices=priced, otherwise=says("c answers"))
    )
    world.spending = Spending(limits=(Limit(scope="gateway", usd=100.0),))
    world.slot.failover = ("b", "c")
    assert await world.say("hello") == ["c answers"]
    assert local.requests == []


async def test_what_a_stand_in_answers_proves_nothing_against_the_history(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """The chosen one refuses the request twice and is then away: who answers without the history might take it too."""
    odd, gone = fails(RequestInvalid("400")), fails(ProviderRefused("401", any_request=True))
    chosen = ScriptedProvider(name="a", scripts=[says("noted"), odd, odd, gone])
    other = ScriptedProvider(name="b", otherwise=says("b answers"))
    world = World(sqlite_database, tmp_path, chosen, other)
    world.slot.failover = ("b",)
    await world.say("remember me")
    assert await world.say("hello") == ["b answers"]
    assert await world.say("and now?") == ["b answers"]
    assert "remember me" in str(other.requests[-1].messages)
    assert all(stored.message.agent_visible for stored in await world.transcript())


@pytest.mark.requirement("Z-19")
async def test_thinking_reaches_the_next_request_unchanged_also_after_a_restart(
    sqlite_database: Database, tmp_path: Path
) -> None:
    thinking = "first\n\n  second\u2028 🙂"
    provider = ScriptedProvider(scripts=[thinks(thinking, "c2ln+/==", says("ok"))])
    world = World(sqlite_database, tmp_path, provider)
    await world.say("hi")
    await world.restart()
    await world.say("more")

    def thoughts(messages: "list[Message] | tuple[Message, ...]") -> list[Thinking]:
        return [part for message in messages for part in message.parts if isinstance(part, Thinking)]

    assert thoughts(tuple(provider.requests[1].messages)) == [
        Thinking(thinking=thinking, signature="c2ln+/==", family="scripted")
    ]


@pytest.mark.requirement("B-38")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(Script(chunks=(Done("end_turn"),)), id="empty"),
        pytest.param(Script(chunks=(TextDelta("Well."), Done("tool_use"))), id="it says that a call follows"),
    ],
)
async def test_without_a_call_nothing_is_asked_again(sqlite_database: Database, tmp_path: Path, script: Script) -> None:
    provider = ScriptedProvider(scripts=[script, says("again")])
    world = World(sqlite_database, tmp_path, provider)
    await world.say("hi")
    assert len(provider.requests) == 1


@pytest.mark.requirement("G-24")
async def test_what_one_began_to_say_is_gone_when_another_answers(sqlite_database: Database, tmp_path: Path) -> None:
    a = ScriptedProvider(name="a", otherwise=fails(ProviderBusy("a: overloaded"), after="Half an ans"))
    b = ScriptedProvider(name="b", otherwise=says("The whole answer."))
    world = World(sqlite_database, tmp_path, a, b)
    world.slot.failover = ("b",)
    assert await world.say("hi") == ["The whole answer."]
    assert world.outbox.preview_text == "The whole answer."
    assert (await world.texts())[-1] == ("assistant", "The whole answer.")
