"""Learned facts about models: their changes, their lifetime, and that they outlive the process."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.errors import ContextTooLong, ProviderBusy, RequestFiltered, RequestInvalid
from agent.core.messages import text_message
from agent.core.model_facts import ModelFacts, merged
from agent.providers.models import (
    DAY_US,
    FIRST_AGAIN_S,
    TOLD_AGAIN_S,
    KnownModels,
    after_answer,
    after_refusal,
    after_telling,
    believed,
)
from agent.providers.provider import Request, SystemPrompt, ToolSchema
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from agent.storage.database import Database
from agent.storage.model_rows import ModelStore, read_all
from tests.doubles.llm_dialects import TELLS
from tests.fakes.clock import FakeClock
from tests.fakes.llm_server import LlmServer, serving_llm
from tests.fakes.running import running
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

Make = Callable[..., LazyProvider]

ASSUMED = 128_000
CUT = ProviderBusy("cut", sent=True, unanswered=True)
ODD = RequestInvalid("E1047")


def facts(**known: Any) -> ModelFacts:
    return ModelFacts(provider="main", model="m", **known)


@pytest.mark.parametrize(
    ("before", "tokens", "after"),
    [
        pytest.param({"answered": 10}, 5, {"answered": 10}, id="a smaller answer shows nothing"),
        pytest.param({"answered": 10}, 20, {"answered": 20}, id="the largest counts"),
        pytest.param(
            {"answered": 10, "refused": 40, "refusals": 2},
            30,
            {"answered": 30, "refused": 40, "refusals": 2},
            id="below what was refused the refusal stands",
        ),
        pytest.param(
            {"answered": 10, "refused": 40, "refused_at": 1, "refusals": 2},
            40,
            {"answered": 40, "refused": None, "refused_at": 7, "refusals": 0},
            id="what is answered now was not too long",
        ),
    ],
)
def test_after_an_answer(before: dict[str, Any], tokens: int, after: dict[str, Any]) -> None:
    assert after_answer(facts(**before), tokens, 7) == facts(**after)


def test_what_was_refused_is_compared_with_what_is_estimated_too() -> None:
    """A server that counts 2,000 tokens in what we take for 3,000 has answered what was refused at 2,900."""
    before = facts(answered=1_900, refused=2_900, refused_at=1, refusals=1)
    assert after_answer(before, 2_000, 7, estimated=3_000).refused is None
    assert after_answer(before, 2_000, 7, estimated=2_800).refused == 2_900


async def test_one_larger_answer_takes_a_guess_back_at_once(make: Make) -> None:
    """Though this model, before its server was started anew, had answered more than both."""
    provider = make()
    provider.known.answered(20_000)
    provider.known.refused(9_000)
    assert provider.context_window == 9_000
    provider.known.answered(7_000, 9_100)
    assert provider.context_window == ASSUMED


@pytest.mark.requirement("B-24")
@pytest.mark.parametrize("error", [CUT, ODD])
async def test_what_fails_says_nothing_of_a_listed_window(make: Make, error: Any) -> None:
    """Only the server's own words make it smaller; what an older version has guessed does not."""
    provider = make(model="gpt-4o")
    listed = await provider.look_up_window()
    assert not await provider.finds_too_long(error, 9_000, proven=True)
    provider.known.refused(9_000)
    assert provider.context_window == listed
    assert await provider.finds_too_long(ContextTooLong("long"), 9_500)
    assert provider.context_window == 9_000
    assert not provider.forget_guess(), "it was said"


async def test_a_guess_is_forgotten_unless_it_was_confirmed(make: Make) -> None:
    provider = make()
    assert await provider.finds_too_long(CUT, 9_000, proven=True)
    assert provider.forget_guess(confirmed=False)
    assert provider.context_window == ASSUMED
    assert await provider.finds_too_long(CUT, 9_000, proven=True)
    assert not provider.forget_guess(confirmed=False), "it has shown itself again"
    assert provider.context_window == 9_000
    assert provider.forget_guess(), "as where instructions and tools alone do not fit"
    assert not provider.forget_guess()


def test_after_a_refusal_the_smallest_counts() -> None:
    once = after_refusal(facts(), 40, 1)
    assert once == facts(refused=40, refused_at=1, refusals=1)
    assert after_refusal(once, 50, 2) == facts(refused=40, refused_at=2, refusals=2)
    assert after_refusal(once, 30, 2).refused == 30


