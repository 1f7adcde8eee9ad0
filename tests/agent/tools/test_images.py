"""The tool that makes pictures: kept, sent once, bounded for each message, and nothing but pictures."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent.core.errors import ProviderBusy, ToolError
from agent.core.ids import ConversationId, CostAttribution
from agent.core.tools import ToolContext
from agent.providers.images import ImageSettings, MadePicture
from agent.tools.approvals import Rules, gate_for
from agent.tools.images import ImageTools
from agent.tools.settings import WebSettings
from agent.tools.web.fetching import Fetcher
from tests.agent.tools.test_sending import FakeSending
from tests.doubles.llm_api import PICTURE
from tests.fakes.calls import call_in, called

PAYER = CostAttribution(purpose="turn", conversation=ConversationId("telegram:77"))


@dataclass
class FakePictures:
    """Gives the same picture each time, and counts."""

    made: MadePicture | Exception = field(default_factory=lambda: MadePicture(data=PICTURE))
    settings: ImageSettings = field(default_factory=lambda: ImageSettings(provider="a"))
    prompts: list[str] = field(default_factory=list)

    async def make(self, prompt: str, payer: CostAttribution) -> MadePicture:
        self.prompts.append(prompt)
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


def tools_with(pictures: FakePictures, sending: FakeSending) -> ImageTools:
    return ImageTools(pictures, sending, Fetcher(), WebSettings)


def context(home: Path, key: str = "12:3") -> ToolContext:
    return replace(call_in(home), idempotency_key=key, payer=PAYER)


async def test_a_repeat_after_a_crash_makes_and_sends_nothing_anew(tmp_path: Path) -> None:
    pictures, sending = FakePictures(), FakeSending()
    tool = tools_with(pictures, sending).image
    said = await called(tool, context(tmp_path), prompt="a fox", caption="A fox.")
    assert await called(tool, context(tmp_path), prompt="a fox", caption="A fox.") == said
    assert pictures.prompts == ["a fox"]
    (first, second) = sending.sent
    assert first == second
    assert first[1:4:2] == (PICTURE, "image/png")
    (file,) = (tmp_path / "pictures" / "12").iterdir()
    assert f"/workspace/pictures/12/{file.name}" in said


@pytest.mark.requirement("Z-158")
async def test_one_message_gets_so_many_and_the_next_begins_anew(tmp_path: Path) -> None:
    pictures = FakePictures(settings=ImageSettings(provider="a", most_per_turn=2))
    tool = tools_with(pictures, FakeSending()).image
    for number in range(2):
        await called(tool, context(tmp_path, f"12:{number}"), prompt="a fox")
    with pytest.raises(ToolError, match="no more than 2 pictures"):
        await called(tool, context(tmp_path, "12:9"), prompt="a fox")
    assert len(pictures.prompts) == 2
    await called(tool, context(tmp_path, "13:1"), prompt="a fox")


@pytest.mark.requirement("Z-159")
@pytest.mark.parametrize(
    ("made", "why"),
    [
        pytest.param(ProviderBusy("a: overloaded"), "no picture was made: a: overloaded", id="the endpoint is down"),
        pytest.param(MadePicture(data=b"<html>"), "6 bytes that are no picture", id="no picture"),
        pytest.param(MadePicture(data=PICTURE[:-4]), "no picture of a known type", id="a picture that is cut off"),
        pytest.param(MadePicture(url="http://127.0.0.1:8080/p.png"), "private", id="an address in our network"),
        pytest.param(MadePicture(url="file:///etc/passwd"), "http", id="an address of another kind"),
    ],
)
async def test_what_is_no_picture_is_told_and_not_sent(tmp_path: Path, made: MadePicture, why: str) -> None:
    sending = FakeSending()
    with pytest.raises(ToolError, match=why):
        await called(tools_with(FakePictures(made), sending).image, context(tmp_path), prompt="a fox")
    assert sending.sent == []
    assert not (tmp_path / "pictures").exists()


async def test_a_person_is_asked_with_the_price_and_may_allow_all(tmp_path: Path) -> None:
    pictures = FakePictures(settings=ImageSettings(provider="a", usd_per_image=0.5))
    spec = tools_with(pictures, FakeSending()).image.spec
    assert spec.appraise is not None
    appraisal = await spec.appraise({"prompt": "a fox", "caption": "Look."}, context(tmp_path))
    assert appraisal.shown == "Make a picture (about 0.50 USD):\na fox\nCaption: Look."
    assert appraisal.covers == (await spec.appraise({"prompt": "a cat"}, context(tmp_path))).covers
    assert gate_for(spec, appraisal, Rules(), allowed_for_good=False) == "ask"
    assert spec.effects == {"write", "spend"}
