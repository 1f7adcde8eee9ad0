"""Limits that several processes keep to, of which a test plays the others."""

from dataclasses import dataclass, field

from gateway.channels.kit.rate_limits import Rate


@dataclass
class PlayedRates:
    """Keeps the promise of `gateway.channels.kit.rate_limits.SharedRates`: `waits` are what is asked next."""

    waits: list[float] = field(default_factory=list)
    asked: list[tuple[str, bool]] = field(default_factory=list)  # keys, and whether it was a frame
    closed: list[tuple[str, float]] = field(default_factory=list)

    async def ask(self, key: str, rate: Rate, *, frame: bool = False) -> float:
        self.asked.append((key, frame))
        return self.waits.pop(0) if self.waits else 0.0

    async def close(self, key: str, after_s: float) -> None:
        self.closed.append((key, after_s))
