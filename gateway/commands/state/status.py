"""Status of a chat: /status /usage /verbose /exit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import get_args

from sqlalchemy import Connection

from agent.compaction.stages import Colour, badge_of, colour_of
from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.goals.service import GoalService
from agent.goals.store import short
from agent.ledger import rows
from agent.ledger.spending import UsageTotals
from agent.status import Status
from agent.storage import approval_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from agent.tools.mcp.servers import Servers
from gateway.access.policy import Role
from gateway.channels.adapter import Health
from gateway.commands.command import Call, Command, Reply, Setting, Turns, one_of
from gateway.commands.place.provider import fallback, source_key
from gateway.commands.state.spending import spent_in_words
from gateway.commands.work.goals import aim
from gateway.commands.work.queue import QUEUE_MODE
from gateway.delivery.settings import Verbosity

GAUGES: Mapping[Colour, str] = {"green": "🟢", "yellow": "🟡", "red": "🔴"}
VERBOSITIES: tuple[Verbosity, ...] = get_args(Verbosity)
VERBOSITY: Setting[Verbosity] = Setting(
    key="verbosity",
    command="verbose",
    default=lambda settings, place: settings.delivery.verbosity_of(place),
    choices=VERBOSITIES,
    parse=one_of(VERBOSITIES),
    changed="verbosity_set",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCommandDeps:
    """The state of accounts, servers and goals."""

    clock: Clock
    database: Database
    goals: GoalService
    health: Callable[[], Mapping[str, Health]]
    servers: Servers
    started_at: datetime
    turns: Turns


async def status(call: Call[StatusCommandDeps]) -> Reply:
    """Provider and model really in use, context, queue, what runs; admins see the accounts' health too."""
    deps, phrase, language = call.deps, call.phrase, call.incoming.language
    seen, conversation = await call.agent.status(), ConversationId(str(call.key))
    asked = await deps.database.read(partial(approval_rows.pending, conversation=conversation))
    since = deps.turns.running_since(conversation)
    now = deps.clock.now()
    lines = [
        phrase("status_title", language),
        "",
        phrase(
            "status_provider",
            language,
            name=seen.provider,
            model=seen.model,
            source=phrase(source_key(seen.choice), language),
        ),
        *([fallback(call, seen)] if seen.fallback is not None else []),
        _context(call, seen.context_tokens, seen.context_window),
        *_compaction(call, seen),
        phrase("status_persona", language, name=seen.persona),
        phrase("status_session", language, count=seen.message_count, id=(seen.session or "–")[:8]),
        *await _spent(call, conversation),
        phrase("status_queue", language, count=seen.waiting, mode=call.settings.get(QUEUE_MODE, call.key)),
        *await _goal(call),
        phrase("status_asks", language)
        if asked
        else phrase("status_running", language, seconds=int((now - since).total_seconds()))
        if since
        else phrase("status_idle", language),
    ]
    if call.role >= Role.ADMIN:
        lines += [
            phrase("status_channel", language, channel=name, state=health.state.value)
            for name, health in sorted(deps.health().items())
        ]
        lines += [
            f"- {phrase('mcp_lost', language, name=one.settings.name, reason=one.trouble)}"
            for one in deps.servers.all
            if not one.is_connected
        ]
        lines.append(phrase("status_uptime", language, uptime=_span(int((now - deps.started_at).total_seconds()))))
    return Reply(text="\n".join(lines), private=True)


async def _spent(call: Call[StatusCommandDeps], conversation: ConversationId) -> tuple[str, ...]:
    """Money of this chat, where a price is known; what is being spent this moment is not among it."""
    deps = call.deps
    day = deps.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    def read(conn: Connection) -> tuple[UsageTotals, UsageTotals]:
        since = (to_timestamp(day), to_timestamp(day.replace(day=1)))
        return tuple(rows.totals(conn, conversation=conversation, since=at) for at in since)  # type: ignore[return-value]

    today, month = await deps.database.read(read)
    if month.unpriced == month.calls:
        return ()
    words = {"today": spent_in_words(call, today), "month": spent_in_words(call, month)}
    return (call.phrase("status_spent", call.incoming.language, **words),)


