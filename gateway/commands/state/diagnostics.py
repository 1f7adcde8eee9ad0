"""Commands for those who look after the bot: /trace /cache-stats /log /notify-test."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.core.untrusted_text import plain
from agent.ledger import rows
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Entry, UsageTotals, amount
from agent.providers.registry import Registry
from agent.sessions import runs
from agent.storage import audit_rows
from agent.storage.audit_rows import Record
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.access.policy import Role
from gateway.commands.command import Call, Command, Reply

MOST_STEPS = 40
SHOWN_LINES, MOST_LINES = 10, 50  # of the log
MOST_PROVIDERS = 20
REF_DIGITS = 8  # of a run's id, as `tieline find` takes it


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticCommandDeps:
    """Records of runs, the log, and the alerts."""

    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    clock: Clock
    database: Database
    ledger: Ledger
    providers: Registry
    recent_log: Callable[[ConversationId, int], Awaitable[Sequence[str]]]  # newest warnings, oldest first
    test_alert: Callable[[str], Sequence[str]]  # tells the owners that somebody tried; who is told


async def trace(call: Call[DiagnosticCommandDeps]) -> Reply:
    """The steps of the last turn here: calls of models and tools in their order, with times and tokens."""
    phrase, language, deps = call.phrase, call.incoming.language, call.deps
    conversation = ConversationId(str(call.key))
    await deps.ledger.flush()

    def read(conn: Connection) -> tuple[runs.LastRun, list[Entry], list[Record]] | None:
        last = runs.last_run(conn, conversation)
        if last is None:
            return None
        calls = rows.of_run(conn, conversation, last.inbox_id, since=last.began)
        return last, list(calls), list(audit_rows.of_run(conn, conversation, last.inbox_id))

    found = await deps.database.read(read)
    if found is None:
        return Reply(text=phrase("trace_none", language), private=True)
    last, calls, tools = found
    steps = [(entry.at, _model_step(call, entry)) for entry in calls]
    steps += [(record.at, _tool_step(call, record)) for record in tools]
    steps.sort(key=lambda step: step[0])
    ended = last.ended if last.ended is not None else to_timestamp(deps.clock.now())
    title = phrase(
        "trace_title",
        language,
        ref=last.run[:REF_DIGITS],
        when=f"{from_timestamp(last.began):%Y-%m-%d %H:%M:%S} UTC",
        seconds=f"{(ended - last.began) / 1e6:.1f}",
        state=phrase(f"trace_{last.state}", language),
    )
    shown = steps[-MOST_STEPS:]
    lines = [title, ""]
    if len(shown) < len(steps):
        lines += [phrase("trace_left_out", language, count=len(steps) - len(shown)), ""]
    first = len(steps) - len(shown) + 1
    for number, (at, step) in enumerate(shown, first):
        lines.append(f"{number}. +{(at - last.began) / 1e6:.1f} s {plain(step)}")
    if not steps:
        lines.append(phrase("trace_empty", language))
    return Reply(text="\n".join(lines), private=True)


def _model_step(call: Call[DiagnosticCommandDeps], entry: Entry) -> str:
    values = {
        "model": f"{entry.provider}/{entry.model}",
        "purpose": "" if entry.attribution.purpose == "turn" else f" ({entry.attribution.purpose})",
        "prompt": f"{entry.prompt + entry.cache_creation + entry.cache_read:,}",
        "cached": f"{entry.cache_read:,}",
        "output": f"{entry.output:,}",
        "cost": f", {amount(entry.cost_usd, 'usd')}" if entry.cost_usd is not None else "",
    }
    return call.phrase("trace_model", call.incoming.language, **values)


def _tool_step(call: Call[DiagnosticCommandDeps], record: Record) -> str:
    """Without its arguments and result: those stand in `tieline audit`."""
    language = call.incoming.language
    verdict = call.phrase(f"trace_call_{record.verdict}", language)
    return call.phrase("trace_tool", language, tool=record.tool, verdict=verdict, ms=f"{record.elapsed_ms:,}")


async def cache_stats(call: Call[DiagnosticCommandDeps]) -> Reply:
    """How much of what models read here came out of their caches, and about how much that has saved."""
    phrase, language, deps = call.phrase, call.incoming.language, call.deps
    conversation, spent = ConversationId(str(call.key)), await call.agent.usage()
    if not spent.all.calls:
        return Reply(text=phrase("cache_none", language), private=True)
    lines = [phrase("cache_title", language), ""]
    for span, totals in (("session", spent.session), ("today", spent.today), ("total", spent.all)):
        values = {"span": phrase(f"usage_{span}", language), "share": f"{_share(totals) * 100:.0f}"}
        values |= {
            "read": f"{totals.cache_read:,}",
            "written": f"{totals.cache_creation:,}",
            "fresh": f"{totals.prompt:,}",
        }
        lines.append(phrase("cache_line", language, **values))
    by = await deps.database.read(
        lambda conn: rows.by(conn, "provider", conversation=conversation, most=MOST_PROVIDERS)
    )
    for name, totals in by:
        if totals.cache_read or totals.cache_creation:
            lines.append(_saved(call, name, totals))
    return Reply(text="\n".join(lines), private=True)


def _share(totals: UsageTotals) -> float:
    """Of what models read: what came out of a cache."""
    whole = totals.prompt + totals.cache_creation + totals.cache_read
    return totals.cache_read / whole if whole else 0.0


def _saved(call: Call[DiagnosticCommandDeps], name: str, totals: UsageTotals) -> str:
    """At the prices of now: what reading has saved, less what writing into the cache has cost more."""
    phrase, language, providers = call.phrase, call.incoming.language, call.deps.providers
    prices = providers.get(name).prices if name in providers else None
    if prices is None:
        return phrase("cache_unpriced", language, name=name)
    saved = totals.cache_read * (prices.input - prices.of_cache_read)
    saved -= totals.cache_creation * (prices.of_cache_write - prices.input)
    key = "cache_saved" if saved >= 0 else "cache_lost"
    return phrase(key, language, name=name, cost=amount(abs(saved) / 1e6, "usd"))


async def log(call: Call[DiagnosticCommandDeps]) -> Reply:
    """The last warnings and errors of this conversation. They may name the operator's things."""
    phrase, language = call.phrase, call.incoming.language
    if not _is_admin_everywhere(call):  # a group's own admins are let through as far as here
        return Reply(text=phrase("mcp_admins", language), private=True)
    if call.args and not (call.args.isdecimal() and 1 <= int(call.args[:4]) <= MOST_LINES):
        return Reply(text=phrase("log_usage", language, most=MOST_LINES), private=True)
    lines = await call.deps.recent_log(ConversationId(str(call.key)), int(call.args or SHOWN_LINES))
    if not lines:
        return Reply(text=phrase("log_none", language), private=True)
    shown = "\n".join(line.replace("`", "'") for line in lines)
    return Reply(text=f"{phrase('log_title', language)}\n\n```\n{shown}\n```", private=True)


