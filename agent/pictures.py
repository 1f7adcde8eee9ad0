"""Pictures by the configured endpoint: what one may cost is set aside before the call and entered after it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from agent.core.clock import Clock
from agent.core.errors import ProviderBusy, ProviderRefused
from agent.core.ids import CostAttribution
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Unpriced
from agent.providers.images import ImageSettings, MadePicture, PictureMakers
from agent.providers.repetition import repeated
from agent.providers.retry_policy import RetryPolicy

PURPOSE = "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """One for the process. Off where `[images]` names no provider."""

    clock: Clock
    ledger: Ledger
    makers: PictureMakers
    policy: Callable[[], RetryPolicy] = RetryPolicy

    @property
    def settings(self) -> ImageSettings:
        return self.makers.settings

    async def make(self, prompt: str, payer: CostAttribution) -> MadePicture:
        """One picture, on that account. Raises AgentError: the endpoint cannot, or a budget is used up."""
        settings = self.settings

        async def attempt() -> MadePicture:
            return await self._attempt(prompt, replace(payer, purpose=PURPOSE), settings)

        try:
            with anyio.fail_after(settings.timeout_s):
                return await repeated(attempt, self.clock, self.policy())
        except TimeoutError:
            words = f"{settings.provider}: no picture within {settings.timeout_s:g} s"
            raise ProviderBusy(words, sent=True) from None

    async def _attempt(self, prompt: str, payer: CostAttribution, settings: ImageSettings) -> MadePicture:
        maker, cost = await self.makers.current(), settings.usd_per_image
        try:
            reserved = await self.ledger.hold_for(
                payer, maker.name, maker.model, tokens=0, prompt=0, usd=cost, least_usd=cost
            )
        except Unpriced as error:  # whose words name the prices of tokens
            raise ProviderRefused("a limit in USD holds, and [images] usd_per_image is not set") from error
        with reserved.at_most(reserved.entry):
            made = await maker.picture(prompt)
        reserved.enter(replace(reserved.entry, estimated=cost is None))
        return made
