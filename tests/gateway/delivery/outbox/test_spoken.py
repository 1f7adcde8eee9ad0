"""Rows that are read out: made once, never again where something may have arrived, and of what may leave alone."""

from dataclasses import dataclass, field, replace

import pytest

from agent.core.errors import ProviderBusy
from agent.core.ids import ConversationId, CostAttribution
from agent.core.outbox import FileRef, OutgoingMessage, SpokenText
from agent.providers.speech import SpeechSettings
from gateway.channels.channel import Capabilities
from gateway.delivery.egress import Guard
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.outbox.spoken import SpokenRows
from gateway.phrases.catalogue import read_catalogue

PHRASE = read_catalogue()
PAYER = CostAttribution(purpose="speech", conversation=ConversationId("telegram:77"))
FILE = FileRef(path="files/sent/x/spoken.ogg", name="spoken.ogg", mime_type="audio/ogg", voice=True)
FAILED = PHRASE("spoken_failed", "en")
ROW = Claimed(
    id=1,
    inbox_id=1,
    conversation=ConversationId("telegram:77"),
    say=OutgoingMessage(text="", kind="reply", spoken=SpokenText(text="It **rains**.", key="k", payer=PAYER)),
    cut_off=False,
    sent_refs=(),
    repeated=None,
    created_at=1,
)


@dataclass
class FakeSpeech:
    """Has made a file before (`kept`), or makes it now, or cannot."""

    kept: FileRef | None = None
    error: Exception | None = None
    settings: SpeechSettings = field(default_factory=lambda: SpeechSettings(provider="a"))
    texts: list[str] = field(default_factory=list)

    async def find(self, spoken: SpokenText) -> FileRef | None:
        return self.kept

    async def make(self, words: str, spoken: SpokenText) -> FileRef:
        self.texts.append(words)
        if self.error is not None:
            raise self.error
        return FILE


def can(upload_limit: int = 1_000_000) -> Capabilities:
    return Capabilities(measure=len, text_limit=4096, upload_limit=upload_limit)


async def ready(row: Claimed, speech: FakeSpeech | None, *, guard: Guard = Guard(), upload_limit: int = 1) -> Claimed:  # noqa: B008
    rows = SpokenRows(PHRASE, guard)
    if speech is not None:
        rows.connect(speech)
    return await rows.ready(row, can(upload_limit), "en")


@pytest.mark.requirement("Z-156")
@pytest.mark.parametrize(
    ("cut_off", "speech", "made", "has_file", "text"),
    [
        pytest.param(False, FakeSpeech(), 1, True, "", id="made now"),
        pytest.param(False, FakeSpeech(kept=FILE), 0, True, "", id="made before a crash"),
        pytest.param(True, FakeSpeech(kept=FILE), 0, True, "", id="it may have arrived"),
        pytest.param(True, FakeSpeech(), 0, False, FAILED, id="without a file only the sentence may have arrived"),
        pytest.param(False, FakeSpeech(error=ProviderBusy("down")), 1, False, FAILED, id="it cannot be made"),
        pytest.param(False, FakeSpeech(error=OSError("full")), 1, False, FAILED, id="the disk is full"),
        pytest.param(False, FakeSpeech(settings=SpeechSettings()), 0, False, "", id="switched off meanwhile"),
    ],
)
async def test_ready(cut_off: bool, speech: FakeSpeech, made: int, has_file: bool, text: str) -> None:
    row = await ready(replace(ROW, cut_off=cut_off), speech)
    assert len(speech.texts) == made
    assert (row.say.text, row.say.spoken) == (text, None)
    assert bool(row.say.files) is has_file
    assert all(file.voice and file.name == "Spoken answer.ogg" for file in row.say.files)


async def test_where_no_files_can_be_sent_or_nobody_speaks_there_is_nothing() -> None:
    speech = FakeSpeech()
    for row in (await ready(ROW, speech, upload_limit=0), await ready(ROW, None)):
        assert (row.say.text, row.say.files) == ("", ())
    assert speech.texts == []


async def test_the_endpoint_is_told_no_secret() -> None:
    speech = FakeSpeech()
    guard = Guard(lambda text: [(text.index("s3cret"), text.index("s3cret") + 6, "…")] if "s3cret" in text else [])
    told = replace(ROW.say, spoken=SpokenText(text="The key is s3cret.", key="k", payer=PAYER))
    await ready(replace(ROW, say=told), speech, guard=guard)
    assert speech.texts == ["The key is …."]


async def test_another_row_is_itself() -> None:
    row = replace(ROW, say=OutgoingMessage(text="hi", kind="answer"))
    assert await ready(row, FakeSpeech()) is row
