"""Functions and triggers of PostgreSQL by which processes wake each other, in the transaction of the work (G-163).

Whoever writes a row of work wakes who does it; no writer can forget to. The queue is Procrastinate's, made here once.
"""

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

create or replace trigger tieline_arrived after insert on arrival
  for each row execute function tieline_arrived();
create or replace trigger tieline_inbox_grew after insert on inbox
  for each row when (new.status = 'new' and new.not_before is null) execute function tieline_inbox_grew();
create or replace trigger tieline_outbox_grew after insert on outbox
  for each row when (new.status = 'new') execute function tieline_outbox_grew();
"""

# Tables that processes keep in memory: all of them read anew what another has changed.
WATCHED = ("access_grant", "identity", "schedule", "approval", "provider_circuit")
WATCHED_BY_PLACE = ("channel_setting",)  # of which only the changed conversation's rows are
_WATCH = """
create or replace trigger tieline_changed after insert or update or delete on {table}
  for each statement execute function tieline_changed()
"""

_WATCH_BY_PLACE = """
create or replace trigger tieline_changed after insert or update or delete on {table}
  for each row execute function tieline_changed_there()
"""

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
    for table in WATCHED:
        conn.exec_driver_sql(_WATCH.format(table=table))
    for table in WATCHED_BY_PLACE:
        conn.exec_driver_sql(_WATCH_BY_PLACE.format(table=table))
