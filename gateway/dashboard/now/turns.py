"""Traces of turns: a list with filters, and one turn as a waterfall of what it waited for, asked and did.

Traces hold nobody's words: those of the message that began a turn are shown to who may read transcripts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import get_args

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId, RunId
from agent.run.run import Verdict
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Page, Section, rights_of, view
from gateway.storage import conversation_list
from gateway.storage.queues import inbox_entries
from gateway.traces import rows
from gateway.traces.rows import RANKS, Rank, Wanted
from gateway.traces.trace import DENIED, FAILED, Kind, Span, TurnTrace

FIRST = 80  # characters of the message that began a turn
WIDE = 1000  # units of the drawing, from the first moment of a turn to its last
SLOWER: Mapping[str, int] = {"1": 1_000, "5": 5_000, "30": 30_000, "120": 120_000}  # choices of seconds, in ms

# Names of the kinds of spans, for people.
KINDS: Mapping[Kind, str] = {
    "queue": "Waited in the queue",
    "context": "Made the context",
    "recall": "Searched the memory",
    "model": "Asked a model",
    "retry": "Tried again",
    "tool": "Used a tool",
    "approval": "Waited for a person",
    "compaction": "Compacted",
    "subagent": "Sub-agent",
    "commit": "Wrote the answer down",
    "delivery": "Delivered",
}
AGES: Mapping[str, int] = {"1": 1, "7": 7}  # choices of days
FAILURE = "not answered"  # the choice of all outcomes that are failures
OUTCOMES: tuple[str, ...] = (*get_args(Verdict), "broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A span as it is drawn: `left` and `width` of `WIDE` units, and what it says of itself."""

    span: Span
    left: float
    width: float
    facts: Sequence[str]


def bars(trace: TurnTrace) -> Sequence[Bar]:
    """The spans in the order in which they began, each where it stands between the first moment and the last."""
    spans = sorted(trace.spans, key=lambda span: (span.start_ms, -span.ms))
    begin = min((span.start_ms for span in spans), default=0)
    end = max((span.start_ms + span.ms for span in spans), default=1)
    scale = WIDE / max(1, end - begin)
    return [
        Bar(
            span=span,
            left=round((span.start_ms - begin) * scale, 1),
            width=round(max(3.0, span.ms * scale), 1),
            facts=_facts(span),
        )
        for span in spans
    ]


def _facts(span: Span) -> list[str]:
    found: list[str] = []
    if span.kind == "model":
        found.append(f"{span.tokens_in:,} tokens read ({span.tokens_cached:,} cached), {span.tokens_out:,} written")
        found.append("price unknown" if span.cost_usd is None else f"${span.cost_usd:.4f}")
        if span.first_token_ms is not None:
            found.append(f"first word after {span.first_token_ms:,} ms")
    sizes = {"tool": "characters", "recall": "recalled", "compaction": "tokens freed", "delivery": "messages"}
    if span.size and span.kind in sizes:
        found.append(f"{span.size:,} {sizes[span.kind]}".removesuffix("s" if span.size == 1 else ""))
    if span.retries:
        found.append(f"after {span.retries} tries")
    if span.instead_of:
        found.append(f"in place of {span.instead_of}")
    if span.beside:
        found.append("beside the turn")
    return found


