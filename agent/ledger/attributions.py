"""A call of a model as the ledger keeps it, and sums of such calls. Values only."""

from dataclasses import dataclass

from agent.providers.metering import CostAttribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call that was made, or may have been. `at` is when it began, UTC microseconds; `audio_s` seconds of sound.

    `cost_usd` None: its price is unknown. `estimated`: nobody reported all of its tokens (DESIGN §13.10).
    """

    call: str
    at: int
    attribution: CostAttribution
    provider: str
    model: str
    prompt: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0
    audio_s: float = 0.0
    cost_usd: float | None = None
    estimated: bool = False

    @property
    def read(self) -> int:
        """Tokens that went in, from a cache or not."""
        return self.prompt + self.cache_creation + self.cache_read

    @property
    def tokens(self) -> int:
        return self.read + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """Sums over calls. `unpriced` counts calls without a price, which `cost_usd` leaves out (SPEC §20.6, 6.3)."""

    calls: int = 0
    prompt: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    estimated: int = 0

    @property
    def tokens(self) -> int:
        """In and out, from a cache or not."""
        return self.prompt + self.cache_creation + self.cache_read + self.output
