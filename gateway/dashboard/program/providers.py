"""Providers: how each one does since the start, who stands in for it, a test call, and the models that it lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.clock import Clock
from agent.core.ids import PersonId
from agent.core.model_facts import KeyTrouble, ModelOffer
from agent.core.phrases import home_as_typed
from agent.ledger.ledger import Ledger
from agent.ledger.spending import AccountBalance, amount
from agent.providers.models import WindowOrigin
from agent.providers.registry import LazyProvider, UnknownProvider
from agent.providers.retry_policy import State
from agent.providers.routing import Failures
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.dashboard.frame.listing import asked, listed
from gateway.dashboard.frame.rendering import took
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, view
from gateway.running.basics import Basics
from gateway.running.models import ModelAccess, try_model
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.trouble import Trouble
from gateway.traces import rows
from gateway.traces.figures import HOUR_US, LABELS, Times, apart, hour_of, quantile
from gateway.web.control import OperationError

DURATION, RETRIES, TAKEN_OVER = "gen_ai_client_operation_duration_seconds", "tieline_llm_retries", "tieline_failovers"
KEY_TROUBLES: dict[KeyTrouble, str] = {
    "limited": "it reached a limit",
    "exhausted": "its credit is used up",
    "refused": "the service refuses it",
}
STATES: dict[State, str] = {
    "closed": "in use",
    "open": "passed over for a while",
    "half_open": "tried with the next call",
}


SPANS: Mapping[int, str] = {24: "The last 24 hours", 7 * 24: "The last 7 days"}  # hours that are shown
REASONS: Mapping[str, str] = {  # names of errors, for people
    "ProviderBusy": "busy, too slow or cut off",
    "ProviderRefused": "refused",
    "KeyRefused": "key refused",
    "QuotaUsedUp": "credit used up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingKey:
    """A key that is not asked now, by its number in the configuration; never the key itself."""

    number: int
    why: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Calls of turns since the start: answers and repeats. How long they took is told by `Past` alone.

    `taken_over` are those that another provider answered in its place.
    """

    answers: int
    retries: int
    taken_over: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Calls of turns in the hours up to now, by the figures: answers, their milliseconds, and attempts that failed.

    `failed` counts by reason. `failed_at` is the begin of the hour of the last one, `last` its reason.
    """

    over: str
    answers: int
    first_p50_ms: int | None
    first_p95_ms: int | None
    p50_ms: int | None
    p95_ms: int | None
    failed: Sequence[tuple[str, int]]
    failed_at: datetime | None
    last: str

    @property
    def failures(self) -> int:
        return sum(count for _, count in self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit that holds for its calls."""

    who: str
    period: str
    spent: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProvider:
    """A provider as the page shows it. `price` is "" where nobody knows it."""

    name: str
    type: str
    model: str
    host: str
    is_default: bool
    state: State
    keys: int
    resting: Sequence[RestingKey]
    stand_ins: Sequence[str]
    trouble: Trouble | None
    failures: Failures | None
    last_error: str
    served: Served
    past: Sequence[Past]
    window: int
    window_from: str
    price: str
    budgets: Sequence[Budget]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPages:
    """The list, one provider with its models, and what may be done with it."""

    basics: Basics
    models: ModelAccess
    metrics: Metrics
    ledger: Ledger

    @property
    def _clock(self) -> Clock:
        return self.basics.clock

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Providers",
            group="Program",
            entries=(
                view("/providers", self.all),
                view("/providers/{name}", self.one),
                action("/provider/test/{name}", self.test, name="providers.test"),
                action("/provider/again/{name}", self.again, name="providers.again"),
                action("/provider/key/{name}/{number:int}", self.key, name="providers.key"),
                action("/provider/models/{name}", self.refresh, name="providers.models"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """Every provider in the order of the configuration."""
        registry = self.models.providers
        past = await self._past()
        shown = [await self._shown(registry.get(name), past) for name in registry.names]
        values = {
            "providers": shown,
            "states": STATES,
            "where": home_as_typed(self.basics.home),
            "aliases": sorted(registry.aliases.items()),
        }
        return Page(template="providers.html", values=values, live=True)

    async def one(self, request: Request) -> Page:
        """A provider, and the list of its models as its server gave it last."""
        provider = self._provider(request)
        stored = await self.models.lists.stored(provider.settings)
        look = asked(
            request.query_params,
            columns=("model", "window", "input", "output"),
            descending=("window", "input", "output"),
        )
        offers = stored.offers if stored is not None else ()
        values = {
            "title": provider.name,
            "one": await self._shown(provider, await self._past()),
            "states": STATES,
            "where": home_as_typed(self.basics.home),
            "listing": listed(offers, look, key=lambda offer: _sorted_by(offer, look.sort), words=lambda one: one.id),
            "count": len(offers),
            "is_listed": stored is not None and stored.listed,
            "asked_at": from_timestamp(stored.at) if stored is not None else None,
        }
        return Page(template="provider.html", values=values, live=True)

    async def test(self, request: Request) -> Done:
        """Asks it a few words, as `/model` does with a model that nobody lists."""
        provider, person = self._provider(request), person_of(request)
        place = ConversationKey("web", str(person.id))
        began = self._clock.monotonic()
        error = await try_model(self.models.models, provider, place, PersonId(f"web:{person.id}"))
        after = took(round((self._clock.monotonic() - began) * 1000))
        if error is not None:
            why = _sentence(self._plain(provider, str(error)))
            text = f"{provider.name} did not answer. {why}"
            return Done(text=text, subject=provider.name, detail="it did not answer")
        text = f"{provider.name} ({provider.model}) answered after {after}."
        return Done(text=text, subject=provider.name, detail=f"it answered after {after}")

    async def again(self, request: Request) -> Done:
        """Closes its circuit: the next call goes to it, whatever it did before."""
        provider = self._provider(request)
        if self.models.models.state_of(provider) == "closed":
            raise OperationError(f"{provider.name} is in use already")
        await self.models.models.forgive(provider.name)
        return Done(text=f"The next call goes to {provider.name} again.", subject=provider.name)

    async def key(self, request: Request) -> Done:
        """Lets a resting key be tried at the next call."""
        provider, number = self._provider(request), int(request.path_params["number"])
        if not await provider.keys.rings.use_again(provider.keys, number):
            raise OperationError(f"key {number} of {provider.name} does not rest")
        text = f"Key {number} of {provider.name} is tried again with the next call."
        return Done(text=text, subject=provider.name, detail=f"key {number}")

    async def refresh(self, request: Request) -> Done:
        """Asks its server for its models now."""
        provider = self._provider(request)
        found = await self.models.lists.refresh(provider.settings)
        if not found.listed:
            text = f"The server of {provider.name} lists no models; shown is what is known without it."
        else:
            text = f"{provider.name} lists {len(found.offers)} models."
        return Done(text=text, subject=provider.name, detail=f"{len(found.offers)} models")

    def _plain(self, provider: LazyProvider, error: str) -> str:
        return self.basics.redact(error.removeprefix(f"{provider.name}: "))

    def _provider(self, request: Request) -> LazyProvider:
        name = request.path_params["name"]
        try:
            return self.models.providers.get(name)
        except UnknownProvider:
            raise LookupError(f"There is no provider {name}.") from None

    async def _past(self) -> Mapping[str, Sequence[Past]]:
        """How each provider did in the last hours and days."""
        until = hour_of(to_timestamp(self._clock.now())) + HOUR_US

        def read(conn: Connection) -> Mapping[str, Sequence[Past]]:
            found: dict[str, list[Past]] = {}
            for hours, words in SPANS.items():
                for name, past in _past_of(conn, until - hours * HOUR_US, until, words).items():
                    found.setdefault(name, []).append(past)
            return found

        return await self.basics.database.read(read)

    async def _shown(self, provider: LazyProvider, past: Mapping[str, Sequence[Past]]) -> ShownProvider:
        registry, troubles = self.models.providers, self.basics.troubles.recent(1_000)
        trouble = next((one for one in troubles if (one.kind, one.subject) == ("provider", provider.name)), None)
        failures = self.models.models.failures_of(provider)
        return ShownProvider(
            name=provider.name,
            type=provider.settings.type,
            model=provider.model,
            host=urlsplit(provider.settings.base_url).hostname or "",
            is_default=provider.name == registry.default.name,
            state=self.models.models.state_of(provider),
            keys=len(provider.keys.keys),
            resting=[
                RestingKey(number=number, why=KEY_TROUBLES[rest.trouble], until=from_timestamp(rest.until))
                for number, rest in provider.keys.rings.resting(provider.keys)
            ],
            stand_ins=[one.name for one in registry.route(provider)[1:]],
            trouble=trouble,
            failures=failures,
            last_error=_sentence(self._plain(provider, failures.last)) if failures is not None else "",
            served=self._served(provider.name),
            past=past.get(provider.name, ()),
            window=await provider.look_up_window(),
            window_from=_told(provider.window_origin),
            price=await _price(provider),
            budgets=[
                _budget(one)
                for one in self.ledger.budgets.all_standings()
                if one.account.scope == "gateway" or one.account[:2] == ("provider", provider.name)
            ],
        )

    def _served(self, name: str) -> Served:
        times = [one for labels, one in self.metrics.histograms[DURATION].items() if labels[1] == name]
        return Served(
            answers=sum(one.count for one in times),
            retries=int(self.metrics.sum(RETRIES, gen_ai_provider_name=name)),
            taken_over=int(self.metrics.sum(TAKEN_OVER, gen_ai_provider_name=name)),
        )


def _past_of(conn: Connection, since: int, until: int, words: str) -> Mapping[str, Past]:
    """How each provider that was asked in that time did."""

    def whole(name: Times | Literal["failed_calls"]) -> Mapping[str, Mapping[str, float]]:
        points = rows.series(conn, name, since, until, until - since)
        return apart(points[0].values) if points else {}

    def within(times: Mapping[str, Mapping[str, float]], name: str, share: float) -> int | None:
        ms = quantile(times.get(name, {}), share)
        return None if ms is None else round(ms)

    times, first, failed = whole("call_ms"), whole("call_first_token_ms"), whole("failed_calls")
    last: dict[str, tuple[int, str]] = {}
    for point in rows.series(conn, "failed_calls", since, until, HOUR_US):
        for name, reasons in apart(point.values).items():
            last[name] = point.at, max(reasons, key=lambda reason, reasons=reasons: reasons[reason])  # type: ignore[misc]
    return {
        name: Past(
            over=words,
            answers=round(sum(times.get(name, {}).get(label, 0) for label in LABELS)),
            first_p50_ms=within(first, name, 0.5),
            first_p95_ms=within(first, name, 0.95),
            p50_ms=within(times, name, 0.5),
            p95_ms=within(times, name, 0.95),
            failed=[(_reason(reason), round(count)) for reason, count in sorted(failed.get(name, {}).items())],
            failed_at=from_timestamp(last[name][0]) if name in last else None,
            last=_reason(last[name][1]) if name in last else "",
        )
        for name in {**times, **failed}
    }


def _reason(error: str) -> str:
    return REASONS.get(error, error)


async def _price(provider: LazyProvider) -> str:
    """The price of a million tokens in and out; from the price list where nothing has opened the provider yet."""
    prices = provider.prices
    if prices is None and not provider.is_warm:
        prices = (await provider.look_up_card()).prices
    return "" if prices is None else f"${prices.input:.6g} in, ${prices.output:.6g} out for a million tokens"


def _told(origin: WindowOrigin | None) -> str:
    """Where the size of a window is from."""
    if origin is None:
        return "built in"
    match origin.source:
        case "configured":
            return "by the configuration"
        case "listed":
            return "by the price list"
        case "told":
            return f"told by its server{f' ({origin.by})' if origin.by else ''}"
        case "learned":
            return f"learned: {origin.refused:,} tokens were too many"
        case "assumed":
            return "assumed: nobody tells it"


def _budget(standing: AccountBalance) -> Budget:
    pairs = []
    if standing.usd is not None:
        pairs.append(f"{amount(standing.spent_usd, 'usd')} of {amount(standing.usd, 'usd')}")
    if standing.tokens is not None:
        pairs.append(f"{amount(standing.spent_tokens, 'tokens')} of {amount(standing.tokens, 'tokens')}")
    who = "whole gateway" if standing.account.scope == "gateway" else "this provider"
    return Budget(who=who, period=standing.account.period, spent=", ".join(pairs), share=standing.share)


def _sorted_by(offer: ModelOffer, column: str) -> tuple[float, str]:
    """Unknown amounts count as none."""
    known = {"window": offer.window, "input": offer.input_usd, "output": offer.output_usd}
    return known.get(column) or 0.0, offer.id.casefold()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