def _first(text: str) -> str:
    """The first words of a message, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= FIRST else f"{line[: FIRST - 1]}…"


def _done(span: Span) -> str:
    """The part in words, in front of its name."""
    return "Denied:" if span.kind == "tool" and span.outcome == DENIED else KINDS[span.kind]


def why_no_parts(trace: TurnTrace) -> str:
    """Why a trace without spans has none."""
    if trace.model_calls or trace.tool_calls:
        return "The parts of this turn were not kept: the figures above are all that is known of it."
    return "This turn had no parts: it asked no model and used no tool."


def turn_section(
    database: Database, providers: Callable[[], Sequence[str]], clock: Clock, readings: Readings
) -> Section:
    """The section. `providers` are those of the configuration."""

    async def all_of(request: Request) -> Page:
        query = request.query_params
        look = asked(
            query,
            columns=RANKS,
            descending=RANKS,
            filters={
                "outcome": (FAILURE, *OUTCOMES),
                "slower": tuple(SLOWER),
                "days": tuple(AGES),
                "provider": (),
                "conversation": (),
                "person": (),
            },
        )
        text = query.get("before", "")
        before = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
        chosen = look.chosen
        conversation = ConversationId(chosen["conversation"]) if chosen["conversation"] else None
        person = PersonId(chosen["person"]) if chosen["person"] else None
        rank: Rank = next((one for one in RANKS if one == look.sort), "time")
        days = AGES.get(chosen["days"])
        wanted = Wanted(
            conversation=conversation,
            person=person,
            provider=chosen["provider"] or None,
            outcomes=tuple(FAILED) if chosen["outcome"] == FAILURE else tuple(filter(None, (chosen["outcome"],))),
            slower_than_ms=SLOWER.get(chosen["slower"]),
            since=to_timestamp(clock.now() - timedelta(days=days)) if days else 0,
        )
        # In the order of time the newest are found without a look at all others, but for filters that no index has.
        by_time = rank == "time" and look.descending and not wanted.provider and not days and len(wanted.outcomes) < 2

        may_read = "transcripts" in rights_of(request)

        def read(conn: Connection) -> tuple[Sequence[TurnTrace], Mapping[ConversationId, str], Mapping[int, str]]:
            if by_time:
                found: Sequence[TurnTrace] = rows.traces(
                    conn,
                    conversation=conversation,
                    person=person,
                    slower_than_ms=wanted.slower_than_ms,
                    outcome=chosen["outcome"] or None,
                    before=before,
                    most=PAGE + 1,
                )
            else:
                found = rows.ranked(conn, wanted, rank, descending=look.descending, most=PAGE + 1, skip=look.skip)
            shown = {trace.conversation for trace in found} | ({conversation} if conversation else set())
            asked_for = inbox_entries.words(conn, (one.inbox_id for one in found[:PAGE])) if may_read else {}
            return found, conversation_list.names(conn, shown), asked_for

        found, names, asked_for = await database.read(read)
        traced = await database.read(rows.providers)
        people = await database.read(lambda conn: conversation_list.known_as(conn, [person] if person else []))
        if asked_for:
            await readings.note(request, "turns.read", "all conversations")
        values = {
            "traces": found[:PAGE],
            "listing": listing(found, look),
            "by_time": by_time,
            "more": found[PAGE - 1].id if len(found) > PAGE else None,
            "look": look,
            # Those that answered and are configured no more, too, and one that an old address asks for.
            "providers": sorted(filter(None, {*providers(), *traced, chosen["provider"]})),
            "ages": [("1", "of the last day"), ("7", "of the last 7 days")],
            "names": names,
            "words": {id: _first(text) for id, text in asked_for.items()},
            "people": people,
            "longest_worked": look.address(sort="worked", descending="1"),
            "outcomes": [(FAILURE, "failed in any way"), *((one, one.replace("_", " ")) for one in OUTCOMES)],
            "slower": [(one, f"longer than {one} s") for one in SLOWER],
            "is_newest": before is None,
            "slowest": look.address(sort="worked", descending="1", days="7"),
            "at": from_timestamp,
        }
        return Page(template="turns.html", values=values, live=before is None and by_time)

    async def one(request: Request) -> Page:
        run, may_read = RunId(request.path_params["run"]), "transcripts" in rights_of(request)

        def read(
            conn: Connection,
        ) -> tuple[Sequence[TurnTrace], Mapping[ConversationId, str], Mapping[str, str], Mapping[int, str]]:
            found = rows.trace_of(conn, run)
            names = conversation_list.names(conn, {trace.conversation for trace in found})
            people = conversation_list.known_as(conn, [trace.person for trace in found if trace.person])
            asked_for = inbox_entries.words(conn, (trace.inbox_id for trace in found)) if may_read else {}
            return found, names, people, asked_for

        attempts, names, people, asked_for = await database.read(read)
        if not attempts:
            raise LookupError("No trace of this turn is kept: it was not sampled, is too old, or was forgotten.")
        if asked_for:
            await readings.note(request, "turns.read", attempts[0].conversation)
        values = {
            "title": "One turn",
            "words": {id: _first(text) for id, text in asked_for.items()},
            "people": people,
            "attempts": [(trace, bars(trace)) for trace in attempts],
            "names": names,
            "done": _done,
            "wide": WIDE,
            "why_no_parts": why_no_parts,
            "at": from_timestamp,
        }
        return Page(template="turn.html", values=values)

    return Section(title="Turns", group="Now", entries=(view("/turns", all_of), view("/turns/{run}", one)))
