"""How well something is still remembered: the forgetting curve of Ebbinghaus (SPEC §8.12). Pure."""

from math import exp, log

STRENGTH_S = 86_400.0  # how long an access is good for


def retention(age_s: float, accesses: int, strength_s: float = STRENGTH_S) -> float:
    """0 (forgotten) to 1 for something last used `age_s` seconds ago and used `accesses` times in all (Z-30).

    What was never used decays almost at once: a factor of e in a second.
    """
    return exp(-decay(age_s, accesses, strength_s))


def decay(age_s: float, accesses: int, strength_s: float = STRENGTH_S) -> float:
    """The curve's exponent: it still orders what is forgotten so far that every retention is 0."""
    return max(0.0, age_s) / max(1.0, strength_s * log(1 + max(0, accesses)))