@pytest.mark.parametrize(
    ("told", "by", "refused"),
    [
        pytest.param(32_768, "/props n_ctx", None, id="another size: it was started anew"),
        pytest.param(8_192, "/props n_ctx", 7_000, id="the same as ever: what was too long for it still is"),
        pytest.param(131_072, "/v1/models n_ctx_train", 7_000, id="what the model could hold says nothing"),
    ],
)
def test_after_its_server_told_the_window(told: int, by: str, refused: int | None) -> None:
    before = facts(told=8_192, told_by="/props n_ctx", refused=7_000, refused_at=1, refusals=1)
    after = after_telling(before, told, by, 9)
    assert (after.told, after.told_by, after.told_at, after.refused) == (told, by, 9, refused)


@pytest.mark.parametrize(("refusals", "days"), [(1, 1), (2, 2), (3, 4), (6, 32), (60, 32)])
def test_a_refusal_is_believed_for_longer_each_time(refusals: int, days: int) -> None:
    """It may have had another reason, such as an outage: a window is not small for ever for one bad minute."""
    known = facts(answered=5, refused=40, refused_at=0, refusals=refusals)
    assert believed(known, days * DAY_US - 1) == known
    later = believed(known, days * DAY_US)
    assert (later.refused, later.refusals, later.answered) == (None, refusals, 5)


def test_a_dialect_is_believed_for_a_week() -> None:
    known = facts(dialect={"tools": False}, dialect_at=0)
    assert believed(known, 7 * DAY_US - 1) == known
    assert believed(known, 7 * DAY_US).dialect == {}


def test_two_processes_are_of_one_mind() -> None:
    """The newest word on each subject counts, and the largest answer of both."""
    one = facts(
        told=8_192, told_at=5, answered=10, refused=40, refused_at=1, refusals=1, dialect={"a": 1}, dialect_at=9
    )
    other = facts(told=4_096, told_at=4, answered=30, refused=None, refused_at=2, dialect={"b": 1}, dialect_at=8)
    both = facts(told=8_192, told_at=5, answered=30, refused=None, refused_at=2, dialect={"a": 1}, dialect_at=9)
    assert merged(one, other) == merged(other, one) == both


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with serving_llm() as server:
        yield server


@pytest.fixture
async def make(server: LlmServer, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Make]:
    """A provider of the double's. `models` are those of a process."""
    made: list[LazyProvider] = []

    def make(models: KnownModels | None = None, **more: Any) -> LazyProvider:
        values = {"name": "main", "type": "openai", "model": "some-model", "base_url": f"{server.url}/v1", **more}
        settings = ProviderSettings(api_key=SecretStr("k"), **values)
        adapter_context = ProviderDeps(home=tmp_path, clock=clock, models=models or KnownModels(clock))
        made.append(LazyProvider(settings, adapter_context))
        return made[-1]

    yield make
    for provider in made:
        await provider.aclose()


async def answered(provider: LazyProvider, *tools: Any) -> None:
    schema = ToolSchema(tuple(tool.spec for tool in tools))
    request = Request(system=SystemPrompt("Be brief."), messages=(text_message("user", "hello"),), tools=schema)
    async for _ in provider.stream(request):
        pass


async def test_what_is_known_outlives_the_process(database: Database, make: Make, clock: FakeClock) -> None:
    before = KnownModels(clock, ModelStore(database))
    provider = make(before)
    provider.known.answered(6_000)
    provider.known.refused(7_000)
    await before.flush()
    after = KnownModels(clock, ModelStore(database))
    await after.load()
    assert make(after).context_window == 7_000
    assert make(after).known.facts.answered == 6_000
    assert make(after, model="other").context_window == ASSUMED, "another model"
    assert make(after, name="other").context_window == ASSUMED, "another account"
    assert make(after, base_url="http://127.0.0.1:9/v1").context_window == ASSUMED, "another address"
    clock.advance(25 * 3600)
    later = KnownModels(clock, ModelStore(database))
    await later.load()
    assert make(later).context_window == ASSUMED, "tried again after a day"