async def _goal(call: Call[StatusCommandDeps]) -> tuple[str, ...]:
    """The goal that somebody has set, else what the session is after, where that is followed."""
    phrase, language = call.phrase, call.incoming.language
    kept = await call.deps.goals.active(ConversationId(str(call.key)))
    if kept is not None:
        return (phrase("status_goal", language, id=kept.id, goal=short(kept.text)),)
    after = await aim(call)
    return (phrase("status_aim", language, goal=short(after)),) if after else ()


def _context(call: Call[StatusCommandDeps], used: int, window: int) -> str:
    """With the gauge of Z-76; none while the window is unknown."""
    phrase, language = call.phrase, call.incoming.language
    if not window:
        return phrase("status_context_unknown", language, used=f"{used:,}")
    percent = f"{used * 100 / window:.0f}"
    values = {"gauge": gauge_of(used, window), "used": f"{used:,}", "window": f"{window:,}", "percent": percent}
    return phrase("status_context", language, **values)


def gauge_of(used: int, window: int) -> str:
    """The colour of Z-76 as a sign; "" while the window is unknown."""
    colour = colour_of(used, window)
    return GAUGES[colour] if colour is not None else ""


def _compaction(call: Call[StatusCommandDeps], seen: Status) -> list[str]:
    """The savings of the newest compaction, the strategy, and the present subgoal (Z-77, Z-57, H-36)."""
    phrase, language = call.phrase, call.incoming.language
    now_ms = to_timestamp(call.deps.clock.now()) // 1000
    badge = badge_of(seen.compaction_last_before, seen.compaction_last_after, seen.compaction_last_at_ms, now_ms)
    lines = [phrase("status_compaction", language, badge=badge)] if badge else []
    if seen.strategy in ("subgoal", "subgoal_mig") and seen.active_subgoal:
        key = "status_subgoals_admin" if call.role >= Role.ADMIN else "status_subgoals"
        values = {"count": seen.subgoals, "active": seen.active_subgoal, "strategy": seen.strategy}
        lines.append(phrase(key, language, **values))
    elif seen.strategy == "task_aware" and seen.task_goal:
        lines.append(phrase("status_task_goal", language, goal=seen.task_goal))
    return lines


def _span(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


async def usage(call: Call[StatusCommandDeps]) -> Reply:
    """Tokens and money of this chat, from the ledger; what was estimated is said so."""
    phrase, language, spent = call.phrase, call.incoming.language, await call.agent.usage()
    lines = [
        _usage_line(call, phrase(f"usage_{span}", language), totals)
        for span, totals in (("session", spent.session), ("today", spent.today), ("total", spent.all))
    ]
    return Reply(text="\n".join([phrase("usage_title", language), "", *lines]), private=True)


def _usage_line(call: Call[StatusCommandDeps], span: str, totals: UsageTotals) -> str:
    phrase, language = call.phrase, call.incoming.language
    return phrase(
        "usage_line",
        language,
        span=span,
        prompt=f"{totals.prompt + totals.cache_creation:,}",
        output=f"{totals.output:,}",
        cached=f"{totals.cache_read:,}",
        cost=spent_in_words(call, totals),
    )


async def verbose(call: Call[StatusCommandDeps]) -> Reply:
    """How much of the work is shown while it goes on."""
    mode = call.words[0].lower() if call.words else ""
    if mode in VERBOSITIES:
        return await VERBOSITY.change(call, mode)
    now = call.settings.get(VERBOSITY, call.key)
    return Reply(text=call.phrase("verbosity_now", call.incoming.language, mode=now), private=True)


async def leave(call: Call[StatusCommandDeps]) -> Reply:
    """Only a terminal can be left; server channels refuse politely."""
    if call.key.platform == "console":
        return Reply(text=call.phrase("bye", call.incoming.language), end=True)
    return Reply(text=call.phrase("exit_refused", call.incoming.language))


STATUS = Command(name="status", deps=StatusCommandDeps, everyday=True, run=status, group="chat", immediate=True)
USAGE = Command(name="usage", deps=StatusCommandDeps, run=usage, group="model", immediate=True)
VERBOSE = Command(
    name="verbose",
    deps=StatusCommandDeps,
    choices=VERBOSITIES,
    run=verbose,
    group="more",
    usage="[quiet|normal|verbose]",
    immediate=True,
    settings=(VERBOSITY,),
)
EXIT = Command(name="exit", deps=StatusCommandDeps, run=leave, group="more", aliases=("quit",), platform="console")
