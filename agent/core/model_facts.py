"""Facts about models, and about keys, at one address of an API, beyond what is configured. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Sizes in tokens, moments in UTC microseconds.

    `told` is the window as its server tells, `told_by` where it does. `answered` is the largest request that was
    answered, `refused` the smallest that was found too long, so many times. `dialect` holds how the server differs from
    what its provider guesses of it.
    """

    provider: str
    model: str
    address: str = ""
    told: int | None = None
    told_by: str = ""
    told_at: int = 0
    answered: int = 0
    refused: int | None = None
    refused_at: int = 0
    refusals: int = 0
    dialect: Mapping[str, Any] = field(default_factory=dict)
    dialect_at: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.provider, self.model, self.address


def merged(one: ModelFacts, other: ModelFacts) -> ModelFacts:
    """Of two findings about one model: what was told, refused and learned of the dialect last, the largest answer."""
    told = one if one.told_at >= other.told_at else other
    refused = one if one.refused_at >= other.refused_at else other
    dialect = one if one.dialect_at >= other.dialect_at else other
    return replace(
        one,
        told=told.told,
        told_by=told.told_by,
        told_at=told.told_at,
        answered=max(one.answered, other.answered),
        refused=refused.refused,
        refused_at=refused.refused_at,
        refusals=refused.refusals,
        dialect=dialect.dialect,
        dialect_at=dialect.dialect_at,
    )


KeyTrouble = Literal["limited", "refused", "exhausted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRest:
    """A key that is not asked until then, UTC microseconds. `digest` stands for the key, which cannot be read in it."""

    provider: str
    digest: str
    trouble: KeyTrouble
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCircuit:
    """The circuit of a provider that is open for `rest_s` seconds more, 0 or less: until somebody has tried it.

    `limited`: it lives, and asks to wait; `broken`: it counts as broken, and not merely asked to wait.
    """

    provider: str
    model: str
    rest_s: float
    limited: bool
    broken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOffer:
    """A model that a provider offers. Prices in USD per million tokens, `window` in tokens; None: nobody says."""

    id: str
    window: int | None = None
    input_usd: float | None = None
    output_usd: float | None = None
    pictures: bool | None = None
    tools: bool | None = None
    reasoning: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """Models of a provider at one address, as they were known `at`, UTC microseconds.

    `listed`: its server lists them; else nobody does, and these are the configured one and what the price list has.
    """

    provider: str
    address: str
    listed: bool
    at: int
    offers: tuple[ModelOffer, ...] = ()
