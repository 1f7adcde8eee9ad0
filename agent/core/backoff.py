"""How long to wait before something that failed is tried again.

For loops that go on until they are cancelled, start over after a success, and keep a wait that the other side asked
for: tenacity, which serves a bounded number of attempts elsewhere, has none of the three.
"""

import random
from dataclasses import dataclass, field

MOST_DOUBLINGS = 64  # beyond that the power would not fit a float


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """`first_s` after the first failure, `factor` times as long after each further one, never over `longest_s`.

    `jitter` is the share of a wait that chance may take off, so that those who failed together do not all come back
    together.
    """

    first_s: float
    longest_s: float
    factor: float = 2.0
    jitter: float = 0.0

    def wait_s(self, failures: int, *, asked_s: float = 0.0, chance: float = 0.0) -> float:
        """The wait after so many failures in a row (1, 2, …), at least `asked_s`; `chance` is 0..1. Pure."""
        doublings = min(max(failures, 1) - 1, MOST_DOUBLINGS)
        full = min(self.first_s * self.factor**doublings, self.longest_s)
        return max(full * (1.0 - self.jitter * chance), asked_s)


@dataclass(slots=True, eq=False)
class Retries:
    """One loop's failures in a row, and the wait that each of them asks for."""

    backoff: Backoff
    failures: int = field(default=0, init=False)

    def failed(self, asked_s: float = 0.0) -> float:
        """Count a failure; gives the seconds to wait before the next try, never less than the other side asked for."""
        self.failures += 1
        chance = random.random()  # noqa: S311 - spreads retries, hides nothing
        return self.backoff.wait_s(self.failures, asked_s=asked_s, chance=chance)

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self.failures = 0
