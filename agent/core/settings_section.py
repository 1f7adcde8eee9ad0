"""Reading of a section by pydantic, and refusal of impossible values: all mistakes of a section at once.

A plain mapping, so that the modules which declare sections need not import pydantic.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

# TOML writes `inf` and `nan`; a wait of that length would never end, and no comparison with the latter is ever true.
SECTION_CONFIG: dict[str, Any] = {"extra": "forbid", "allow_inf_nan": False}


def refuse(mistakes: Sequence[str]) -> None:
    """Raise ValueError that tells them all; nothing where there are none."""
    if mistakes:
        raise ValueError("; ".join(mistakes))


def not_above_zero(**values: float) -> Iterator[str]:
    """A line for each that is not a finite number above 0."""
    for key, value in values.items():
        if not (isfinite(value) and value > 0):
            yield f"{key} is {value}; it must be more than 0"


def no_amounts(**values: float | None) -> Iterator[str]:
    """A line for each that is there and is no finite amount of 0 or more."""
    for key, value in values.items():
        if value is not None and not (isfinite(value) and value >= 0):
            yield f"{key} is {value}; it must be a finite amount of 0 or more"
