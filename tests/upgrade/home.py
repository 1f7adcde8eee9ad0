"""The home folder that is kept: its configuration, which names every address by the environment, and what people wrote.

The same configuration is used when a fixture is made and when it is upgraded, so it must be valid in both versions.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.program.doubles import DISCORD_TOKEN, SLACK_APP_TOKEN, SLACK_BOT_TOKEN, SLACK_SECRET, TELEGRAM_TOKEN, Doubles
from tests.program.people import GROUP

TOPIC: dict[str, Any] = {
    "chat": {**GROUP, "id": -1006, "is_forum": True},
    "message_thread_id": 3,
    "is_topic_message": True,
}
GROWING = {**GROUP, "id": -1007}  # a group in which an answer grows when the process dies
NAMES = {
    78: "Bob", 97: "Max", 98: "Yan", 99: "Zoe", 100: "Una", 301: "Cara", 302: "Fay", 401: "Dan", 402: "Eve",
    403: "Gus", 404: "Hal", 405: "Ivy", 406: "Jan", 407: "Kim", 408: "Leo", 409: "Mia", 410: "Ned", 411: "Oda",
}  # fmt: skip
CHATS: tuple[dict[str, Any], ...] = (  # of the people, and the two groups that the operator has let in
    *({"id": id, "type": "private", "first_name": name} for id, name in NAMES.items()), TOPIC["chat"], GROWING,
)  # fmt: skip

MOST_DAYS = 36_500  # what is kept is upgraded long after it was made: nothing of it may be too old by then

CONFIG = f"""\
[access]
dm = "pairing"
groups = "allowlist"
allow = ["telegram:78", "telegram:301", "telegram:302", "telegram:401", "telegram:402", "telegram:403", "telegram:404",
  "telegram:405", "telegram:406", "telegram:407", "telegram:408", "telegram:409", "telegram:410", "telegram:411"]
allow_groups = ["telegram:-1006", "telegram:-1007", "discord:300000000000000001", "slack:C0GENERAL"]
admins = ["telegram:77", "discord:500000000000000001", "slack:U0ANN"]
messages_per_minute = 600

[[llm.providers]]
name = "a"
type = "openai"
model = "model-a"
base_url = "env:DOUBLE_OPENAI"
api_key = "sk-double"
context_window = 128000
prices = {{input = 1.0, output = 10.0}}

[[llm.providers]]
name = "b"
type = "anthropic"
model = "model-b"
base_url = "env:DOUBLE_ANTHROPIC"
api_key = "sk-double"
context_window = 128000
prices = {{input = 1.0, output = 10.0}}

[[llm.providers]]
name = "small"
type = "openai"
model = "model-small"
base_url = "env:DOUBLE_OPENAI"
api_key = "sk-double"
context_window = 16000
prices = {{input = 0.0, output = 0.0}}

[[llm.providers]]
name = "found"
type = "openai"
model = "model-found"
base_url = "env:DOUBLE_OPENAI"
api_key = "sk-double"
prices = {{input = 0.0, output = 0.0}}

[[channels]]
type = "telegram"
token = "{TELEGRAM_TOKEN}"
api_base_url = "env:DOUBLE_TELEGRAM"

[[channels]]
type = "discord"
token = "{DISCORD_TOKEN}"
api_base_url = "env:DOUBLE_DISCORD"
gateway_url = "env:DOUBLE_DISCORD_GATEWAY"

[[channels]]
type = "slack"
bot_token = "{SLACK_BOT_TOKEN}"
app_token = "{SLACK_APP_TOKEN}"
signing_secret = "{SLACK_SECRET}"
api_base_url = "env:DOUBLE_SLACK"

[[channels]]
type = "web"

[[channels]]
type = "console"

[agent.goal]
autonomous_enabled = true
autonomous_turn_delay_ms = 50
verify_interval = 2
track_in_system_prompt = true

[logging]
event_log = true

[memory]
prune_protect_tokens = 500
high_compaction_threshold = 0.65
hard_compaction_threshold = 0.70

[memory.compression]
pruning_strategy = "reactive"

[memory.semantic]
engine = "provider"
provider = "a"

[memory.graph]
enabled = true
every = 2

[memory.eviction]
max_entries = 100000
sweep_interval_secs = 1.0

[memory.recall]
strategy = "hybrid"
miss_days = {MOST_DAYS}

[tools.shell]
mode = "off"

[approvals]
ttl_secs = 86400.0

[queue]
linger_ms = 150

[[spending.limits]]
scope = "person"
name = "telegram:78"
usd = 0.5

[delivery]
give_up_after_s = 3000000000.0

[scheduler]
ledger_days = {MOST_DAYS}

[retention]
attachment_days = {MOST_DAYS}
workspace_days = {MOST_DAYS}
output_days = {MOST_DAYS}
inbox_days = {MOST_DAYS}
outbox_days = {MOST_DAYS}
audit_days = {MOST_DAYS}
"""

FILES = {
    "agents/harbour/AGENT.md": "---\nname: Harbour\ndescription: Speaks as a harbour master.\n---\n\nSpeak briefly.\n",
    "agents/scout.md": "---\nname: scout\ndescription: Looks things up.\n---\n\nLook it up and say what you found.\n",
    "skills/tide/SKILL.md": "---\ndescription: Tells the tide\ntriggers: the tide\n---\nName the harbour.\n",
    "skills/ebb/SKILL.md": "---\ndescription: Tells the ebb\ntriggers: the ebb\n---\nName the pier.\n",
}


def write_home(home: Path) -> None:
    """Files of an operator: agents and skills. The configuration is written by the program."""
    for name, text in FILES.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def environment(doubles: Doubles, database: str | None = None) -> Mapping[str, str]:
    """The addresses that the configuration names; `database` is the address of a PostgreSQL database."""
    at = "http://127.0.0.1:{}"
    named = {
        "DOUBLE_OPENAI": at.format(doubles.llm.port) + "/v1",
        "DOUBLE_ANTHROPIC": at.format(doubles.llm.port),
        "DOUBLE_TELEGRAM": at.format(doubles.telegram.port),
        "DOUBLE_DISCORD": at.format(doubles.discord.port) + "/api/v10",
        "DOUBLE_DISCORD_GATEWAY": f"ws://127.0.0.1:{doubles.discord.port}/gateway/",
        "DOUBLE_SLACK": at.format(doubles.slack.port) + "/api/",
        "TIELINE__MEMORY__SEMANTIC__ENGINE": "provider",  # as the file says; `Program` switches it off otherwise
    }
    return named | ({"TIELINE__DATABASE__URL": database} if database else {})
