"""Voice messages: written down by an endpoint, entered in the ledger, and never a reason to lose a message."""

from pathlib import Path
from typing import Any

import pytest

from agent.core.ids import PersonId
from agent.core.messages import FilePart
from agent.ledger import rows
from agent.ledger.spending import Entry, Limit
from agent.providers.transcription import Transcribers, TranscriptionSettings
from agent.storage.database import Database
from agent.voice_messages import VoiceTranscription
from tests.agent.ledger.world import EndpointWorld, attribution
from tests.fakes.llm_server import LlmServer

SOUND = b"OggS" + b"x" * 19_996  # ten seconds, at what messengers send
MINUTE = 0.6  # USD


class World(EndpointWorld):
    """A ledger, an endpoint, and a voice message."""

    def __init__(self, database: Database, home: Path, llm: LlmServer, *limits: Limit, **settings: Any) -> None:
        super().__init__(database, home, llm, *limits, name="ear")
        values: dict[str, Any] = {"provider": "Ear", "usd_per_minute": MINUTE}
        self.settings = TranscriptionSettings(**values | settings)
        self.voice_transcription = VoiceTranscription(
            home=home,
            clock=self.clock,
            ledger=self.ledger,
            transcribers=Transcribers(lambda: self.registry, lambda: self.settings),
            policy=lambda: self.policy,
        )
        (home / "files").mkdir()
        (home / "files" / "v.oga").write_bytes(SOUND)
        self.file = FilePart(path="files/v.oga", mime_type="audio/ogg", name="v.oga", size=len(SOUND))

    def says(self, text: str, **usage: Any) -> None:
        self.llm.double.script = [{"match": {"api": "transcriptions"}, "reply": {"text": text, "usage": usage or None}}]

    async def written(self) -> str:
        return await self.voice_transcription.written(self.file, attribution())

    async def entry(self) -> Entry:
        await self.ledger.flush()
        [entry] = await self.entries()
        return entry


@pytest.fixture
async def world(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> World:
    return World(sqlite_database, tmp_path, llm)


async def test_speech_is_written_down_and_paid_by_the_second(world: World) -> None:
    world.says("Good morning.", type="duration", seconds=12)
    assert await world.written() == "[transcript of v.oga]\nGood morning."
    [call] = world.llm.calls
    assert (call["body"]["file"], call["body"]["bytes"], call["body"]["model"]) == ("speech.ogg", 20_000, "whisper-1")
    entry = await world.entry()
    assert (entry.attribution.purpose, entry.attribution.person, entry.provider) == (
        "transcription",
        PersonId("telegram:77"),
        "ear",
    )
    assert (entry.audio_s, entry.estimated) == (12.0, False)
    assert entry.cost_usd == pytest.approx(12 / 60 * MINUTE)


async def test_tokens_are_paid_by_the_price_list(world: World) -> None:
    world.settings = TranscriptionSettings(provider="ear", model="gpt-4o-transcribe", language="de")
    world.says("Guten Morgen.", type="tokens", input_tokens=100, output_tokens=20)
    assert "Guten Morgen." in await world.written()
    assert world.llm.calls[0]["body"]["language"] == "de"
    entry = await world.entry()
    assert (entry.prompt, entry.output, entry.estimated) == (100, 20, False)
    assert entry.cost_usd == pytest.approx((100 * 2.5 + 20 * 10) / 1_000_000)


async def test_what_is_not_reported_is_estimated_and_an_unknown_price_is_unknown(world: World) -> None:
    world.settings = TranscriptionSettings(provider="ear", model="own-ear")
    world.llm.double.script = [{"match": {}, "reply": {"text": "hm", "usage": {}}}]
    await world.written()
    entry = await world.entry()
    assert (entry.audio_s, entry.cost_usd, entry.estimated) == (10.0, None, True)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "error", "status": 401},
        {"kind": "error", "status": 503},
    ],
)
async def test_a_refusal_costs_nothing_and_loses_nothing(world: World, fault: dict[str, Any]) -> None:
    world.llm.fails(**fault)
    assert await world.written() == "[v.oga could not be transcribed]"
    await world.ledger.flush()
    assert await world.entries() == []


async def test_a_cut_connection_may_have_been_paid_for(world: World) -> None:
    world.llm.fails(kind="drop")
    assert "could not be transcribed" in await world.written()
    assert (await world.entry()).estimated


async def test_what_was_heard_can_be_stored(world: World) -> None:
    world.says("Good\0 mor\ud83dning.")
    assert await world.written() == "[transcript of v.oga]\nGood\ufffd mor\ufffdning."


async def test_silence_is_named(world: World) -> None:
    world.says("", type="duration", seconds=1)
    assert await world.written() == "[no speech was heard in v.oga]"


async def test_a_budget_holds_for_speech_too(sqlite_database: Database, tmp_path: Path, llm: LlmServer) -> None:
    world = World(sqlite_database, tmp_path, llm, Limit(scope="person", usd=0.05))
    assert "could not be transcribed" in await world.written()
    assert llm.calls == []


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ({"path": "../v.oga"}, "outside"),
        ({"path": "files/none.oga"}, "gone"),
        ({"size": 30_000_000}, "too large"),
    ],
)
async def test_what_cannot_be_sent_is_not_asked_about(world: World, file: dict[str, Any], why: str) -> None:
    values: dict[str, Any] = {"path": "files/v.oga", "mime_type": "audio/ogg", "name": "v.oga", "size": 9} | file
    assert "could not be transcribed" in await world.voice_transcription.written(FilePart(**values), attribution()), why
    assert world.llm.calls == []


def test_who_is_listened_to(world: World) -> None:
    picture = FilePart(path="p", mime_type="image/png", name="p.png", size=1)
    files, nothing = (world.file, picture), frozenset[str]()
    assert world.voice_transcription.wanted(files, "", nothing) == (world.file,)
    assert world.voice_transcription.wanted(files, "", frozenset({"audio/ogg"})) == (), "the model hears it itself"
    assert world.voice_transcription.wanted(files, "[transcript of v.oga]\nyes", nothing) == (), "once is enough"
    world.settings = TranscriptionSettings()
    assert world.voice_transcription.wanted(files, "", nothing) == (), "off"


async def test_a_provider_that_is_gone_is_named(world: World) -> None:
    world.settings = TranscriptionSettings(provider="nobody")
    assert "could not be transcribed" in await world.written()


@pytest.mark.parametrize(
    ("key", "value"), [("usd_per_minute", -1.0), ("usd_per_minute", float("inf")), ("timeout_s", 0.0), ("model", "")]
)
def test_impossible_settings_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=key):
        TranscriptionSettings(**{"provider": "x", key: value})


async def test_totals_know_its_purpose(world: World) -> None:
    world.says("Good morning.", type="duration", seconds=6)
    await world.written()
    await world.ledger.flush()
    [(purpose, totals)] = await world.database.read(lambda conn: rows.by(conn, "purpose"))
    assert purpose == "transcription"
    assert totals.cost_usd == pytest.approx(0.06)