async def notify_test(call: Call[DiagnosticCommandDeps]) -> Reply:
    """Tells the owners something harmless, on the way that every alert takes."""
    phrase, language = call.phrase, call.incoming.language
    if not _is_admin_everywhere(call):
        return Reply(text=phrase("mcp_admins", language), private=True)
    told = call.deps.test_alert(call.incoming.display or str(call.incoming.person))
    if not told:
        return Reply(text=phrase("notify_nobody", language), private=True)
    return Reply(text=phrase("notify_told", language, who=", ".join(told)), private=True, verbatim=True)


def _is_admin_everywhere(call: Call[DiagnosticCommandDeps]) -> bool:
    return call.deps.role_everywhere(call.incoming.person) >= Role.ADMIN


TRACE = Command(name="trace", deps=DiagnosticCommandDeps, run=trace, group="more", immediate=True, admin_in_groups=True)
CACHE_STATS = Command(name="cache-stats", deps=DiagnosticCommandDeps, run=cache_stats, group="model", immediate=True)
LOG = Command(
    name="log", deps=DiagnosticCommandDeps, run=log, group="more", usage="[lines]", immediate=True, admin=True
)
NOTIFY_TEST = Command(
    name="notify-test", deps=DiagnosticCommandDeps, run=notify_test, group="more", immediate=True, admin=True
)
