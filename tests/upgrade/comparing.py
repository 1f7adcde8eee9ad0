"""Changes that an upgrade may make in a database; every other difference, in words. Pure.

Rows are compared by the columns that the older version had. A migration that renames or drops says so here, in the
commit that brings it, so that nothing is lost unnoticed.
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from tests.upgrade.rows import Row, Table

RENAMED_TABLES: Mapping[str, str] = MappingProxyType({})  # then → now
RENAMED_COLUMNS: Mapping[str, str] = MappingProxyType({})  # "table.column" then → column now
DROPPED: frozenset[str] = frozenset(  # "table" or "table.column" that is gone on purpose, with a comment why
    {
        "control",  # nothing ever wrote or read it
        "channel_preference",  # its rows are settings: see `as_settings`
    }
)

# Columns that a start and the turns after it rewrite in rows that stay.
LIVE = {
    "conversation": {"epoch", "worker", "run_id", "acquired_at", "expires_at", "session_id"},
    "session": {
        "state", "message_count", "prompt_tokens", "output_tokens", "updated_at", "summary", "summary_upto",
        "fixed_tokens", "scale", "compacted",
    },
    "message": {"agent_visible", "compacted_at", "place", "deferred", "counted"},
    "skill_arm": {"successes", "failures", "updated_at"},
    "session_goal": {"state", "text", "updated_at"},
    "user_model": {"counts", "updated_at"},
    "memory_place": {"graphed_upto"},
    "memory_use": {"uses", "at"},
    "guideline": {"body", "at"},  # each turn lets it fade
    "skill_trust": {"at"},
    "memory_erasure": {"cleaned_at"},
    "api_key": {"used_at", "minute", "uses"},
    "rate_bucket": {"tokens", "at", "refused", "closed_until"},
    "log_entry": {"times", "last_at"},  # the same warning of another start
    "memory_vector": {"embedding"},  # on PostgreSQL with pgvector, made from `vector` at the start
}  # fmt: skip

# Tables of which rows end: the column that says how a row stands, its words for a row at rest, and the columns that
# stay in a row that is not. A row at rest stays whole.
ENDS = {
    "inbox": ("status", {"done", "merged", "refused", "dead"}, {"conv", "kind", "dedup", "event_dedup", "created_at"}),
    "outbox": ("status", {"sent", "dead", "dropped"}, {"conv", "dedup", "created_at"}),
    "turn": ("state", {"done", "failed", "cancelled"}, {"inbox_id", "conv", "session_id"}),
    "approval": ("status", {"executed", "answered", "rejected", "expired", "cancelled"}, {"conv", "tool", "arguments"}),
    "schedule": ("state", {"failed", "ended"}, {"conv", "name", "person", "action", "text", "rule", "said", "zone"}),
    "goal": ("status", {"paused", "completed", "cleared"}, {"conv", "person", "text", "max_turns", "max_tokens"}),
    "event_delivery": (
        "state",
        {"sent", "given_up"},
        {"subscription", "message", "type", "conv", "body"},
    ),
    "plan": ("status", {"completed", "failed", "cancelled"}, {"conv", "origin", "person", "goal"}),
}

# Whose rows go when what they name is gone, or when their time is over.
PASSING = frozenset({"ephemeral", "adapter_store"})

# What a start goes on with in the background: the index of recall over what was kept before there was one.
INDEX = frozenset({"memory_session", "memory_unindexed"})
INDEXED = {"memory": {"slot", "words"}}


def differences(
    before: Mapping[str, Table], after: Mapping[str, Table], *, live: bool = True, ended: Collection[str] = ()
) -> Iterator[str]:
    """Each row that is gone and each value that has changed, but what is declared. Without `live` all of it counts.

    `ended` names rows, such as "schedule 9", that the caller knows to have ended and so to be gone.
    """
    for name, rows in as_settings(before, after).items():
        if name in DROPPED | INDEX:
            continue
        now = RENAMED_TABLES.get(name, name)
        if now not in after:
            yield f"the table {name} is gone"
            continue
        for key, row in rows.items():
            found = after[now].get(key)
            if found is None:
                if not live or (name not in PASSING and f"{name} {key}" not in ended):
                    yield f"{name} {key} is gone: {row}"
            else:
                yield from _changed(name, key, row, found, live=live)


def as_settings(before: Mapping[str, Table], after: Mapping[str, Table]) -> Mapping[str, Table]:
    """The tables before, with choices of places that had tables of their own as the settings that they became."""
    chosen = before.get("channel_preference")
    if chosen is None or "channel_preference" in after:
        return before
    found = dict(before.get("channel_setting", {}))
    for row in chosen.values():
        place = f"{row['channel_type']}:{row['channel_id']}"
        text = f"{row['provider']}/{row['model']}" if row["model"] else row["provider"]
        found[f"{place} provider"] = {"value": text, "source": row["source"], "updated_at": row["updated_at"]}
        if row["locked"]:
            found[f"{place} provider_locked"] = {"value": "on"}
    for row in before.get("memory_place", {}).values():
        if row["off"]:
            found[f"{row['conv']} memory"] = {"value": "off"}
    return {**before, "channel_setting": found}


def _changed(name: str, key: str, row: Row, found: Row, *, live: bool) -> Iterator[str]:
    must = (_must_stay(name, row) if live else frozenset(row)) - INDEXED.get(name, set())
    for column in sorted(must):
        if f"{name}.{column}" in DROPPED:
            continue
        now = RENAMED_COLUMNS.get(f"{name}.{column}", column)
        if now not in found:
            yield f"{name}.{column} is gone"
        elif found[now] != row[column]:
            yield f"{name} {key}: {column} was {row[column]!r} and is {found[now]!r}"


def _must_stay(name: str, row: Row) -> frozenset[str]:
    if name in ENDS:
        column, ended, lasting = ENDS[name]
        return frozenset(row) if row[column] in ended else frozenset(lasting)
    return frozenset(row) - LIVE.get(name, set())
