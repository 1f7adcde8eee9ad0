"""The gateway's own tables, beside the agent's on the same metadata."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Table, Text, UniqueConstraint, text

from agent.skills.tables import skill_trust as skill_trust
from agent.storage.process_tables import arrival as arrival
from agent.storage.process_tables import budget_warning as budget_warning
from agent.storage.process_tables import conversation_host as conversation_host
from agent.storage.process_tables import conversation_outlet as conversation_outlet
from agent.storage.process_tables import file as file
from agent.storage.process_tables import file_content as file_content
from agent.storage.process_tables import file_folder as file_folder
from agent.storage.process_tables import file_part as file_part
from agent.storage.process_tables import kept_file as kept_file
from agent.storage.process_tables import mcp_state as mcp_state
from agent.storage.process_tables import process as process
from agent.storage.process_tables import process_claim as process_claim
from agent.storage.process_tables import process_word as process_word
from agent.storage.process_tables import provider_circuit as provider_circuit
from agent.storage.process_tables import rate_bucket as rate_bucket
from agent.storage.process_tables import usage_hold as usage_hold
from agent.storage.tables import Id, partial_index
from agent.storage.tables import metadata as metadata  # with those of memory, learning and gateway on it
from agent.storage.watch_tables import event_delivery as event_delivery
from agent.storage.watch_tables import event_switched_off as event_switched_off
from agent.storage.watch_tables import log_entry as log_entry
from agent.storage.watch_tables import turn_trace as turn_trace

channel_setting = Table(
    "channel_setting",
    metadata,
    Column("conv", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # of a `Setting`, or the gateway's own (`settings_rows`)
    Column("value", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("source", Text),  # user | admin, where it matters who chose it
)

setting_change = Table(
    "setting_change",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text),  # NULL: back to the default
    Column("by", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("ix_setting_change_conv", "conv", "id"),
)

access_grant = Table(
    "access_grant",
    metadata,
    Column("subject", Text, primary_key=True),  # `telegram:77` (a person) or `telegram:-1005` (a place)
    Column("place", Text, primary_key=True, server_default=""),  # where a person's role holds; "" is everywhere
    Column("kind", Text, nullable=False),  # person | place
    Column("role", Text, nullable=False),  # owner | admin | member | blocked
    Column("granted_by", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

pairing = Table(
    "pairing",
    metadata,
    Column("id", Id, primary_key=True),
    Column("code_hash", Text, nullable=False, unique=True),
    Column("subject", Text, nullable=False),  # who asks
    Column("display", Text, nullable=False),
    Column("conv", Text, nullable=False),  # where to tell them
    Column("language", Text, nullable=False, server_default="en"),
    Column("state", Text, nullable=False, server_default="open"),  # open | approved | denied
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("ended_by", Text),
)
Index("ix_pairing_subject", pairing.c.subject, pairing.c.state)

# Wrong codes somebody tried: enough of them within an hour and approving is refused for a while.
pairing_attempt = Table(
    "pairing_attempt",
    metadata,
    Column("id", Id, primary_key=True),
    Column("by", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index("ix_pairing_attempt_at", pairing_attempt.c.at)

# Accounts of people who have several; everything else keeps the account's own id, and is joined by this on reading.
identity = Table(
    "identity",
    metadata,
    Column("person", Text, primary_key=True),  # an account, `telegram:77`
    Column("identity", Text, nullable=False),  # whose it is: the same for all accounts of one person
    Column("rights", Text),  # accounts with the same have each other's rights; NULL: each its own
    Column("conv", Text, nullable=False),  # the account's direct chat, where to tell it
    Column("language", Text, nullable=False, server_default="en"),
    Column("at", BigInteger, nullable=False),
)
Index("ix_identity_identity", identity.c.identity)

# The newest code of each account that wants to be linked.
link_code = Table(
    "link_code",
    metadata,
    Column("person", Text, primary_key=True),
    Column("code_hash", Text, nullable=False, unique=True),
    Column("display", Text, nullable=False),
    Column("conv", Text, nullable=False),
    Column("language", Text, nullable=False, server_default="en"),
    Column("expires_at", BigInteger, nullable=False),
    Column("used_by", Text),  # the account that was linked with it
)

schedule = Table(
    "schedule",
    metadata,
    Column("id", Id, primary_key=True),
    Column("conv", Text, nullable=False),
    Column("name", Text),  # unique in its conversation; None: people call it by its number
    Column("origin", Text, unique=True),  # the message that asked for it, so that its repeat makes no second one
    Column("person", Text),  # who asked for it
    Column("display", Text, nullable=False, server_default=""),
    Column("language", Text, nullable=False, server_default="en"),
    Column("role", Text, nullable=False, server_default="member"),
    Column("chat_type", Text, nullable=False, server_default="direct"),
    Column("action", Text, nullable=False),  # remind | ask | heartbeat
    Column("kind", Text, nullable=False, server_default=""),  # the model's own word for it
    Column("text", Text, nullable=False),
    Column("rule", Text, nullable=False),  # JSON of gateway.scheduler.triggers.rules
    Column("said", Text, nullable=False, server_default=""),  # the rule in the words that gave it
    Column("zone", Text, nullable=False),
    Column("zone_source", Text, nullable=False),  # given | person | platform | assumed
    Column("misfire", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="active"),  # active | paused | failed | ended
    Column("due_at", BigInteger),  # the moment that is meant
    Column("due_key", Text),  # its name
    Column("next_at", BigInteger),  # when to act on it: later than due_at where it is held back
    Column("held", Boolean, nullable=False, server_default=text("false")),  # by quiet hours
    Column("failures", BigInteger, nullable=False, server_default="0"),  # in a row
    Column("note", Text),  # why it is off
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("conv", "name"),
    sqlite_autoincrement=True,  # a number is never used again: old buttons and the ledger still name it
)
partial_index("ix_schedule_due", schedule.c.next_at, where="state = 'active'")
Index("ix_schedule_person", schedule.c.person)

# One row for each moment of a schedule that fired, was missed or was left out: what makes a fire happen once.
schedule_run = Table(
    "schedule_run",
    metadata,
    Column("id", Id, primary_key=True),
    Column("schedule_id", BigInteger, nullable=False),
    Column("conv", Text, nullable=False),
    Column("fire_key", Text, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),  # fired | late | missed | skipped | overlap | unreachable
    Column("count", BigInteger, nullable=False, server_default="1"),  # moments that this row stands for
    Column("dedup", Text),  # of the inbox or outbox row; None: nothing was started
    Column("run", Text),  # ok | failed; None: not known yet
    Column("delivery", Text),  # sent | dead | none; None: not known yet
    Column("ended_at", BigInteger),  # when both were known
    UniqueConstraint("schedule_id", "fire_key"),
)
partial_index("ix_schedule_run_open", schedule_run.c.id, where="ended_at is null")
Index("ix_schedule_run_conv", schedule_run.c.conv, schedule_run.c.id)

# Figures over time: a row for each hour, figure and label (a model, a platform, a bucket of a histogram).
figure = Table(
    "figures_hour",
    metadata,
    Column("name", Text, primary_key=True),  # first in the key: a plot reads one figure over many hours
    Column("hour", BigInteger, primary_key=True, autoincrement=False),  # its begin
    Column("label", Text, primary_key=True),
    Column("value", Float, nullable=False),
    sqlite_with_rowid=False,
)

# Notes of adapters between starts: short texts that are cheap to lose.
adapter_store = Table(
    "adapter_store",
    metadata,
    Column("scope", Text, primary_key=True),  # a platform, `telegram`, or one account, `telegram@second`
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("until", BigInteger, nullable=False),  # from this moment on it is not there
)

# Actions of operators on the dashboard: the audit log.
# Journals of adapters whose pages another process goes on with; on SQLite they are files.
adapter_line = Table(
    "adapter_line",
    metadata,
    Column("id", Id, primary_key=True),
    Column("scope", Text, nullable=False),  # the account
    Column("name", Text, nullable=False),
    Column("line", Text, nullable=False),
    Index("ix_adapter_line_name", "scope", "name", "id"),
)

operator_action = Table(
    "operator_action",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("person", Text, nullable=False),  # `web:operator`
    Column("name", Text, nullable=False),
    Column("address", Text, nullable=False),  # the address that the request came from
    Column("action", Text, nullable=False),  # `approvals.decide`
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
)
Index("ix_operator_action_at", operator_action.c.at)
Index("ix_operator_action_person", operator_action.c.person, operator_action.c.id)

# Levels of the log that operators chose for a while.
log_level = Table(
    "log_level",
    metadata,
    Column("logger", Text, primary_key=True),  # `tieline`, or one below it
    Column("level", Text, nullable=False),
    Column("until", BigInteger),  # NULL: until the next start
    Column("by", Text, nullable=False),
)

person_zone = Table(
    "person_zone",
    metadata,
    Column("person", Text, primary_key=True),  # `telegram:77`
    Column("zone", Text),  # None: they were asked and have not told
    Column("updated_at", BigInteger, nullable=False),
)

# People who sign in to the web server beside the owner, who needs no row.
web_person = Table(
    "web_person",
    metadata,
    Column("id", Text, primary_key=True),  # `anna`: she is `web:anna` in grants and settings
    Column("display", Text, nullable=False),
    Column("subject", Text, unique=True),  # who the identity provider says it is; NULL: an operator made the account
    Column("password_hash", Text),  # argon2id; NULL: without a password
    Column("created_at", BigInteger, nullable=False),
    Column("disabled_at", BigInteger),
)

# A cookie without a row here is none. Of ids and codes only the hash is kept.
web_session = Table(
    "web_session",
    metadata,
    Column("id_hash", Text, primary_key=True),
    Column("person", Text, nullable=False),  # `operator`, or the id of a `web_person`
    Column("method", Text, nullable=False),  # link | password | oidc | proxy
    Column("created_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),  # within the hour
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("ended_at", BigInteger),
)
Index("ix_web_session_person", web_session.c.person)

web_code = Table(
    "web_code",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
)

# Tries to sign in, by address and by person: enough of them within a while and more are refused.
web_attempt = Table(
    "web_attempt",
    metadata,
    Column("id", Id, primary_key=True),
    Column("by", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index("ix_web_attempt_by", web_attempt.c.by, web_attempt.c.at)

# Keys that all processes on one PostgreSQL sign with: a browser is signed in at each of them.
web_key = Table(
    "web_key",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),  # base64
    Column("created_at", BigInteger, nullable=False),
)

# Keys of other programs. A key is known by its hash alone; `name` is `api:<name>` in grants, and is never given again.
api_key = Table(
    "api_key",
    metadata,
    Column("name", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),  # SHA-256 of the key
    Column("shown", Text, nullable=False),  # its last characters, by which people know it
    Column("scopes", Text, nullable=False),  # with blanks between
    Column("places", Text, nullable=False),  # conversations, with blanks between; "*": all
    Column("per_minute", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("used_at", BigInteger),
    Column("minute", BigInteger, nullable=False, server_default="0"),  # in which it was used last, and how often
    Column("uses", BigInteger, nullable=False, server_default="0"),
)

# Alerts beyond the owners' chats: a row for each alert and receiver, until it is sent or given up.
alert = Table(
    "alert",
    metadata,
    Column("id", Id, primary_key=True),
    Column("receiver", Text, nullable=False),  # email | webhook | one address: email:ops@example.org
    Column("subject", Text, nullable=False),  # what it is about: `model:main`; "": a single event
    Column("severity", Text, nullable=False),  # warning | resolved | test
    Column("text", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("claimed_until", BigInteger, nullable=False, server_default="0"),  # by the process that sends it
    Column("error", Text, nullable=False, server_default=""),  # of the last attempt
    Column("state", Text, nullable=False, server_default="open"),  # open | sent | given_up
    Column("ended_at", BigInteger),
)
partial_index("ix_alert_open", alert.c.receiver, alert.c.id, where="state = 'open'")
