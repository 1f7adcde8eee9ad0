"""Homes of OpenClaw, Hermes Agent and nanobot, made by these programs themselves, for the tests of `tieline import`.

Not part of the tests: it takes a minute and the installed programs. The homes that are kept were made with OpenClaw
2026.9.6 (Node.js 24), Hermes Agent 0.19.0 and nanobot-ai 0.3.5 (Python 3.11). Install them outside of this folder
(`npm install openclaw`, `pip install hermes-agent`, `pip install nanobot-ai`), then

    python -m tests.gateway.importers.make_homes --into tests/gateway/importers/homes \
        --node NODE --openclaw FOLDER/node_modules/openclaw/openclaw.mjs --hermes VENV --nanobot VENV

Each program is started by its own commands, or by its own Python code where it has no command. What people and agents
write with an editor (notes, skills) is written here. Paths of the machine become /home/anna; of OpenClaw's database the
tables that are read are kept, as text. The secrets are made up.
"""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

OWNER = "/home/anna"
LATER = "2035-03-01T09:00"  # OpenClaw takes ten years at most
TELEGRAM = "1234567:AAfixture-of-a-telegram-token-000000"
DISCORD = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GfIxTu.fixture-of-a-discord-token-000000000000"
ANTHROPIC = "sk-ant-api03-fixture-of-a-key-0000000000000000000000000000000000000000000000000000000000000000000000AA"
OPENROUTER = "sk-or-v1-fixture0000000000000000000000000000000000000000000000000000000000"
SKILL = """---
name: weekly-report
description: Writes the weekly report for the board
---

Three sections: done, late, next. The figures come from scripts/figures.sh.
"""
SCRIPT = "echo 'done 3, late 1'\n"
MEMORY = """# Long-term memory

## Home

- The spare key lies under the blue flowerpot.
- Bins are collected on Tuesdays.

## Work

Anna leads the team for payments. The release is cut every second Thursday.
"""
DAY = "# 2026-11-20\n\n- Booked the train to Lisbon for the 4th of December.\n"
KEPT_TABLES = {
    "schema_meta": "",
    "config_machine_state": "state_key in ('authProfiles.store', 'auth.sharedStore')",
    "cron_jobs": "",
    "channel_pairing_allow_entries": "",
    "workspace_generated_bootstrap_hashes": "",
}
NO_NETWORK = ("unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")


