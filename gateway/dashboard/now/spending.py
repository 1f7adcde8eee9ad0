"""Spending: money and tokens over time, by provider, model, person, place and purpose; budgets, and more of them."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import Literal, get_args

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.clock import Clock
from agent.core.errors import Permanent
from agent.core.ids import ConversationId
from agent.ledger import sums
from agent.ledger.ledger import MOST_USD, AlreadyDecided, Ledger, NoLimit, NotInMoney, PeriodOver
from agent.ledger.rows import Grouping
from agent.ledger.spending import SCOPES, Account, AccountBalance, Limit, Scope, UsageTotals, amount
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.access.identities import Identities
from gateway.channels.keys import ConversationKey
from gateway.config.settings import Settings
from gateway.dashboard.frame.listing import Asked, asked, listed
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, view
from gateway.dashboard.now.plots import Plot, Series
from gateway.operations.usage import joined
from gateway.storage import conversation_list
from gateway.web.control import OperationError
from gateway.web.overview import money

Range = Literal["today", "7", "30", "month", "12"]
RANGES: Mapping[Range, str] = {
    "today": "today",
    "7": "7 days",
    "30": "30 days",
    "month": "this month",
    "12": "12 months",
}
# What sums are made by, and the heading of its names.
KINDS: Mapping[Grouping, str] = {
    "provider": "Provider",
    "model": "Model",
    "person": "Person",
    "channel": "Place",
    "purpose": "Purpose",
}
# Purposes of calls as the ledger names them, for people.
PURPOSES: Mapping[str, str] = {
    "turn": "answers",
    "compaction": "compaction",
    "pair_summary": "compaction: summaries of calls",
    "focus": "compaction: focus",
    "sidequest": "compaction: side quests",
    "subgoal": "compaction: what the work is about",
    "task_goal": "compaction: what the task is about",
    "window": "compaction: size of the window",
    "recap": "recaps",
    "taco": "shortened outputs of tools",
    "flush": "memory: what is kept before a compaction",
    "graph": "memory: relations",
    "embeddings": "memory: vectors",
    "subagent": "sub-agents",
    "supervisor": "goals: checks",
    "plan": "plans",
    "images": "pictures",
    "speech": "spoken answers",
    "transcription": "voice messages",
    "model": "test calls",
}
NOBODY: Mapping[Grouping, str] = {"person": "nobody: work without a person"}
WHO: Mapping[Scope, str] = {
    "gateway": "The whole gateway",
    "provider": "Provider",
    "channel": "Place",
    "person": "Person",
    "job": "Schedule",
    "goal": "Goal",
}
EACH: Mapping[Scope, str] = {
    "gateway": "The whole gateway",
    "provider": "Each provider",
    "channel": "Each place",
    "person": "Each person",
    "job": "Each schedule",
    "goal": "Each goal",
}
LONGEST_NAME = 300  # characters
MOST_BUDGETS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentBy:
    """A row of the table: `name` as people know it, `id` as the ledger does where that differs, and a page of it."""

    key: str
    totals: UsageTotals
    name: str = ""
    id: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBudget:
    """A limit and what was spent of it. `more_usd` is what one approval allows; None: the limit counts tokens.

    `more` is that in words. `for_all` are those for whom the limit holds as well, "" where it is this one's own.
    """

    account: Account
    who: str
    name: str
    spent: str
    share: float
    unpriced: int
    approvals: int
    ends: datetime
    more_usd: float | None
    more: str
    for_all: str
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedLimit:
    """A limit of the configuration under which nothing was spent in its present day or month."""

    who: str
    limit: str
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingPages:
    """The page, and approvals of more. `more_allowed` tells the chats that were refused."""

    database: Database
    clock: Clock
    ledger: Ledger
    settings: Callable[[], Settings]
    identities: Callable[[], Identities]
    more_allowed: Callable[[Account, ConversationKey], Awaitable[None]]

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Spending",
            group="Now",
            entries=(
                view("/spending", self.page),
                action("/spending/more", self.more, name="spending.more"),
            ),
        )

    async def page(self, request: Request) -> Page:
        """Sums of a range of time by one kind of names, and the budgets of now."""
        look = asked(
            request.query_params,
            columns=("cost", "name", "calls", "tokens", "input", "cached", "output"),
            descending=("cost", "calls", "tokens", "input", "cached", "output"),
            filters={"over": tuple(RANGES), "by": tuple(KINDS)},
        )
        over, kind = _range(look.chosen["over"]), _kind(look.chosen["by"])
        now = self.clock.now()
        await self.ledger.flush()
        standings = self.ledger.budgets.all_standings()
        shown = standings[:MOST_BUDGETS]

        def read(conn: Connection) -> dict[str, object]:
            periods = _periods(over, now)
            by = list(sums.by_name(conn, kind, periods).items())
            if kind == "person":
                by = list(joined(by, self.identities()))
            names = _names(conn, kind, [key for key, _ in by])
            rows = [_named(kind, SpentBy(key=key, totals=totals), names) for key, totals in by]
            rows.sort(key=_alphabetical)  # what the other columns have in common stays in this order, either way round
            found = listed(rows, look, key=lambda row: _sorted_by(row, look), words=lambda row: row.key)
            over_time = sums.by_period(conn, periods)
            return {
                "listing": found,
                "whole": sums.all_together(over_time.values()),
                "plots": _drawn(_hours(conn, now) if over == "today" else over_time, periods, over),
                "budgets": self._budgets(conn, shown),
            }

        values = {
            **await self.database.read(read),
            "more_budgets": len(standings) - len(shown),
            "unused": self._unused(standings),
            "ranges": list(RANGES.items()),
            "over": over,
            "kinds": list(KINDS.items()),
            "kind": kind,
        }
        return Page(template="spending.html", values=values, live=True)

    async def more(self, request: Request) -> Done:
        """Let an account spend more in its present day or month, as `/budget more` does."""
        form = await request.form()
        scope, name, period, after, usd = (
            str(form.get(field) or "").strip()[:LONGEST_NAME] for field in ("scope", "name", "period", "after", "usd")
        )
        account = _account(scope, name, period)
        if not (after.isascii() and after.isdigit() and len(after) < 9):
            raise OperationError("the page is too old", fix="load it anew")
        by = person_of(request).id
        try:
            standing = await self.ledger.budgets.approve(
                account, by=f"web:{by}", usd=_usd(usd) if usd else None, after=int(after)
            )
        except Permanent as error:
            raise _refused(error, account) from error
        await self.more_allowed(standing.account, ConversationKey("web", str(by)))
        text = f"More is allowed to {account}: {_spent(standing)}, until {_moment(account.ends)}."
        return Done(text=text, subject=str(account), detail=f"{period}: {_limit(standing.usd, standing.tokens)} in all")

    def _budgets(self, conn: Connection, standings: Sequence[AccountBalance]) -> Sequence[ShownBudget]:
        names = conversation_list.names_of_payers(conn, [one.account for one in standings])
        return [
            ShownBudget(
                account=one.account,
                who=WHO[one.account.scope],
                name=names.get(one.account, one.account.name),
                spent=_spent(one),
                share=one.share,
                unpriced=one.unpriced,
                approvals=one.approvals,
                ends=one.account.ends,
                more_usd=None if one.limit.usd is None else round(one.limit.usd * self.settings().spending.more, 4),
                more=_more(one.limit, self.settings().spending.more),
                for_all=EACH[one.limit.scope].lower() if not one.limit.name and one.limit.scope != "gateway" else "",
                form=self._form(one.limit),
            )
            for one in standings
        ]

    def _unused(self, standings: Sequence[AccountBalance]) -> Sequence[UnusedLimit]:
        used = {(one.limit.scope, one.limit.name, one.limit.per) for one in standings}
        return [
            UnusedLimit(
                who=f"{WHO[limit.scope]} {limit.name}" if limit.name else EACH[limit.scope],
                limit=f"{_limit(limit.usd, limit.tokens)} a {limit.per}",
                form=self._form(limit),
            )
            for limit in self.settings().limits.limits
            if (limit.scope, limit.name, limit.per) not in used
        ]

    def _form(self, limit: Limit) -> str:
        """The page on which the limit is changed."""
        configured = self.settings().spending.limits
        if limit in configured:
            return f"/settings/spending.limits/{configured.index(limit)}"
        if not limit.name:
            return "/settings/budget"
        return f"/places/{limit.name}" if ":" in limit.name else "/settings/places"


def _periods(over: Range, now: datetime) -> Sequence[str]:
    match over:
        case "today":
            return sums.days_until(now, 1)
        case "7":
            return sums.days_until(now, 7)
        case "30":
            return sums.days_until(now, 30)
        case "month":
            return sums.days_until(now, now.day)
        case "12":
            return sums.months_until(now, 12)


def _hours(conn: Connection, now: datetime) -> Mapping[str, UsageTotals]:
    """The hours of today so far, as periods."""
    day = to_timestamp(now.replace(hour=0, minute=0, second=0, microsecond=0))
    found = sums.by_hour(conn, since=day, until=day + sums.DAY_US)
    hours = (day + hour * sums.HOUR_US for hour in range(now.hour + 1))
    return {str(at): found.get(at, UsageTotals()) for at in hours}


def _drawn(over_time: Mapping[str, UsageTotals], periods: Sequence[str], over: Range) -> Sequence[tuple[Plot, str]]:
    """The plots of money and tokens, each with what draws it."""
    if over == "today":
        steps = [(int(at) // 1_000_000, totals) for at, totals in over_time.items()]
    else:
        steps = [
            (to_timestamp(sums.begin_of(period)) // 1_000_000, over_time.get(period, UsageTotals()))
            for period in periods
        ]
    times = [at for at, _ in steps]
    whole = sums.all_together(totals for _, totals in steps)
    read, cached = _input(whole) + whole.cache_read, whole.cache_read
    plots = (
        Plot(
            title="Money",
            unit="$",
            times=times,
            series=(Series(label="spent", values=[totals.cost_usd for _, totals in steps]),),
            summary=f"spent: {money(whole.cost_usd, whole.unpriced)}",
        ),
        Plot(
            title="Tokens",
            unit="",
            times=times,
            series=(
                Series(label="read", values=[_input(totals) + totals.cache_read for _, totals in steps]),
                Series(label="of these cached", values=[totals.cache_read for _, totals in steps]),
                Series(label="written", values=[totals.output for _, totals in steps]),
            ),
            summary=f"{read:,} tokens read, {cached:,} of them cached; {whole.output:,} written",
        ),
    )
    return [(plot, json.dumps(asdict(plot))) for plot in plots]


def _more(limit: Limit, share: float) -> str:
    """The amount that one approval allows beyond the limit, as the ledger reckons it."""
    usd = round(limit.usd * share, 4) if limit.usd is not None else None
    return _limit(usd, int(limit.tokens * share) if limit.tokens is not None else None)


def _input(totals: UsageTotals) -> int:
    """Tokens that were read and came from no cache."""
    return totals.prompt + totals.cache_creation


def _alphabetical(row: SpentBy) -> tuple[str, str]:
    return row.name.casefold(), row.key


def _sorted_by(row: SpentBy, look: Asked) -> float | tuple[str, str]:
    totals = row.totals
    amounts: Mapping[str, float] = {
        "cost": totals.cost_usd,
        "calls": totals.calls,
        "tokens": totals.tokens,
        "input": _input(totals),
        "cached": totals.cache_read,
        "output": totals.output,
    }
    return amounts[look.sort] if look.sort in amounts else _alphabetical(row)


def _names(conn: Connection, kind: Grouping, keys: Sequence[str]) -> Mapping[str, str]:
    """How people call these; who has no name is left out."""
    match kind:
        case "person":
            accounts = [account for key in keys for account in key.split(", ")]
            known = conversation_list.known_as(conn, accounts)
            return {key: ", ".join(dict.fromkeys(known.get(one, one) for one in key.split(", "))) for key in keys}
        case "channel":
            return {str(key): name for key, name in conversation_list.names(conn, map(ConversationId, keys)).items()}
        case _:
            return PURPOSES


def _named(kind: Grouping, row: SpentBy, names: Mapping[str, str]) -> SpentBy:
    key = row.key
    if not key:
        return SpentBy(key=key, totals=row.totals, name=NOBODY.get(kind, "not known"))
    links = {"person": f"/people/{key}", "channel": f"/places/{key}", "provider": f"/providers/{key}"}
    name = names.get(key, key) if kind in ("person", "channel", "purpose") else key
    return SpentBy(
        key=key,
        totals=row.totals,
        name=name,
        id=key if name != key else "",
        link="" if ", " in key else links.get(kind, ""),
    )


def _range(text: str) -> Range:
    return next((one for one in get_args(Range) if one == text), "30")


def _kind(text: str) -> Grouping:
    return next((one for one in KINDS if one == text), "provider")


def _account(scope: str, name: str, period: str) -> Account:
    known = next((one for one in SCOPES if one == scope), None)
    if known is None or bool(name) == (known == "gateway") or not period:
        raise LookupError("There is no such budget.")
    return Account(known, name, period)


def _usd(text: str) -> float:
    try:
        usd = float(text)
    except ValueError:
        usd = 0.0
    if not (isfinite(usd) and 0 < usd <= MOST_USD):
        raise OperationError(f"{text} is no amount of money", fix=f"write it in USD, as in 2.50; up to {MOST_USD:,}")
    return usd


def _refused(error: Permanent, account: Account) -> OperationError:
    match error:
        case AlreadyDecided():
            return OperationError(f"somebody allowed more to {account} already", fix="see above how it stands now")
        case PeriodOver():
            return OperationError(f"that budget of {account} has ended by itself; a new one has begun")
        case NotInMoney():
            return OperationError(f"the limit of {account} counts tokens", fix="leave the amount of money out")
        case NoLimit():
            return OperationError(f"no limit holds for {account} any more")
        case _:
            raise error


def _spent(standing: AccountBalance) -> str:
    pairs = []
    if standing.usd is not None:
        pairs.append(f"{amount(standing.spent_usd, 'usd')} of {amount(standing.usd, 'usd')}")
    if standing.tokens is not None:
        pairs.append(f"{amount(standing.spent_tokens, 'tokens')} of {amount(standing.tokens, 'tokens')}")
    return ", ".join(pairs)


def _limit(usd: float | None, tokens: int | None) -> str:
    amounts = [amount(usd, "usd")] if usd is not None else []
    amounts += [amount(tokens, "tokens")] if tokens is not None else []
    return " and ".join(amounts)


def _moment(at: datetime) -> str:
    return f"{at - timedelta(minutes=1):%Y-%m-%d} 24:00 UTC"
