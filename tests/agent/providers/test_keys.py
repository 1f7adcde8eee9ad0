"""Several keys of one provider: the next is tried at once, a refused one is passed over, also after a restart."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.clock import Clock
from agent.core.errors import AgentError, KeyRefused, ProviderBusy, QuotaUsedUp
from agent.core.messages import text_message
from agent.core.model_facts import KeyRest, KeyTrouble
from agent.providers.keys import Key, KeyRings, in_order, last_word
from agent.providers.models import UNKNOWN
from agent.providers.openai.transcription import OpenAITranscriber
from agent.providers.provider import Request, SystemPrompt
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings, ProviderType
from agent.providers.transcription import TranscriptionSettings
from agent.storage.database import Database
from agent.storage.model_rows import KeyRestStore
from tests.fakes.clock import FakeClock
from tests.fakes.llm_server import LlmServer

pytestmark = pytest.mark.requirement("Z-149")

ONE, TWO, THREE = "sk-first-key", "sk-second-key", "sk-third-key"
LIMITED = {"status": 429, "retry_after": 30}
REFUSED = {"status": 401, "code": "invalid_api_key"}
EXHAUSTED = {"status": 429, "code": "insufficient_quota"}
REQUEST = Request(system=SystemPrompt("s"), messages=(text_message("user", "hello"),))


def settings(llm: LlmServer, type_: ProviderType = "openai", **more: Any) -> ProviderSettings:
    keys = tuple(SecretStr(key) for key in (ONE, TWO, THREE))
    path = "" if type_ == "anthropic" else "/v1"
    model = "openai/gpt-4o-mini" if type_ == "litellm" else "m"
    return ProviderSettings(
        name="main", **{"type": type_, "model": model, "base_url": llm.url + path, "api_keys": keys} | more
    )


class Calls:
    """Calls of one provider, and what is heard of its keys."""

    def __init__(self, llm: LlmServer, home: Path, clock: Clock, database: Database | None = None) -> None:
        self.heard: list[tuple[int, int, KeyTrouble | None]] = []
        self.rings = KeyRings(
            clock,
            KeyRestStore(database) if database is not None else None,
            on_passed_over=lambda provider, key, count, trouble: self.heard.append((key.number, count, trouble)),
            on_back=lambda provider, key, count: self.heard.append((key.number, count, None)),
        )
        self._llm, self._home, self._clock = llm, home, clock

    async def ask(self, own: ProviderSettings, times: int = 1) -> list[str]:
        """The keys that so many calls used."""
        before = len(self._llm.double.keys_used)
        provider = LazyProvider(own, ProviderDeps(home=self._home, clock=self._clock, keys=self.rings))
        try:
            for _ in range(times):
                async with aclosing(provider.stream(REQUEST)) as chunks:
                    async for _ in chunks:
                        pass
        finally:
            await provider.aclose()
        return list(self._llm.double.keys_used[before:])


@pytest.mark.parametrize("type_", ["openai", "anthropic", "litellm"])
@pytest.mark.parametrize("trouble", [LIMITED, REFUSED, EXHAUSTED], ids=["limited", "refused", "exhausted"])
async def test_the_next_key_is_tried_at_once_and_kept(
    llm: LlmServer, tmp_path: Path, type_: ProviderType, trouble: dict[str, Any]
) -> None:
    calls = Calls(llm, tmp_path, FakeClock())
    llm.double.settings["keys"] = {ONE: trouble}
    assert await calls.ask(settings(llm, type_), times=2) == [ONE, TWO, TWO], "the first one rests then"


async def test_a_limited_key_rests_as_long_as_the_service_says_and_nobody_is_told(
    llm: LlmServer, tmp_path: Path
) -> None:
    clock = FakeClock()
    calls = Calls(llm, tmp_path, clock)
    llm.double.settings["keys"] = {ONE: LIMITED}
    await calls.ask(settings(llm))
    llm.double.settings["keys"] = {}
    clock.advance(29)
    assert await calls.ask(settings(llm)) == [TWO]
    clock.advance(2)
    assert await calls.ask(settings(llm)) == [ONE]
    assert calls.heard == []


async def test_a_refused_key_is_passed_over_after_a_restart_too_and_told_of_by_its_number(
    llm: LlmServer, tmp_path: Path, sqlite_database: Database
) -> None:
    clock = FakeClock()
    before = Calls(llm, tmp_path, clock, sqlite_database)
    llm.double.settings["keys"] = {ONE: REFUSED, TWO: EXHAUSTED}
    assert await before.ask(settings(llm)) == [ONE, TWO, THREE]
    assert before.heard == [(1, 3, "refused"), (2, 3, "exhausted")]
    after = Calls(llm, tmp_path, clock, sqlite_database)
    await after.rings.load()
    assert await after.ask(settings(llm)) == [THREE]
    another = tuple(SecretStr(key) for key in ("sk-corrected-key", TWO, THREE))
    assert await after.ask(settings(llm, api_keys=another)) == ["sk-corrected-key"], "a corrected key does not rest"
    clock.advance(3601)
    llm.double.settings["keys"] = {}
    assert await after.ask(settings(llm)) == [ONE], "it is asked again"
    assert after.heard == [(1, 3, None)], "and told of when it is taken"


async def test_a_key_that_rests_is_tried_again_when_an_operator_says_so(
    llm: LlmServer, tmp_path: Path, sqlite_database: Database
) -> None:
    calls = Calls(llm, tmp_path, FakeClock(), sqlite_database)
    llm.double.settings["keys"] = {ONE: EXHAUSTED}
    await calls.ask(settings(llm))
    ring = calls.rings.of(settings(llm))
    assert [(number, rest.trouble) for number, rest in calls.rings.resting(ring)] == [(1, "exhausted")]
    assert not await calls.rings.use_again(ring, 2)
    assert await calls.rings.use_again(ring, 1)
    assert calls.rings.resting(ring) == []
    llm.double.settings["keys"] = {}
    assert await calls.ask(settings(llm)) == [ONE]
    assert calls.heard == [(1, 3, "exhausted"), (1, 3, None)], "that it is back is told when the service takes it"


async def test_if_all_fail_the_error_is_that_of_the_shortest_wait(llm: LlmServer, tmp_path: Path) -> None:
    calls = Calls(llm, tmp_path, FakeClock())
    llm.double.settings["keys"] = {ONE: LIMITED, TWO: {**LIMITED, "retry_after": 5}, THREE: REFUSED}
    with pytest.raises(ProviderBusy) as caught:
        await calls.ask(settings(llm))
    assert caught.value.after_s == 5
    assert ONE not in str(caught.value)
    before = len(llm.double.keys_used)
    with pytest.raises(ProviderBusy):
        await calls.ask(settings(llm))
    assert llm.double.keys_used[before:] == [TWO], "the one that may be asked soonest"


async def test_what_the_account_may_not_do_with_any_key_lets_none_rest(llm: LlmServer, tmp_path: Path) -> None:
    calls = Calls(llm, tmp_path, FakeClock())
    for _ in range(3):
        llm.fails(kind="error", status=403, message="the project has no access to this model")
    with pytest.raises(KeyRefused):
        await calls.ask(settings(llm))
    assert calls.heard == []
    llm.fails(kind="error", status=403, message="this key may not call")
    assert await calls.ask(settings(llm)) == [ONE, TWO]
    assert calls.heard == [(1, 3, "refused")], "another key was taken for the same"


async def test_what_is_no_fault_of_the_key_is_not_tried_with_another(llm: LlmServer, tmp_path: Path) -> None:
    calls = Calls(llm, tmp_path, FakeClock())
    llm.fails(kind="error", status=503, message="overloaded")
    before = len(llm.double.keys_used)
    with pytest.raises(ProviderBusy):
        await calls.ask(settings(llm))
    assert llm.double.keys_used[before:] == [ONE]


async def test_transcription_has_the_same_keys(llm: LlmServer, tmp_path: Path) -> None:
    rings, own = KeyRings(FakeClock()), settings(llm)
    sound = tmp_path / "speech.ogg"
    sound.write_bytes(b"OggS" + bytes(200))
    llm.double.settings["keys"] = {ONE: REFUSED}
    transcriber = OpenAITranscriber(TranscriptionSettings(provider="main"), own, UNKNOWN, rings.of(own))
    await transcriber.transcribe(sound, "audio/ogg")
    assert llm.double.keys_used == [ONE, TWO]
    assert [key.number for key in rings.order(rings.of(own))] == [2, 3]


KEYS = tuple(Key(number, f"k{number}", f"d{number}") for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("until", "order"),
    [
        pytest.param({}, [1, 2, 3], id="all of them, in the order of the configuration"),
        pytest.param({1: 20}, [2, 3], id="without one that rests"),
        pytest.param({1: 10}, [1, 2, 3], id="a rest is over at its moment"),
        pytest.param({1: 30, 2: 20, 3: 40}, [2], id="where all rest, the one that has rested soonest"),
    ],
)
def test_which_keys_are_tried(until: dict[int, int], order: list[int]) -> None:
    rests = {
        f"d{number}": KeyRest(provider="main", digest=f"d{number}", trouble="limited", until=at)
        for number, at in until.items()
    }
    assert [key.number for key in in_order(KEYS, rests, now=10)] == order


def test_a_key_is_never_shown() -> None:
    assert "k1" not in repr(KEYS[0])


@pytest.mark.parametrize(
    ("errors", "last"),
    [
        ((KeyRefused("a"), QuotaUsedUp("b")), 1),
        ((ProviderBusy("a", after_s=9), KeyRefused("b"), ProviderBusy("c", after_s=3)), 2),
    ],
)
def test_the_last_word_of_several_keys(errors: tuple[AgentError, ...], last: int) -> None:
    assert last_word(errors) is errors[last]


@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        ({"api_key": SecretStr("x"), "api_keys": (SecretStr("y"),)}, "api_key and api_keys are both set"),
        ({"api_keys": (SecretStr("x"), SecretStr(" "))}, "api_keys: key 2 of 2 is empty"),
        ({"api_keys": (SecretStr("x"), SecretStr("x"))}, "a key stands there twice"),
        ({}, "api_key is missing"),
    ],
)
def test_mistakes_in_keys_are_told_at_start(more: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        ProviderSettings(name="main", type="openai", model="m", **more)


def test_all_keys_are_secrets() -> None:
    own = ProviderSettings(name="main", type="openai", model="m", api_keys=(SecretStr(ONE), SecretStr(TWO)))
    assert set(own.secrets) == {ONE, TWO}
    assert ONE not in repr(own)