async def test_a_password_in_the_address_is_not_written_down(sqlite_database: Database, make: Make) -> None:
    models = KnownModels(FakeClock(), ModelStore(sqlite_database))
    provider = make(models, base_url="http://ann:hunter2@127.0.0.1:9/v1?key=hunter3")
    provider.known.answered(10)
    await models.flush()
    (kept,) = await sqlite_database.read(read_all)
    assert kept.address == "http://127.0.0.1:9/v1"


async def test_a_growing_chat_is_seldom_written_down(sqlite_database: Database, make: Make, clock: FakeClock) -> None:
    models, written = KnownModels(clock, ModelStore(sqlite_database)), 0
    provider = make(models)
    for tokens in range(2_000, 100_000, 100):
        provider.known.answered(tokens)
        if models.is_unwritten:
            written += 1
            await models.flush()
    assert written < 40, "of 980 that were each larger than all before"
    assert provider.known.facts.answered == 99_900
    (kept,) = await sqlite_database.read(read_all)
    assert 99_900 / 1.125 <= kept.answered <= 99_900


async def test_another_process_may_know_of_a_larger_answer(
    sqlite_database: Database, make: Make, clock: FakeClock
) -> None:
    one, other = KnownModels(clock, ModelStore(sqlite_database)), KnownModels(clock, ModelStore(sqlite_database))
    here, there = make(one), make(other)
    there.known.answered(9_000)
    await other.flush()
    assert not await here.finds_too_long(CUT, 8_000, proven=True), "an ordinary outage, as the other process knows"
    assert await here.finds_too_long(CUT, 9_500, proven=True)
    assert await there.finds_too_long(CUT, 12_000, proven=True)
    assert there.context_window == 9_500, "which the other one has learned from the database"


@pytest.mark.parametrize(
    ("error", "tokens", "is_too_long"),
    [
        pytest.param(ContextTooLong("long"), 3_000, True, id="said so"),
        pytest.param(ODD, 6_001, True, id="refused in odd words"),
        pytest.param(ODD, 6_000, False, id="refused, and not larger than what was answered"),
        pytest.param(RequestFiltered("no"), 9_000, False, id="a filter has another reason"),
        pytest.param(CUT, 6_001, True, id="cut off"),
        pytest.param(CUT, 6_000, False, id="cut off, and not larger than what was answered"),
        pytest.param(ProviderBusy("slow", sent=True), 9_000, False, id="too slow"),
        pytest.param(ProviderBusy("rate", limited=True), 9_000, False, id="too many calls"),
    ],
)
async def test_what_may_have_been_too_long(make: Make, error: Any, tokens: int, is_too_long: bool) -> None:
    provider = make()
    provider.known.answered(6_000)
    assert await provider.finds_too_long(error, tokens, proven=error is CUT) is is_too_long
    assert provider.context_window == (tokens if is_too_long else ASSUMED)


async def test_what_is_cut_off_is_an_outage_until_it_is_proven(make: Make) -> None:
    provider = make()
    provider.known.answered(6_000)
    assert not await provider.finds_too_long(CUT, 9_000)
    assert provider.context_window == ASSUMED


@pytest.mark.parametrize("error", [CUT, ODD])
async def test_a_configured_window_is_not_doubted(make: Make, server: LlmServer, error: Any) -> None:
    provider = make(context_window=32_000)
    assert not await provider.finds_too_long(error, 30_000)
    assert await provider.finds_too_long(ContextTooLong("long"), 30_000), "which is still too long"
    assert provider.context_window == 32_000
    assert server.double.asked_window == []


async def test_a_server_that_is_not_there_has_an_outage(make: Make, server: LlmServer) -> None:
    """Unless it goes away each time: some end over what is too long for them, and are started again."""
    server.double.settings["window_away"] = True
    provider = make()
    provider.known.answered(6_000)
    assert [await provider.finds_too_long(CUT, 9_000) for _ in range(4)] == 4 * [False], "one outage, however long"
    provider.known.answered(5_000)
    assert not await provider.finds_too_long(CUT, 9_000)
    provider.known.answered(5_000)
    assert await provider.finds_too_long(CUT, 9_000)
    assert provider.context_window == 9_000


