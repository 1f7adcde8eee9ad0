"""Spending for the operator: sums by person, place and purpose, and every call for a spreadsheet."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, get_args

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.ledger import rows
from agent.ledger.rows import Grouping
from agent.ledger.spending import UsageTotals
from agent.ledger.sums import all_together
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.access.identities import Identities
from gateway.access.settings import PersonSettings
from gateway.storage import identities
from gateway.web.control import OperationError as Refusal

FIELDS = fields(UsageTotals)
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
MOST_GROUPS = 100

Json = Any


class Usage:
    """Over one open database. `settle` writes what has ended and is not in it yet.

    `people` are those whose accounts the configuration links.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        people: Callable[[], Sequence[PersonSettings]],
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._people = people
        self._settle = settle

    async def sums(self, arguments: Mapping[str, Json]) -> Json:
        """By `group`, from `since` on; without it this month's (UTC). Linked accounts are one person.

        The last of MOST_GROUPS rows holds what is left, where there are more.
        """
        group = str(arguments.get("group") or "provider")
        if group not in GROUPINGS:
            raise Refusal(f"nothing is summed up by {group!r}", fix=f"use one of {', '.join(GROUPINGS)}")
        month = self._clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        since = _moment(arguments, "since") or to_timestamp(month)
        await self._settled()
        found = await self._database.read(lambda conn: rows.by(conn, group, since=since, most=None))
        if group == "person":
            linked = await self._database.read(identities.all_accounts)
            found = joined(found, Identities.of(linked, self._people()))
        return [
            {
                "name": name or "–",
                "calls": totals.calls,
                "input": totals.prompt + totals.cache_creation,
                "cached": totals.cache_read,
                "output": totals.output,
                "usd": f"{totals.cost_usd:.4f}" if totals.unpriced < totals.calls else "?",
                "unpriced": totals.unpriced,
                "estimated": totals.estimated,
            }
            for name, totals in cut(found, MOST_GROUPS)
        ]

    async def export(self, arguments: Mapping[str, Json]) -> Json:
        """A page of calls as CSV. `next` is what to give as `after` for the next one; None: that was all."""
        after = arguments.get("after")
        since, until = _moment(arguments, "since") or 0, _moment(arguments, "until")
        named = arguments.get("conversation")
        conversation = ConversationId(str(named)) if named else None
        if not after:
            await self._settled()

        def read(conn: Connection) -> tuple[str, int | None]:
            entries, last = rows.page(conn, after=int(after or 0), since=since, until=until, conversation=conversation)
            return rows.lines(entries), last

        lines, last = await self._database.read(read)
        return {"lines": lines if after else rows.HEADING + lines, "next": last}

    async def _settled(self) -> None:
        if self._settle is not None:
            await self._settle()


def joined(found: Sequence[tuple[str, UsageTotals]], linked: Identities) -> Sequence[tuple[str, UsageTotals]]:
    """The totals with those of one person's accounts in one, under all their names; the dearest first."""
    people: dict[tuple[str, ...], list[UsageTotals]] = {}
    for name, totals in found:
        people.setdefault(tuple(sorted(linked.accounts(name))), []).append(totals)
    sums = [
        (", ".join(names), UsageTotals(**{one.name: sum(getattr(each, one.name) for each in totals) for one in FIELDS}))
        for names, totals in people.items()
    ]
    return sorted(sums, key=lambda one: (-one[1].cost_usd, -one[1].calls))


def cut(found: Sequence[tuple[str, UsageTotals]], most: int) -> Sequence[tuple[str, UsageTotals]]:
    """So many rows at most: the last one tells how many others there are, and what they come to together."""
    if len(found) <= most:
        return found
    left = found[most - 1 :]
    return [*found[: most - 1], (f"and {len(left)} more", all_together(totals for _, totals in left))]


def _moment(arguments: Mapping[str, Json], key: str) -> int | None:
    """A day or moment of ISO 8601 as UTC microseconds; without a zone it is UTC."""
    text = arguments.get(key)
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise Refusal(f"{text!r} is no date", fix="write it as 2026-11-01") from None
    return to_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
