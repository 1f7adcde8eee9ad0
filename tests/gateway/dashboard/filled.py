"""A database as a busy gateway has after months: many conversations, messages, schedules, calls and letters."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, insert

from agent.core.messages import TextPart
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming
from agent.storage.payloads import encode_incoming, encode_outgoing, encode_parts
from agent.storage.tables import (
    approval,
    approval_rule,
    conversation,
    goal,
    inbox,
    memory,
    message,
    outbox,
    plan,
    session,
    tool_call,
    turn,
    usage,
    usage_sum,
)
from agent.storage.timestamps import to_timestamp
from agent.storage.watch_tables import log_entry, turn_trace
from gateway.scheduler.triggers.rules import Every, encode_rule
from gateway.storage.migrations.versions import r0041_spending
from gateway.storage.tables import (
    access_grant,
    api_key,
    event_delivery,
    figure,
    operator_action,
    schedule,
    schedule_run,
)
from gateway.traces.figures import HOUR_US, LABELS, SUM, hour_of

CONVERSATIONS, MESSAGES, SCHEDULES = 1_000, 100_000, 300
DEAD = 400
LINES = 20_000  # of the log
WEBHOOKS = 20_000  # deliveries, half of them said
EVENTS = 50_000
PIECES = 5_000  # rows of one statement


def fill(conn: Connection, now: datetime) -> None:
    """Write it all; each conversation is of another person, the newest is `telegram:1000`."""
    for table, rows in (
        (conversation, _conversations(now)),
        (session, _sessions(now)),
        (inbox, _inbox(now)),
        (turn, _turns(now)),
        (message, _messages(now)),
        (turn_trace, _traces(now)),
        (usage, _usage(now)),
        (tool_call, _tool_calls(now)),
        (outbox, _outbox(now)),
        (approval, _approvals(now)),
        (approval_rule, _rules(now)),
        (schedule, _schedules(now)),
        (schedule_run, _schedule_runs(now)),
        (goal, _goals(now)),
        (plan, _plans(now)),
        (memory, _memory(now)),
        (access_grant, _grants(now)),
        (operator_action, _actions(now)),
        (log_entry, _log_lines(now)),
        (figure, _figures(now)),
        (inbox, _webhook_turns(now)),
        (outbox, _webhook_words(now)),
        (event_delivery, _events(now)),
        (api_key, _api_keys(now)),
    ):
        piece: list[dict[str, Any]] = []
        for row in rows:
            piece.append(row)
            if len(piece) == PIECES:
                conn.execute(insert(table), piece)
                piece = []
        if piece:
            conn.execute(insert(table), piece)
    conn.execute(delete(usage_sum))
    r0041_spending.sum_up(conn)


def _key(number: int) -> str:
    return f"telegram:{number}"


def _at(now: datetime, ago_s: float) -> int:
    return to_timestamp(now - timedelta(seconds=ago_s))


def _conversations(now: datetime) -> Iterator[dict[str, Any]]:
    for number in range(1, CONVERSATIONS + 1):
        yield {"key": _key(number), "session_id": f"s{number}", "created_at": _at(now, 90 * 86_400)}


def _sessions(now: datetime) -> Iterator[dict[str, Any]]:
    for number in range(1, CONVERSATIONS + 1):
        at = _at(now, (CONVERSATIONS - number) * 60)
        yield {
            "id": f"s{number}",
            "conv": _key(number),
            "title": f"what about matter {number}",
            "message_count": MESSAGES // CONVERSATIONS,
            "created_at": at,
            "updated_at": at,
        }


def _moments(count: int, now: datetime) -> Iterator[tuple[int, int, int]]:
    """Numbers from 1 on, each with a conversation in turn and a moment of the last ninety days, the newest last."""
    for number in range(1, count + 1):
        yield number, number % CONVERSATIONS + 1, _at(now, (count - number) * 90 * 86_400 / count)


def _inbox(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(MESSAGES // 2, now):
        incoming = Incoming(text=f"message {id}", display=f"Person {chat}", person=None, received_at=now)
        is_dead = id > MESSAGES // 2 - DEAD
        yield {
            "id": id,
            "conv": _key(chat),
            "kind": "message",
            "dedup": f"filled:{id}",
            "payload": encode_incoming(incoming),
            "status": "dead" if is_dead else "done",
            "note": "the provider could not be reached" if is_dead else None,
            "created_at": at,
        }


def _turns(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(MESSAGES // 2, now):
        yield {
            "inbox_id": id,
            "conv": _key(chat),
            "session_id": f"s{chat}",
            "run_id": f"r{id}",
            "epoch": 1,
            "state": "failed" if id % 50 == 0 else "done",
            "created_at": at,
            "ended_at": at + 3_000_000,
        }


def _messages(now: datetime) -> Iterator[dict[str, Any]]:
    for id, _, at in _moments(MESSAGES, now):
        run = (id + 1) // 2
        chat = run % CONVERSATIONS + 1
        words = f"message {run} with some words about the matter at hand" if id % 2 else f"an answer to {run} " * 8
        yield {
            "session_id": f"s{chat}",
            "conv": _key(chat),
            "inbox_id": run,
            "position": 1 - id % 2,
            "role": "user" if id % 2 else "assistant",
            "parts": encode_parts((TextPart(text=words),)),
            "created_at": at,
        }


def _usage(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(MESSAGES // 2, now):
        yield {
            "conv": _key(chat),
            "session_id": f"s{chat}",
            "inbox_id": id,
            "person": _key(chat),
            "purpose": "turn",
            "provider": "a" if id % 3 else "b",
            "model": "model-a" if id % 3 else "model-b",
            "prompt": 1_200,
            "output": 180,
            "cache_creation": 0,
            "cache_read": 800,
            "cost_usd": 0.002 if id % 7 else None,
            "estimated": False,
            "created_at": at,
            "call_id": f"filled:{id}",
        }


def _tool_calls(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(MESSAGES // 4, now):
        yield {
            "conv": _key(chat),
            "inbox_id": id,
            "run_id": f"r{id}",
            "call_id": f"c{id}",
            "tool": "read",
            "arguments": '{"path":"notes.txt"}',
            "verdict": "ran",
            "result": "some text",
            "elapsed_ms": 12,
            "created_at": at,
        }


def _outbox(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(MESSAGES // 2, now):
        is_dead = id > MESSAGES // 2 - DEAD
        yield {
            "conv": _key(chat),
            "inbox_id": id,
            "dedup": f"filled:{id}",
            "payload": encode_outgoing(OutgoingMessage(text=f"an answer to {id}", kind="answer")),
            "status": "dead" if is_dead else "sent",
            "note": "the chat is gone" if is_dead else None,
            "created_at": at,
        }


def _approvals(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(2_000, now):
        is_open = id > 1_900
        yield {
            "id": f"a{id}",
            "conv": _key(chat),
            "inbox_id": id,
            "call_id": f"c{id}",
            "position": 1,
            "run_id": f"r{id}",
            "tool": "shell",
            "arguments": '{"command":"make"}',
            "digest": f"{id:064x}",
            "reason": "a program is started",
            "shown": "make",
            "requester": _key(chat),
            "language": "en",
            "chat_type": "direct",
            "status": "pending" if is_open else "executed",
            "created_at": at,
            "expires_at": _at(now, -3_600),
            "decided_by": None if is_open else "telegram:77",
            "decided_at": None if is_open else at,
            "screen": "open" if is_open else "settled",
        }


def _rules(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(2_000, now):
        yield {
            "conv": _key(chat),
            "tool": "shell",
            "covers": f"make {id}",
            "shown": "make",
            "created_by": _key(chat),
            "created_at": at,
        }


def _schedules(now: datetime) -> Iterator[dict[str, Any]]:
    for id in range(1, SCHEDULES + 1):
        at = _at(now, -86_400 - id * 60)
        yield {
            "id": id,
            "conv": _key(id),
            "person": _key(id),
            "display": f"Person {id}",
            "action": "remind",
            "text": f"water plant {id}",
            "rule": encode_rule(Every(seconds=86_400, anchor=now)),
            "said": "every day",
            "zone": "Europe/Vienna",
            "zone_source": "given",
            "misfire": "once",
            "due_at": at,
            "due_key": str(at),
            "next_at": at,
            "created_at": _at(now, 86_400),
            "updated_at": _at(now, 86_400),
        }


def _schedule_runs(now: datetime) -> Iterator[dict[str, Any]]:
    for id, _, at in _moments(SCHEDULES * 30, now):
        number = id % SCHEDULES + 1
        yield {
            "schedule_id": number,
            "conv": _key(number),
            "fire_key": f"{id}",
            "due_at": at,
            "at": at + 40_000,
            "outcome": "fired",
            "run": "ok",
            "delivery": "sent",
            "ended_at": at + 2_000_000,
        }


def _memory(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(20_000, now):
        yield {
            "audience": f"person:{_key(chat)}",
            "scope": "person",
            "kind": "fact",
            "conv": _key(chat),
            "person": _key(chat),
            "text": f"likes matter {id}",
            "source": "chat",
            "dedup": f"filled:{id}",
            "created_at": at,
            "slot": id,
            "words": f"likes matter {id}",
        }


def _grants(now: datetime) -> Iterator[dict[str, Any]]:
    for number in range(1, CONVERSATIONS + 1):
        yield {
            "subject": _key(number),
            "place": "",
            "kind": "person",
            "role": "member",
            "granted_by": "operator",
            "at": _at(now, number),
        }


def _actions(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(20_000, now):
        yield {
            "at": at,
            "person": "web:operator",
            "name": "Operator",
            "address": "127.0.0.1",
            "action": "conversations.read",
            "subject": _key(chat),
            "detail": f"session s{id}",
        }


def _log_lines(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(LINES, now):
        yield {
            "digest": f"d{id}",
            "first_at": at,
            "last_at": at,
            "times": 1,
            "level": "warning" if id % 3 else "error",
            "logger": f"tieline.part{id % 40}",
            "conv": _key(chat) if id % 2 else "",
            "ref": f"r{id}" if id % 2 else "",
            "message": f"the platform has refused message {id}: " + "words " * 30,
            "error": f"OSError: {id}",
            "traceback": "  File line\n" * 200,
        }


def _traces(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(MESSAGES // 2, now):
        yield {
            "run_id": f"r{id}",
            "attempt": 1,
            "conv": _key(chat),
            "inbox_id": id,
            "person": _key(chat),
            "started_at": at,
            "ended_at": at + 3_000_000,
            "outcome": "completed",
            "waited_ms": 5,
            "elapsed_ms": 3_000 + id % 977,
            "first_token_ms": 400,
            "model_calls": 1,
            "tool_calls": 0,
            "tokens_in": 2_000,
            "tokens_cached": 800,
            "tokens_out": 180,
            "cost_usd": 0.002,
            "unpriced": 0,
            "size": 1_400,
            "spans": f"[{' ' * 900}]",
            "provider": "a" if id % 3 else "b",
        }


def _figures(now: datetime) -> Iterator[dict[str, Any]]:
    hour = hour_of(to_timestamp(now))
    for ago in range(30 * 24):
        for provider in ("a", "b"):
            for name in ("call_ms", "call_first_token_ms"):
                for label in (*LABELS, SUM):
                    yield {"name": name, "hour": hour - ago * HOUR_US, "label": f"{provider} {label}", "value": 3.0}


def _webhook_turns(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(WEBHOOKS // 2, now):
        incoming = Incoming(text="say what broke", received_at=now)
        yield {
            "id": MESSAGES // 2 + id,
            "conv": _key(chat),
            "kind": "system",
            "dedup": f"hook:hook-{id % 10}:{id}",
            "payload": encode_incoming(incoming),
            "status": "done",
            "created_at": at,
        }


def _webhook_words(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(WEBHOOKS // 2, now):
        yield {
            "conv": _key(chat),
            "dedup": f"hook:hook-{10 + id % 10}:{id}",
            "payload": encode_outgoing(OutgoingMessage(text=f"news {id}", kind="notice")),
            "status": "sent",
            "created_at": at,
        }


def _events(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(EVENTS, now):
        yield {
            "subscription": f"program-{id % 20}",
            "message": f"m{id}",
            "type": "turn.finished",
            "conv": _key(chat),
            "body": "{" + " " * 1_000 + "}",
            "created_at": at,
            "due_at": _at(now, -86_400),
            "give_up_at": _at(now, -86_400),
            "attempts": 1,
            "error": "" if id % 50 else "it answered with status 503",
            "state": "open" if id > EVENTS - 500 else "given_up" if id % 50 == 0 else "sent",
            "ended_at": None if id > EVENTS - 500 else at,
        }


def _api_keys(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(2_000, now):
        yield {
            "name": f"program-{id}",
            "hash": f"{id:064x}",
            "shown": f"{id:04}"[-4:],
            "scopes": "chat send",
            "places": f"{_key(chat)} {_key(1 + id % CONVERSATIONS)}",
            "per_minute": 60,
            "created_by": "web:operator",
            "created_at": at,
            "used_at": at,
            "revoked_at": at if id % 3 == 0 else None,
        }


def _goals(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(2_000, now):
        yield {
            "id": id,
            "conv": _key(chat),
            "person": _key(chat),
            "display": f"Person {chat}",
            "text": f"settle matter {id}",
            "status": "active" if id > 1_000 else "completed",
            "auto_state": "running" if id > 1_000 else "achieved",
            "auto": '{"most":50,"turns":3}',
            "created_at": at,
            "updated_at": at,
        }


def _plans(now: datetime) -> Iterator[dict[str, Any]]:
    for id, chat, at in _moments(2_000, now):
        yield {
            "conv": _key(chat),
            "origin": f"filled:{id}",
            "goal": f"plan matter {id}",
            "status": "running" if id > 1_000 else "completed",
            "tasks": "[]",
            "created_at": at,
            "updated_at": at,
        }