def run(command: Sequence[str | Path], home: Path, **more: str) -> str:
    """The output of a command of one of the programs, without a network."""
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "Europe/Berlin", "LANG": "C.UTF-8", **more}
    done = subprocess.run(
        [*NO_NETWORK, *map(str, command)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=home,
    )
    if done.returncode:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def put_skill(folder: Path) -> None:
    put(folder / "SKILL.md", SKILL)
    put(folder / "scripts" / "figures.sh", SCRIPT)


# OpenClaw


def make_openclaw(home: Path, node: Path, program: Path) -> None:
    """A home with a model and its key, two accounts, people who may write, groups, jobs, notes and a skill."""
    claw = (node, program)
    skip = ("--skip-health", "--skip-channels", "--skip-skills", "--skip-ui", "--skip-search", "--no-install-daemon")
    key = ("--auth-choice", "apiKey", "--anthropic-api-key", ANTHROPIC)
    run([*claw, "onboard", "--non-interactive", "--accept-risk", "--mode", "local", *key, *skip], home)
    groups = {"-1005": {"requireMention": True, "groupPolicy": "open"}}
    telegram = {"botToken": TELEGRAM, "dmPolicy": "allowlist", "allowFrom": ["77"], "groups": groups}
    settings: Mapping[str, object] = {
        "channels.telegram": {"enabled": True, **telegram},
        "agents.defaults.model.fallbacks": ["openrouter/anthropic/claude-sonnet-4"],
        "agents.defaults.userTimezone": "Europe/Lisbon",
    }
    # After the gateway ran: it would look for the plugin of Discord on the internet.
    accounts: Mapping[str, object] = {
        "channels.discord": {"enabled": True, "token": DISCORD, "dmPolicy": "pairing"},
    }

    def configure(values: Mapping[str, object]) -> None:
        for name, value in values.items():
            run([*claw, "config", "set", name, json.dumps(value), "--strict-json"], home)

    configure(settings)
    workspace = home / ".openclaw" / "workspace"
    run([*claw, "agents", "set-identity", "--agent", "main", "--name", "Molty", "--emoji", "🦞"], home)
    with (workspace / "SOUL.md").open("a", encoding="utf-8") as soul:
        soul.write("\n## Mine\n\nI end every answer with a lobster.\n")
    user = "<!-- observed: 2026-11-01 | status: active -->\n\n- Prefer answers in British English.\n"
    put(workspace / "USER.md", f"# USER.md - User Model\n\n## Directives\n\n{user}")
    put(workspace / "MEMORY.md", MEMORY)
    put(workspace / "memory" / "2026-11-20.md", DAY)
    put_skill(workspace / "skills" / "weekly-report")
    to = ("--announce", "--channel", "telegram", "--to", "77")
    jobs = (
        ("--name", "morning", "--cron", "30 8 * * 1-5", "--tz", "Europe/Berlin", "--message", "What is on today?", *to),
        ("--name", "passport", "--at", f"{LATER}:00Z", "--session", "main", "--system-event", "Renew the passport."),
        ("--name", "build", "--every", "2h", "--message", "Look at the build.", *to),
        ("--name", "resting", "--cron", "0 7 * * *", "--message", "Water the plants.", "--disabled", *to),
        ("--name", "uptime", "--every", "2h", "--command", "uptime"),
    )
    # In one script: the gateway and its client share a network of their own.
    typed = " ".join(map(_quoted, map(str, claw)))
    adds = "\n".join(f"{typed} cron add {' '.join(map(_quoted, job))} >/dev/null || exit 1" for job in jobs)
    script = f"""
{typed} gateway run >gateway.log 2>&1 & pid=$!
for one in 1 2 3 4 5 6 7 8 9 10; do sleep 5; {typed} cron list >/dev/null 2>&1 && break; done
({adds})
status=$?
kill $pid; sleep 8; kill -9 $pid; wait $pid
[ $status = 0 ] || tail -n 50 gateway.log
exit $status
"""
    run(["sh", "-c", script], home)
    configure(accounts)
    state = home / ".openclaw" / "state"
    put(state / "openclaw.sql", _dumped(state / "openclaw.sqlite"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _dumped(path: Path) -> str:
    """The tables that are read, as SQL."""
    database = sqlite3.connect(path)
    lines = []
    for name, which in KEPT_TABLES.items():
        (made,) = database.execute(
            "select sql from sqlite_master where type = 'table' and name = ?", (name,)
        ).fetchone()
        lines.append(f"{made};")
        columns = [row[1] for row in database.execute(f"pragma table_info({name})")]
        quoted = " || ',' || ".join(f"quote({column})" for column in columns)
        where = f" where {which}" if which else ""
        for (values,) in database.execute(f"select {quoted} from {name}{where}"):
            lines.append(f"INSERT INTO {name} VALUES({values});")
    database.close()
    return "\n".join(lines) + "\n"


# Hermes Agent

HERMES_CODE = """
from tools.memory_tool import MemoryStore
store = MemoryStore()
store.load_from_disk()
print(store.add("memory", "The spare key lies under the blue flowerpot."))
print(store.add("memory", "Bins are collected on Tuesdays.\\nPaper every fourth week."))
print(store.add("user", "Anna prefers answers in British English."))
from gateway.pairing import PairingStore
pairing = PairingStore()
code = pairing.generate_code("discord", "500000000000000001", "Anna")
print(pairing.approve_code("discord", code))
"""


def make_hermes(home: Path, venv: Path) -> None:
    """A home with a model and its key, two accounts, people who may write, jobs, notes and a skill."""
    folder = home / ".hermes"
    hermes, more = venv / "bin" / "hermes", {"HERMES_HOME": str(folder)}
    settings = {
        "model.default": "anthropic/claude-sonnet-4",
        "model.provider": "openrouter",
        "timezone": "Europe/Lisbon",
        "OPENROUTER_API_KEY": OPENROUTER,
        "TELEGRAM_BOT_TOKEN": TELEGRAM,
        "TELEGRAM_ALLOWED_USERS": "77",
        "TELEGRAM_HOME_CHANNEL": "77",
        "DISCORD_BOT_TOKEN": DISCORD,
    }
    for name, value in settings.items():
        run([hermes, "config", "set", name, value], home, **more)
    for job in (
        ("--name", "morning", "--deliver", "telegram:77", "30 8 * * 1-5", "What is on today?"),
        ("--name", "passport", "--deliver", "telegram", LATER, "Renew the passport."),
        ("--name", "build", "--deliver", "telegram:77", "every 2h", "Look at the build."),
        ("--name", "silent", "every 2h", "Tidy the notes."),
        ("--name", "thrice", "--repeat", "3", "--deliver", "telegram:77", "every 1h", "Stretch."),
    ):
        run([hermes, "cron", "create", *job], home, **more)
    run([venv / "bin" / "python", "-c", HERMES_CODE], home, **more)
    put(folder / "SOUL.md", (folder / "SOUL.md").read_text("utf-8") + "\n\nYou end every answer with a wing.\n")
    put_skill(folder / "skills" / "work" / "weekly-report")


# nanobot

NANOBOT_CODE = f"""
from pathlib import Path
from nanobot.config.loader import load_config, save_config
config = load_config()
config.agents.defaults.model = "anthropic/claude-sonnet-4"
config.agents.defaults.provider = "openrouter"
config.agents.defaults.timezone = "Europe/Lisbon"
config.agents.defaults.timezone_mode = "manual"
config.agents.defaults.bot_name = "Nano"
config.providers.openrouter.api_key = {OPENROUTER!r}
config.channels.telegram.update(enabled=True, token={TELEGRAM!r}, allowFrom=["77", "anna"])
config.channels.discord.update(
    enabled=True, token={DISCORD!r}, allowFrom=["*"], allowChannels=["500000000000000009"]
)
save_config(config)
from nanobot.pairing import store
code = store.generate_code("discord", "500000000000000001")
print(store.approve_code(code))
from nanobot.cron.service import CronService
from nanobot.cron.types import CronSchedule
cron = CronService(config.workspace_path / "cron" / "jobs.json")
def add(name, schedule, message, **more):
    cron.add_job(name=name, schedule=schedule, message=message, **more)
told = dict(session_key="telegram:77", origin_channel="telegram", origin_chat_id="77")
add("morning", CronSchedule(kind="cron", expr="30 8 * * 1-5", tz="Europe/Berlin"), "What is on today?", **told)
add("passport", CronSchedule(kind="at", at_ms=2056352400000), "Renew the passport.", **told)
add("build", CronSchedule(kind="every", every_ms=7200000), "Look at the build.", **told)
import asyncio
async def settled():
    await cron.start()
    cron.stop()
asyncio.run(settled())
"""


def make_nanobot(home: Path, venv: Path) -> None:
    """A home with a model and its key, two accounts, people who may write, jobs, notes and a skill."""
    run([venv / "bin" / "nanobot", "onboard"], home)
    run([venv / "bin" / "python", "-c", NANOBOT_CODE], home)
    workspace = home / ".nanobot" / "workspace"
    with (workspace / "SOUL.md").open("a", encoding="utf-8") as soul:
        soul.write("\nI end every answer with a cat.\n")
    user = (workspace / "USER.md").read_text("utf-8")
    put(workspace / "USER.md", user.replace("(your name)", "Anna").replace("(preferred language)", "British English"))
    put(workspace / "memory" / "MEMORY.md", MEMORY)
    put_skill(workspace / "skills" / "weekly-report")


# The homes as they are kept

WORKSPACE = ("workspace/*.md", "workspace/memory/*.md", "workspace/skills/**/*")
OF_HERMES = ("config.yaml", ".env", "auth.json", "SOUL.md", "memories/*.md", "cron/jobs.json", "skills/**/*")
KEPT = {
    "openclaw": (".openclaw", ("openclaw.json", *WORKSPACE, "state/*.sql")),
    "hermes": (".hermes", (*OF_HERMES, "**/*-approved.json")),
    "nanobot": (".nanobot", ("config.json", "pairing.json", *WORKSPACE, "workspace/cron/jobs.json")),
}


def keep(home: Path, name: str, into: Path) -> None:
    """Copy what is read of a home, with the owner's paths instead of the machine's."""
    folder, patterns = KEPT[name]
    shutil.rmtree(into / name, ignore_errors=True)
    for pattern in patterns:
        for file in sorted((home / folder).glob(pattern)):
            if file.is_file() and "BOOTSTRAP" not in file.name:
                text = file.read_text("utf-8").replace(str(home), OWNER)
                put(into / name / file.relative_to(home / folder), text)


def main() -> None:
    """Make the homes of the programs that are named."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("into", "node", "openclaw", "hermes", "nanobot"):
        options.add_argument(f"--{name}", type=Path)
    given = options.parse_args()
    makers: Mapping[str, Callable[[Path], None]] = {
        "openclaw": lambda home: make_openclaw(home, given.node.absolute(), given.openclaw.absolute()),
        "hermes": lambda home: make_hermes(home, given.hermes.absolute()),
        "nanobot": lambda home: make_nanobot(home, given.nanobot.absolute()),
    }
    for name, make in makers.items():
        if getattr(given, name) is None:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as made:
            make(Path(made))
            keep(Path(made), name, given.into)
        print(f"{name}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
