"""Vectors and transcripts over a line that delivers in pieces: all of the answer is read, within a limit."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.core.errors import ProviderBusy, ProviderRefused
from agent.providers.models import UNKNOWN
from agent.providers.openai import embeddings as openai_embeddings
from agent.providers.openai import transcription
from agent.providers.openai.embeddings import OpenAIEmbeddings
from agent.providers.openai.transcription import OpenAITranscriber
from agent.providers.settings import ProviderSettings
from agent.providers.transcription import TranscriptionSettings
from tests.fakes.piecewise import Piecewise, serving

TEXTS = [f"text {number}" for number in range(32)]
VECTORS = [[round(0.0123456789 + number + place / 1536, 12) for place in range(1536)] for number in range(32)]


def vectors(count: int) -> bytes:
    rows = [{"object": "embedding", "index": at, "embedding": VECTORS[at]} for at in range(count)]
    return json.dumps({"data": rows, "model": "m", "usage": {"prompt_tokens": 7}}).encode()


def transcript(words: int) -> bytes:
    return json.dumps({"text": "a quarter of an hour " * words}).encode()


def embeddings(server: Piecewise) -> OpenAIEmbeddings:
    return OpenAIEmbeddings("m", account(server), UNKNOWN, timeout_s=20.0)


def transcriber(server: Piecewise) -> OpenAITranscriber:
    return OpenAITranscriber(TranscriptionSettings(provider="vec", model="m"), account(server), UNKNOWN)


def account(server: Piecewise) -> ProviderSettings:
    return ProviderSettings(name="vec", type="openai", model="m", base_url=f"{server.url}/v1", api_key=SecretStr("k"))


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    path = tmp_path / "voice.ogg"
    path.write_bytes(b"OggS" * 500)
    return path


@pytest.mark.requirement("Z-11")
@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
@pytest.mark.parametrize("count", [1, 4, 32])
async def test_vectors_of_the_common_size_come_whole(count: int, chunked: bool) -> None:
    async with serving(Piecewise(body=vectors(count), pieces=12, chunked=chunked)) as server:
        embedded = await embeddings(server).embed(TEXTS[:count])
    assert embedded.vectors == tuple(map(tuple, VECTORS[:count]))
    assert embedded.tokens == 7


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_a_transcript_longer_than_one_read_comes_whole(voice: Path, chunked: bool) -> None:
    async with serving(Piecewise(body=transcript(4_000), chunked=chunked)) as server:
        written = await transcriber(server).transcribe(voice, "audio/ogg")
    assert written.text == ("a quarter of an hour " * 4_000).strip()


async def test_an_error_in_pieces_is_read_as_well(voice: Path) -> None:
    body = json.dumps({"error": {"message": "the key is wrong", "code": "invalid_api_key"}}).encode()
    async with serving(Piecewise(body=body, status=401)) as server:
        for asked in (embeddings(server).embed(TEXTS[:1]), transcriber(server).transcribe(voice, "audio/ogg")):
            with pytest.raises(ProviderRefused, match="the key is wrong"):
                await asked


async def test_an_answer_above_the_limit_is_named_as_such(voice: Path) -> None:
    async with serving(Piecewise(body=b"9" * (openai_embeddings.LARGEST_ANSWER + 1))) as server:
        with pytest.raises(ProviderBusy, match=rf"answered with more than {openai_embeddings.LARGEST_ANSWER} bytes"):
            await embeddings(server).embed(TEXTS[:1])
    async with serving(Piecewise(body=b"9" * (transcription.LARGEST_ANSWER + 1))) as server:
        with pytest.raises(ProviderBusy, match=rf"answered with more than {transcription.LARGEST_ANSWER} bytes"):
            await transcriber(server).transcribe(voice, "audio/ogg")


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_a_connection_cut_in_the_middle_is_transient_and_perhaps_paid_for(voice: Path, chunked: bool) -> None:
    async with serving(Piecewise(body=vectors(4), chunked=chunked, cut_after=20_000)) as server:
        with pytest.raises(ProviderBusy, match=r"the connection to 127.0.0.1:[0-9]+ failed") as cut:
            await embeddings(server).embed(TEXTS[:4])
        assert cut.value.sent
    async with serving(Piecewise(body=transcript(4_000), chunked=chunked, cut_after=20_000)) as server:
        with pytest.raises(ProviderBusy, match=r"the connection to 127.0.0.1:[0-9]+ failed") as cut:
            await transcriber(server).transcribe(voice, "audio/ogg")
        assert cut.value.sent
