"""Pictures made of words: settings, contract, and the picture maker that is loaded when it is first needed."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from agent.core.settings_section import SECTION_CONFIG, no_amounts, not_above_zero, refuse
from agent.providers.models import Card
from agent.providers.named_endpoint import NamedEndpoint

MOST_PER_TURN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """`[images]`. `provider` names one of type "openai" in `[[llm.providers]]`; "": there is no tool `image`.

    `size` and `quality` are words of the model ("1024x1024", "low"); "" leaves them to it. `timeout_s` is for all tries
    of one picture together, `max_mb` the largest picture that is taken.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    provider: str = ""
    model: str = "gpt-image-1"
    size: str = ""
    quality: str = ""
    usd_per_image: float | None = None
    most_per_turn: int = 2
    timeout_s: float = 180.0
    max_mb: float = 20.0

    def __post_init__(self) -> None:
        mistakes = []
        if self.provider and not self.model:
            mistakes.append('model is missing: set model = "gpt-image-1"')
        if not 1 <= self.most_per_turn <= MOST_PER_TURN:
            mistakes.append(f"most_per_turn is {self.most_per_turn}; it must be 1 to {MOST_PER_TURN}")
        mistakes += no_amounts(usd_per_image=self.usd_per_image)
        mistakes += not_above_zero(timeout_s=self.timeout_s, max_mb=self.max_mb)
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePicture:
    """A picture, or the address where the endpoint keeps it for a while."""

    data: bytes = b""
    url: str = ""


class PictureMaker(Protocol):
    """One endpoint that makes pictures."""

    name: str
    model: str
    card: Card

    async def picture(self, prompt: str) -> MadePicture:
        """One picture. Raises ProviderBusy (retry) or ProviderRefused."""


class PictureMakers(NamedEndpoint[ImageSettings, PictureMaker]):
    """Gives the picture maker that `[images]` names."""

    section = "images"
    module = "agent.providers.openai.images"
    kind = "OpenAIPictureMaker"