async def test_a_server_that_holds_less_since_it_was_started_again(make: Make, server: LlmServer) -> None:
    provider = make()
    provider.known.answered(20_000)
    server.double.settings["tells"] = "vllm"
    assert await provider.finds_too_long(CUT, 9_000)
    assert provider.context_window == 8_192, "as it tells, so that nothing needs to be proven"
    assert not await provider.finds_too_long(CUT, 5_000), "that fits: an outage"


@pytest.mark.parametrize("tells", [name for name in TELLS if name != "nonsense"])
async def test_the_server_is_asked_in_the_background(
    make: Make, server: LlmServer, clock: FakeClock, tells: str
) -> None:
    server.double.settings["tells"] = tells
    models = KnownModels(clock)
    provider = make(models)
    async with running(models.run):
        await answered(provider)
        await until(lambda: provider.context_window == 8_192)
    origin = provider.window_origin
    assert origin is not None
    assert origin.source == "told"
    assert origin.by
    assert provider.known.facts.told == 8_192


async def test_what_does_not_tell_is_asked_again_later(make: Make, server: LlmServer, clock: FakeClock) -> None:
    server.double.settings["tells"] = "nonsense"
    heard: list[tuple[str, str, int]] = []
    models = KnownModels(clock, on_window=lambda *told: heard.append(told))
    provider = make(models)

    def asked(times: int, after_s: float) -> bool:
        """Time passes, and it is woken."""
        clock.advance(after_s)
        models.changed(provider.known)
        return server.double.asked_window.count("/v1/models") >= times

    async with running(models.run):
        await answered(provider)
        await until(lambda: "/api/v0/models" in server.double.asked_window)
        for _ in range(3):
            models.changed(provider.known)
            await until(lambda: not models.is_unwritten)
        assert server.double.asked_window.count("/v1/models") == 1, "not before its time"
        server.double.settings["window_away"] = True
        await until(lambda: asked(2, FIRST_AGAIN_S))
        server.double.settings.update(window_away=False, tells="llamacpp")
        await until(lambda: asked(3, FIRST_AGAIN_S) and provider.context_window == 8_192)
        assert heard[0] == ("main", "some-model", ASSUMED)
        assert heard[-1] == ("main", "some-model", 8_192)
        times = server.double.asked_window.count("/v1/models")
        await until(lambda: asked(times + 1, TOLD_AGAIN_S))


async def test_nobody_is_asked_where_the_window_is_known(make: Make, server: LlmServer, clock: FakeClock) -> None:
    models = KnownModels(clock)
    async with running(models.run):
        for known in (make(models, context_window=9_000), make(models, model="gpt-4o")):
            await answered(known)
        unknown = make(models)
        await answered(unknown)
        await until(lambda: "/api/v0/models" in server.double.asked_window)
    assert server.double.asked_window.count("/v1/models") == 1
    assert [one.window_origin.source for one in (known, unknown) if one.window_origin] == ["listed", "assumed"]


async def test_a_dialect_outlives_the_process(
    sqlite_database: Database, make: Make, server: LlmServer, clock: FakeClock
) -> None:
    server.double.settings["dialect"] = "ollama-no-tools"
    before = KnownModels(clock, ModelStore(sqlite_database))
    await answered(make(before), FakeTool())
    await before.flush()
    after = KnownModels(clock, ModelStore(sqlite_database))
    await after.load()
    await answered(make(after), FakeTool())
    assert ["tools" in body for body in server.bodies] == [True, False, False]
    clock.advance(8 * 24 * 3600)
    later = KnownModels(clock, ModelStore(sqlite_database))
    await later.load()
    await answered(make(later), FakeTool())
    assert ["tools" in body for body in server.bodies][3:] == [True, False], "tried again after a week"


async def test_what_is_spared_anthropics_api_outlives_the_process(
    sqlite_database: Database, make: Make, server: LlmServer, clock: FakeClock
) -> None:
    server.double.settings["strict_alternation"] = True
    twice = (text_message("user", "hello"), text_message("user", "again"))
    for _ in range(2):
        models = KnownModels(clock, ModelStore(sqlite_database))
        await models.load()
        provider = make(models, type="anthropic", base_url=server.url)
        async for _ in provider.stream(Request(system=SystemPrompt("Be brief."), messages=twice)):
            pass
        await models.flush()
    assert [call.get("status") for call in server.calls] == [400, 200, 200]
