"""Settings of delivery."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from agent.core.settings_section import SECTION_CONFIG
from gateway.channels.keys import ConversationKey
from gateway.phrases.catalogue import spoken

Verbosity = Literal["quiet", "normal", "verbose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`verbosities` overrides `verbosity` by channel type or whole conversation key. `acknowledge` is the reaction on a
    message that is being worked on; "" for none. `stream` shows answers while they grow.

    `stop_button`: an answer that takes longer than a few seconds has a Stop button, where the platform has none itself.

    A message that its platform keeps putting off is given up after `give_up_after_s`.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    verbosity: Verbosity = "normal"
    verbosities: Mapping[str, Verbosity] = field(default_factory=dict)
    stream: bool = True
    stop_button: bool = True
    acknowledge: str = "👀"
    language: str = "en"
    give_up_after_s: float = 24 * 3600.0

    def mistakes(self) -> Iterator[str]:
        if self.language.partition("-")[0].lower() not in spoken():
            yield f"delivery.language: there are no sentences in {self.language!r}; use one of {', '.join(spoken())}"

    def verbosity_of(self, key: ConversationKey) -> Verbosity:
        """The configured mode for it, for the place around it, for its platform, or for all."""
        if not self.verbosities:
            return self.verbosity
        places = (str(key), str(key.around), key.channel_type)
        return next((mode for place in places if (mode := self.verbosities.get(place))), self.verbosity)
