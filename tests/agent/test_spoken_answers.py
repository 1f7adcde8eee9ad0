"""Answers read out: when, in which form of request, entered in the ledger, and made once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.errors import AgentError, ProviderBusy, ProviderRefused
from agent.core.messages import FilePart
from agent.core.ogg_opus import read_opus
from agent.core.outbox import SpokenText
from agent.ledger.spending import Limit, OverBudget
from agent.providers.speech import Speakers, SpeechSettings, VoiceRule
from agent.spoken_answers import SpokenAnswers, is_spoken
from agent.storage.database import Database
from tests.agent.ledger.world import EndpointWorld, attribution
from tests.fakes.llm_server import LlmServer

VOICE = FilePart(path="files/v.oga", mime_type="audio/ogg", name="v.oga", size=1)
PICTURE = FilePart(path="files/p.png", mime_type="image/png", name="p.png", size=1)
WORDS = "It rains."
SPOKEN = SpokenText(text=WORDS, key="k", payer=attribution())


@pytest.mark.parametrize(
    ("rule", "provider", "files", "spoken"),
    [
        pytest.param(None, "a", (VOICE,), True, id="a voice message, unless something else is set"),
        pytest.param(None, "a", (), False, id="text is answered by text"),
        pytest.param(None, "a", (PICTURE,), False, id="a picture is no voice message"),
        pytest.param("reply", "a", (PICTURE, VOICE), True, id="sound among others"),
        pytest.param("always", "a", (), True, id="always"),
        pytest.param("off", "a", (VOICE,), False, id="off"),
        pytest.param("always", "", (VOICE,), False, id="nobody is there to speak"),
    ],
)
def test_is_spoken(rule: VoiceRule | None, provider: str, files: tuple[FilePart, ...], spoken: bool) -> None:
    assert is_spoken(rule, SpeechSettings(provider=provider), files) is spoken


class World(EndpointWorld):
    """A ledger and an endpoint that reads out."""

    def __init__(self, database: Database, home: Path, llm: LlmServer, *limits: Limit, **settings: Any) -> None:
        super().__init__(database, home, llm, *limits)
        values: dict[str, Any] = {"provider": "a", "usd_per_million_chars": 15.0}
        self.settings = SpeechSettings(**values | settings)
        self.answers = SpokenAnswers(
            home=home,
            clock=self.clock,
            ledger=self.ledger,
            speakers=Speakers(lambda: self.registry, lambda: self.settings),
            policy=lambda: self.policy,
        )


async def test_a_file_is_found_again_and_paid_once(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    world = World(sqlite_database, tmp_path, llm)
    assert await world.answers.find(SPOKEN) is None
    made = await world.answers.make(WORDS, SPOKEN)
    assert await world.answers.find(SPOKEN) == made
    assert await world.answers.find(replace(SPOKEN, key="other")) is None
    assert (made.mime_type, made.voice) == ("audio/ogg", True)
    assert (tmp_path / made.path).stat().st_mode & 0o077 == 0
    await world.ledger.flush()
    (entry,) = await world.entries()
    assert entry.cost_usd == pytest.approx(len(WORDS) * 15 / 1e6)
    assert entry.audio_s == pytest.approx(read_opus((tmp_path / made.path).read_bytes()).seconds, abs=0.001)
    assert not entry.estimated


@pytest.mark.parametrize("format", ["mp3", "aac", "flac", "wav"])
async def test_other_formats(sqlite_database: Database, tmp_path: Path, llm: LlmServer, format: str) -> None:
    world = World(sqlite_database, tmp_path, llm, format=format, instructions="calmly")
    made = await world.answers.make(WORDS, SPOKEN)
    assert made.mime_type.startswith("audio/")
    assert (llm.calls[0]["body"]["response_format"], llm.calls[0]["body"]["instructions"]) == (format, "calmly")
    assert await world.answers.find(SPOKEN) == made


@pytest.mark.parametrize(
    ("settings", "fault", "error", "words", "paid"),
    [
        pytest.param({"voice": "nobody"}, None, ProviderRefused, "Input should be", 0, id="a voice nobody knows"),
        pytest.param({}, {"kind": "error", "status": 429}, ProviderBusy, "", 0, id="limited"),
        pytest.param({}, {"kind": "error", "status": 503}, ProviderBusy, "", 0, id="overloaded"),
        pytest.param({}, {"kind": "wrong_type"}, ProviderBusy, "text/html instead of sound", 1, id="a page"),
        pytest.param({}, {"kind": "cut_off"}, ProviderBusy, "no whole Ogg Opus", 1, id="half a sound"),
        pytest.param({}, {"kind": "broken_off"}, ProviderBusy, "connection", 1, id="a broken connection"),
        pytest.param({"timeout_s": 0.2}, {"kind": "slow"}, ProviderBusy, "within 0.2 s", 1, id="no answer"),
        pytest.param({"max_mb": 0.0001}, None, ProviderBusy, "more than", 1, id="too much"),
        pytest.param({"provider": "b"}, None, ProviderRefused, "there is no 'b'", 0, id="a provider that went"),
    ],
)
async def test_what_fails_leaves_no_file_and_is_paid_only_where_it_may_have_been(
    sqlite_database: Database,
    tmp_path: Path,
    llm: LlmServer,
    settings: dict[str, Any],
    fault: dict[str, Any] | None,
    error: type[AgentError],
    words: str,
    paid: int,
) -> None:
    world = World(sqlite_database, tmp_path, llm, **settings)
    if fault is not None:
        llm.fails(**fault)
    with pytest.raises(error, match=words):
        await world.answers.make(WORDS, SPOKEN)
    assert await world.answers.find(SPOKEN) is None
    await world.ledger.flush()
    entries = await world.entries()
    assert len(entries) == paid
    assert all(entry.estimated for entry in entries)


async def test_a_budget_holds_before_the_call(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    world = World(sqlite_database, tmp_path, llm, Limit(scope="person", usd=0.0001))
    with pytest.raises(OverBudget):
        await world.answers.make(WORDS, SPOKEN)
    assert llm.calls == []


async def test_a_price_that_is_missing_is_named(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    world = World(sqlite_database, tmp_path, llm, Limit(scope="person", usd=1.0), usd_per_million_chars=None)
    with pytest.raises(ProviderRefused, match=r"\[speech\] usd_per_million_chars is not set"):
        await world.answers.make(WORDS, SPOKEN)
    assert llm.calls == []


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ({"provider": "a", "model": ""}, 'model is missing: set model = "gpt-4o-mini-tts"'),
        ({"provider": "a", "voice": ""}, 'voice is missing: set voice = "alloy"'),
        ({"format": "pcm"}, "format is 'pcm'; it must be one of opus, mp3"),
        ({"max_chars": 0}, "max_chars is 0; it must be 1 to 4096"),
        ({"usd_per_million_chars": -1.0}, "usd_per_million_chars is -1.0"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0; it must be more than 0"),
        ({"max_mb": float("inf")}, "max_mb is inf"),
    ],
)
def test_mistakes_in_the_section(values: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        SpeechSettings(**values)
