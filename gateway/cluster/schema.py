"""Functions and triggers of PostgreSQL by which processes wake each other, in the transaction of the work (G-163).

Whoever writes a row of work wakes who does it; no writer can forget to. The queue is Procrastinate's, made here once.
"""

from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module

from sqlalchemy import Connection, text

ANYBODY = "turns"  # the queue of conversations that no worker has; beside it each worker has `host.<process>`
EVERYBODY = "tieline_all"  # the channel that all processes listen on
DELIVERY = "tieline_delivery"  # that of processes that deliver
TASK = "tieline.host"

_FUNCTIONS = """
create or replace function tieline_now() returns bigint language sql volatile as $$
  select (extract(epoch from clock_timestamp()) * 1000000)::bigint
$$;

create or replace function tieline_me() returns text language sql stable as $$
  select substr(current_setting('application_name'), 9)
$$;

create or replace function tieline_wake(conversation text) returns void language plpgsql as $$
declare holder text;
begin
  select process into holder from conversation_host where conv = conversation;
  begin
    perform procrastinate_defer_jobs_v1(array[row(
      coalesce('host.' || holder, 'turns'), 'tieline.host', 0, conversation, conversation,
      jsonb_build_object('conversation', conversation), null
    )::procrastinate_job_to_defer_v1]);
  exception when unique_violation then null;
  end;
  if holder is not null then perform pg_notify('tieline_' || holder, 'work ' || conversation); end if;
end $$;

create or replace function tieline_say(conversation text) returns void language plpgsql as $$
declare holder text;
begin
  select process into holder from conversation_outlet where conv = conversation;
  if holder is null then select process into holder from conversation_host where conv = conversation; end if;
  if holder is distinct from tieline_me() then
    perform pg_notify(coalesce('tieline_' || holder, 'tieline_delivery'), 'say ' || conversation);
  end if;
end $$;

create or replace function tieline_arrived() returns trigger language plpgsql as $$
begin
  perform tieline_wake(new.conv);
  return null;
end $$;

create or replace function tieline_inbox_grew() returns trigger language plpgsql as $$
begin
  if not exists (select 1 from conversation_host where conv = new.conv and process = tieline_me()) then
    perform tieline_wake(new.conv);
  end if;
  return null;
end $$;

create or replace function tieline_outbox_grew() returns trigger language plpgsql as $$
begin
  perform tieline_say(new.conv);
  return null;
end $$;

create or replace function tieline_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('tieline_all', 'changed ' || tg_table_name || ' ' || tieline_me());
  return null;
end $$;

create or replace function tieline_changed_there() returns trigger language plpgsql as $$
begin
  perform pg_notify(
    'tieline_all', 'changed ' || tg_table_name || ' ' || tieline_me() || ' ' || coalesce(new.conv, old.conv)
  );
  return null;
end $$;
"""

# Tables that processes keep in memory: all of them read anew what another has changed.
WATCHED = ("access_grant", "identity", "schedule", "approval", "provider_circuit")
WATCHED_BY_PLACE = ("channel_setting",)  # of which only the changed conversation's rows are

_TRIGGERS = {
    ("tieline_arrived", "arrival"): "after insert on arrival for each row execute function tieline_arrived()",
    ("tieline_inbox_grew", "inbox"): "after insert on inbox for each row"
    " when (new.status = 'new' and new.not_before is null) execute function tieline_inbox_grew()",
    ("tieline_outbox_grew", "outbox"): "after insert on outbox for each row"
    " when (new.status = 'new') execute function tieline_outbox_grew()",
    **{
        ("tieline_changed", table): f"after insert or update or delete on {table} for each statement"
        " execute function tieline_changed()"
        for table in WATCHED
    },
    **{
        ("tieline_changed", table): f"after insert or update or delete on {table} for each row"
        " execute function tieline_changed_there()"
        for table in WATCHED_BY_PLACE
    },
}
# The comment on a trigger tells what it was made of, and what that came to. One that is as it should be is left alone:
# to replace it locks its table against writers, and two such tables deadlock with the turns of other processes.
_MADE = text(
    "select tgname, tgrelid::regclass::text as place, obj_description(oid, 'pg_trigger') as comment,"
    " md5(pg_get_triggerdef(oid)) as now from pg_trigger where not tgisinternal"
)

_LOCK = text("select pg_advisory_xact_lock(:key)")
_THERE = text("select to_regclass('procrastinate_jobs') is not null")
_KEY = 0x7469656D  # of the lock that lets one process at a time make these


def prepare(conn: Connection) -> None:
    """Make what is missing. Safe to repeat, and for several processes at once."""
    conn.execute(_LOCK, {"key": _KEY})
    if not conn.execute(_THERE).scalar_one():
        engine = import_module("procrastinate.schema").SchemaManager.get_schema()
        conn.exec_driver_sql(engine.replace("%", "%%"))
    conn.exec_driver_sql(_FUNCTIONS)
    made = _made(conn)
    for (name, table), definition in _TRIGGERS.items():
        wanted = sha256(definition.encode()).hexdigest()
        comment, now = made.get((name, table), ("", ""))
        if comment != f"{wanted} {now}":
            conn.exec_driver_sql(f"create or replace trigger {name} {definition}")
            _, now = _made(conn)[name, table]
            conn.exec_driver_sql(f"comment on trigger {name} on {table} is '{wanted} {now}'")


def _made(conn: Connection) -> Mapping[tuple[str, str], tuple[str | None, str]]:
    """The comment and definition (a digest of it) of each trigger, by its name and table."""
    return {(row.tgname, row.place): (row.comment, row.now) for row in conn.execute(_MADE)}
