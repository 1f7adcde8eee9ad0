"""Homes as OpenClaw, Hermes Agent and nanobot make them: what of them moves, and what stays behind and why."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.importers import openclaw
from gateway.importers.home import Home
from gateway.importers.moved import ImportRefused, Moved
from gateway.importers.plan import READERS
from gateway.importers.services import section_name
from gateway.importers.writer import rows_of
from gateway.phrases.catalogue import read_catalogue
from gateway.scheduler.triggers.cron import parse_cron
from gateway.scheduler.triggers.rules import Every, Once
from tests.gateway.importers.copies import DISCORD, NOW, TELEGRAM, change_json, copy_of, plan_of

PROGRAMS = tuple(READERS)
FACTS = {
    "Home: The spare key lies under the blue flowerpot.",
    "Home: Bins are collected on Tuesdays.",
    "Work: Anna leads the team for payments. The release is cut every second Thursday.",
}


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _read(program: str, home: Path, **environ: str) -> Moved:
    return READERS[program][0](Home(home), environ, NOW)


def _left(moved: Moved) -> Mapping[str, str]:
    return {one.what: one.why for one in moved.left}


@pytest.mark.requirement("G-157")
def test_what_all_of_them_have(program: str, tmp_path: Path) -> None:
    moved = _read(program, copy_of(program, tmp_path))
    tokens = {one.type: one.secrets["token"].value for one in moved.accounts}
    assert {kind: token and token.get_secret_value() for kind, token in tokens.items()} == {
        "telegram": TELEGRAM,
        "discord": DISCORD,
    }
    (skill,) = moved.skills
    assert (skill.name, set(skill.files)) == ("weekly-report", {"SKILL.md", "scripts/figures.sh"})
    morning, passport, build = moved.jobs[:3]
    assert (morning.text, morning.rule) == ("What is on today?", parse_cron("30 8 * * 1-5"))
    assert (passport.text, passport.rule) == ("Renew the passport.", Once(at=datetime(2035, 3, 1, 9, tzinfo=UTC)))
    assert (build.text, build.rule) == ("Look at the build.", Every(seconds=7200, anchor=NOW))
    assert {morning.to, build.to} == {"telegram:77"}
    assert _left(moved)["conversations"] == "they and their history are not moved: Tieline begins with its own"
    assert not any(TELEGRAM in str(value) or DISCORD in str(value) for value in (moved, moved.left))


@pytest.mark.requirement("G-157")
def test_openclaw(tmp_path: Path) -> None:
    moved = _read("openclaw", copy_of("openclaw", tmp_path))
    assert moved.persona is not None
    assert (moved.persona.name, moved.persona.sources) == ("Molty", ("SOUL.md",))
    assert moved.persona.text.endswith("I end every answer with a lobster.")
    assert {note.text for note in moved.notes} == {
        *FACTS,
        "Prefer answers in British English.",
        "2026-11-20: Booked the train to Lisbon for the 4th of December.",
    }
    assert (moved.people, moved.groups) == (["telegram:77"], ["telegram:-1005"])
    assert [(one.name, one.type, one.model, one.base_url) for one in moved.models] == [
        ("anthropic", "anthropic", "claude-opus-5", ""),
        ("openrouter", "openai", "anthropic/claude-sonnet-4", "https://openrouter.ai/api/v1"),
    ]
    key = moved.models[0].key
    assert key is not None
    assert key.value is not None
    assert key.value.get_secret_value().startswith("sk-ant-api03-fixture")
    assert [(job.name, job.zone, job.to, job.is_paused) for job in moved.jobs] == [
        ("morning", "Europe/Berlin", "telegram:77", False),
        ("passport", "Europe/Lisbon", "", False),
        ("build", "Europe/Lisbon", "telegram:77", False),
        ("resting", "Europe/Lisbon", "telegram:77", True),
    ]
    left = _left(moved)
    assert left["schedule uptime"] == "it runs a command or a script"
    assert left["AGENTS.md"] == "it is as OpenClaw wrote it, about tools that only OpenClaw has"
    assert "3 schedules of OpenClaw's own" in left
    assert "direct messages: telegram allowlist, discord pairing" in left


@pytest.mark.requirement("G-157")
def test_hermes(tmp_path: Path) -> None:
    moved = _read("hermes", copy_of("hermes", tmp_path))
    assert moved.persona is not None
    assert moved.persona.text.endswith("You end every answer with a wing.")
    assert {note.text for note in moved.notes} == {
        "The spare key lies under the blue flowerpot.",
        "Bins are collected on Tuesdays. Paper every fourth week.",
        "Anna prefers answers in British English.",
    }
    assert (moved.owner, moved.people) == ("telegram:77", ["telegram:77", "discord:500000000000000001"])
    assert [(one.name, one.model) for one in moved.models] == [("openrouter", "anthropic/claude-sonnet-4")]
    assert [(job.name, job.zone, job.to) for job in moved.jobs] == [
        ("morning", "Europe/Lisbon", "telegram:77"),
        ("passport", "Europe/Lisbon", "telegram:77"),
        ("build", "Europe/Lisbon", "telegram:77"),
    ]
    left = _left(moved)
    assert left["schedule silent"] == "it tells local, which is no chat here"
    assert left["schedule thrice"] == "it ends after 3 times, which a schedule here cannot"


@pytest.mark.requirement("G-157")
def test_nanobot(tmp_path: Path) -> None:
    moved = _read("nanobot", copy_of("nanobot", tmp_path))
    assert moved.persona is not None
    assert (moved.persona.name, moved.persona.sources) == ("Nano", ("SOUL.md",))
    assert {note.text for note in moved.notes} == {*FACTS, "Name: Anna", "Language: British English"}
    assert set(moved.people) == {"telegram:77", "discord:500000000000000001"}
    assert moved.groups == ["discord:500000000000000009"]
    assert [(one.name, one.model) for one in moved.models] == [("openrouter", "anthropic/claude-sonnet-4")]
    assert [(job.name, job.zone) for job in moved.jobs] == [
        ("morning", "Europe/Berlin"),
        ("passport", "Europe/Lisbon"),
        ("build", "Europe/Lisbon"),
    ]
    left = _left(moved)
    assert left["telegram: anna may write"] == "it is no id of a person; names can be taken by others"
    assert left["AGENTS.md"] == "it is as nanobot wrote it, about tools that only nanobot has"


def test_rules_that_people_wrote_move_with_the_character(tmp_path: Path) -> None:
    for program in ("openclaw", "nanobot"):
        home = copy_of(program, tmp_path)
        with (home / "workspace" / "AGENTS.md").open("a", encoding="utf-8") as rules:
            rules.write("\nNever speak of the weather.\n")
        moved = _read(program, home)
        assert moved.persona is not None
        assert moved.persona.text.endswith("Never speak of the weather.")
        assert "it moves with the character" in _left(moved)["AGENTS.md"]


def test_older_files_of_openclaw(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    with closing(sqlite3.connect(home / "state" / "openclaw.sqlite")) as database:
        jobs = [json.loads(text) for (text,) in database.execute("select job_json from cron_jobs")]
        (auth,) = database.execute(
            "select value_json from config_machine_state where value_json like '%sk-ant%'"
        ).fetchone()
    (home / "state" / "openclaw.sqlite").unlink()
    change_json(home / "openclaw.json", lambda config: config["channels"]["telegram"].update(dmPolicy="pairing"))
    for path, value in (
        ("cron/jobs.json", {"version": 1, "jobs": jobs}),
        ("credentials/telegram-allowFrom.json", {"version": 1, "allowFrom": ["78"]}),
        ("agents/main/agent/auth-profiles.json", json.loads(auth)),
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(json.dumps(value))
    moved = _read("openclaw", home)
    assert {job.name for job in moved.jobs} == {"morning", "passport", "build", "resting"}
    assert moved.people == ["telegram:77", "telegram:78"]
    assert moved.models[0].key is not None


def test_people_who_were_paired_with_openclaw(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    with closing(sqlite3.connect(home / "state" / "openclaw.sqlite")) as database, database:
        database.execute(
            "insert into channel_pairing_allow_entries values ('discord', 'default', '500000000000000001', 0, 0)"
        )
    assert _read("openclaw", home).people == ["telegram:77", "discord:500000000000000001"]


@pytest.mark.requirement("G-159")
def test_a_newer_home_moves_as_far_as_it_is_known(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path / "a")
    change_json(home / "openclaw.json", lambda config: config["meta"].update(lastTouchedVersion="2027.1.0"))
    with closing(sqlite3.connect(home / "state" / "openclaw.sqlite")) as database, database:
        database.execute(f"update schema_meta set schema_version = {openclaw.KNOWN_SCHEMA + 1}")
    moved = _read("openclaw", home)
    assert moved.jobs == []
    assert "it is of OpenClaw 2027.1.0" in _left(moved)["openclaw.json"]
    assert "it has the form 19" in _left(moved)["state/openclaw.sqlite"]

    home = copy_of("nanobot", tmp_path / "b")
    change_json(home / "workspace" / "cron" / "jobs.json", lambda store: store.update(version=2))
    moved = _read("nanobot", home)
    assert moved.jobs == ()
    assert _left(moved)["cron/jobs.json"] == "it has the form 2; 1 is known"

    home = copy_of("hermes", tmp_path / "c")
    with (home / "config.yaml").open("a") as config:
        config.write("_config_version: 34\n")
    assert "it has the form 34" in _left(_read("hermes", home))["config.yaml"]


@pytest.mark.requirement("G-159")
def test_a_broken_configuration_moves_nothing(program: str, tmp_path: Path) -> None:
    home = copy_of(program, tmp_path)
    name = {"openclaw": "openclaw.json", "hermes": "config.yaml", "nanobot": "config.json"}[program]
    (home / name).write_text("{'token': [")
    with pytest.raises(ImportRefused, match=f"{name}: it cannot be read: .*; nothing is moved"):
        _read(program, home)


@pytest.mark.requirement("G-159")
def test_half_a_home_moves_what_is_there(program: str, tmp_path: Path) -> None:
    home = copy_of(program, tmp_path)
    kept = {"openclaw.json", "config.yaml", "config.json", "MEMORY.md"}
    for path in home.rglob("*"):
        if path.is_file() and path.name not in kept:
            path.unlink()
    moved = _read(program, home)
    assert (moved.persona, moved.skills, moved.jobs) == (None, [], [])
    assert moved.notes


@pytest.mark.requirement("G-159")
def test_a_folder_that_is_no_home_is_refused(program: str, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match="is no home of"):
        _read(program, tmp_path)
    with pytest.raises(ImportRefused, match="there is no folder"):
        plan_of(program, tmp_path / "nowhere", tmp_path / "ours")
    with pytest.raises(ImportRefused, match="data directory of Tieline"):
        plan_of(program, tmp_path, tmp_path)


@pytest.mark.requirement("G-159")
@pytest.mark.parametrize("jobs", [None, 5, "x", {"a": 1}, [None, 5, {"schedule": 5, "payload": []}]], ids=str)
def test_values_of_other_kinds_are_no_matter(program: str, jobs: Any, tmp_path: Path) -> None:
    home = copy_of(program, tmp_path)
    for path in home.rglob("jobs.json"):
        path.write_text(json.dumps({"version": 1, "jobs": jobs}))
    if program == "openclaw":
        with closing(sqlite3.connect(home / "state" / "openclaw.sqlite")) as database, database:
            database.execute("update cron_jobs set job_json = ?", [json.dumps({"jobs": jobs})])
        odd = {"channels": jobs, "agents": {"list": jobs, "defaults": jobs}, "models": jobs, "env": jobs}
        (home / "openclaw.json").write_text(json.dumps(odd))
    elif program == "nanobot":
        (home / "config.json").write_text(json.dumps({"channels": jobs, "providers": jobs, "modelPresets": jobs}))
    else:
        (home / "config.yaml").write_text(json.dumps({"model": jobs, "custom_providers": jobs, "platforms": jobs}))
    assert list(_read(program, home).jobs) == []


@pytest.mark.requirement("G-159")
def test_a_workspace_elsewhere_is_not_read(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "SOUL.md").write_text("I am elsewhere.")
    home = copy_of("openclaw", tmp_path)
    config = (home / "openclaw.json").read_text("utf-8")
    for written in (str(elsewhere), "/home/anna/.openclaw/../../elsewhere", "/"):
        (home / "openclaw.json").write_text(config.replace("/home/anna/.openclaw/workspace", written), "utf-8")
        moved = _read("openclaw", home)
        assert (moved.persona, moved.notes) == (None, ())
        assert "it is not in this home" in _left(moved)[f"workspace {written}"]


def test_secrets_in_variables(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    token = {"source": "env", "provider": "default", "id": "MY_TOKEN"}
    change_json(home / "openclaw.json", lambda config: config["channels"]["telegram"].update(botToken=token))
    assert _read("openclaw", home, MY_TOKEN="x").accounts[0].secrets["token"].variable == "MY_TOKEN"
    unset = _read("openclaw", home)
    assert [one.type for one in unset.accounts] == ["discord"]
    assert "the variable MY_TOKEN, which is not set here" in str(unset.left)
    (home / ".env").write_text("MY_TOKEN=1234567:abc\n")
    found = _read("openclaw", home).accounts[0].secrets["token"].value
    assert found is not None
    assert found.get_secret_value() == "1234567:abc"


@pytest.mark.requirement("G-159")
@pytest.mark.parametrize("token", ["file:/etc/hostname", "env:HOME", "two words", "x" * 5_000, "a\x1b[2J"])
def test_a_secret_that_is_none_stays(token: str, tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    change_json(home / "openclaw.json", lambda config: config["channels"]["telegram"].update(botToken=token))
    moved = _read("openclaw", home)
    assert [one.type for one in moved.accounts] == ["discord"]
    assert token not in str(moved.left)


def test_whose_the_notes_are(tmp_path: Path) -> None:
    home = copy_of("nanobot", tmp_path)
    plan = plan_of("nanobot", home, tmp_path / "ours")
    assert (plan.owner, plan.notes) == ("", ())
    assert "import again with --person" in next(one for one in plan.left if one.what == "5 notes").why
    assert plan_of("nanobot", home, tmp_path / "ours", person="telegram:77").owner == "telegram:77"
    with pytest.raises(ImportRefused, match="is nobody"):
        plan_of("nanobot", home, tmp_path / "ours", person="anna")
    change_json(home / "config.json", lambda config: config.update(channels={}))
    assert plan_of("nanobot", home, tmp_path / "ours").owner == "web:operator"


# Access


DISCORD_PLACES = ("500000000000000001", "500000000000000002", "500000000000000003")
GUILD, OPEN, OTHER = DISCORD_PLACES


def _openclaw(tmp_path: Path, platform: str, change: Any, defaults: Any = None) -> Moved:
    """The home with one account, whose settings are changed so."""
    home = copy_of("openclaw", tmp_path)

    def apply(config: Any) -> None:
        token = {"telegram": {"botToken": TELEGRAM}, "discord": {"token": DISCORD}, "slack": {"botToken": "xoxb-1"}}
        config["channels"] = {"defaults": defaults or {}, platform: {**token[platform], **change}}

    change_json(home / "openclaw.json", apply)
    return _read("openclaw", home)


@pytest.mark.requirement("G-157", "G-159")
@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        pytest.param({"groupPolicy": "open"}, ["telegram:-1005"], id="open"),
        pytest.param({"groupPolicy": "disabled"}, [], id="disabled"),
        pytest.param({"groupPolicy": "disbaled"}, [], id="a policy that nobody knows"),
        pytest.param({"groupPolicy": "allowlist", "groupAllowFrom": ["77"]}, [], id="some senders"),
        pytest.param({"groupPolicy": "allowlist", "groupAllowFrom": ["*"]}, ["telegram:-1005"], id="all senders"),
        pytest.param({"groupAllowFrom": [], "allowFrom": ["*"]}, [], id="no senders"),
        pytest.param({"allowFrom": ["77"]}, [], id="the list for direct messages counts for groups"),
        pytest.param({}, [], id="a list is the default"),
        pytest.param({"groupPolicy": "open", "groups": {"-1005": {"allowFrom": ["77"]}}}, [], id="senders of a group"),
        pytest.param({"groups": {"-1005": {"groupPolicy": "open"}}}, ["telegram:-1005"], id="an open group"),
        pytest.param(
            {"groupPolicy": "open", "groups": {"-1005": {"groupPolicy": "disabled"}}}, [], id="a closed group"
        ),
        pytest.param({"groupPolicy": "open", "groups": {"-1005": {"enabled": False}}}, [], id="a group switched off"),
        pytest.param({"groupPolicy": "open", "groups": {"-1005": False}}, [], id="a group that is no table"),
        pytest.param(
            {"groupPolicy": "open", "groups": {"-1005": {"topics": {"4": {"allowFrom": ["77"]}}}}}, [], id="a topic"
        ),
        pytest.param({"groupPolicy": "open", "groups": {}}, [], id="all groups"),
    ],
)
def test_a_group_of_openclaw_opens_only_where_everybody_may_write(
    settings: Mapping[str, Any], groups: Sequence[str], tmp_path: Path
) -> None:
    moved = _openclaw(tmp_path, "telegram", {"groups": {"-1005": {}}, **settings})
    assert moved.groups == groups
    quiet = settings.get("groups", {}).get("-1005") in (False, {"enabled": False})
    assert groups or quiet or any("group" in what for what in _left(moved)), "what stays is said"


@pytest.mark.requirement("G-159")
def test_the_policy_for_all_channels_counts_where_one_says_nothing(tmp_path: Path) -> None:
    settings: Mapping[str, Any] = {"groups": {"-1005": {}}}
    assert _openclaw(tmp_path / "a", "telegram", settings, {"groupPolicy": "open"}).groups == ["telegram:-1005"]
    assert _openclaw(tmp_path / "b", "telegram", settings, {"groupPolicy": "disabled"}).groups == []
    own = {**settings, "groupPolicy": "disabled"}
    assert _openclaw(tmp_path / "c", "telegram", own, {"groupPolicy": "open"}).groups == []


@pytest.mark.requirement("G-157", "G-159")
@pytest.mark.parametrize(
    ("guild", "groups"),
    [
        pytest.param({}, [GUILD], id="a server"),
        pytest.param({"channels": {OPEN: {"allow": False}}}, [], id="only closed channels"),
        pytest.param({"channels": {OPEN: {}, OTHER: {"allow": False}}}, [OPEN], id="an open channel and a closed one"),
        pytest.param({"channels": {OPEN: {}, OTHER: {"users": ["1"]}}}, [OPEN], id="some people in a channel"),
        pytest.param({"users": ["1"], "channels": {OPEN: {}}}, [], id="some people in a server"),
        pytest.param({"users": ["1"], "channels": {OPEN: {"users": ["*"]}}}, [OPEN], id="all people in a channel"),
        pytest.param({"roles": ["1"]}, [], id="some roles in a server"),
        pytest.param({"channels": {"*": {}}}, [GUILD], id="all channels"),
        pytest.param({"channels": {"*": {}, OPEN: {}, OTHER: {"allow": False}}}, [OPEN], id="all channels but one"),
        pytest.param({"channels": {"*": {"enabled": False}, OPEN: {}}}, [OPEN], id="no other channel"),
        pytest.param({"channels": ["x"]}, [], id="no table of channels"),
    ],
)
def test_a_server_of_discord_opens_only_where_everybody_may_write(
    guild: Mapping[str, Any], groups: Sequence[str], tmp_path: Path
) -> None:
    moved = _openclaw(tmp_path, "discord", {"guilds": {GUILD: guild}})
    assert moved.groups == [f"discord:{one}" for one in groups]
    assert GUILD in groups or OPEN in groups or any(one in str(moved.left) for one in DISCORD_PLACES)


@pytest.mark.requirement("G-157", "G-159")
def test_a_channel_of_slack_opens_only_where_everybody_may_write(tmp_path: Path) -> None:
    channels: Mapping[str, Any] = {"C0000001": {}, "C0000002": {"users": ["U0000001"]}, "C0000003": {"allow": False}}
    moved = _openclaw(tmp_path / "a", "slack", {"channels": channels})
    assert moved.groups == ["slack:C0000001"]
    assert "slack: group C0000002" in _left(moved)
    assert _openclaw(tmp_path / "b", "slack", {"channels": channels, "groupPolicy": "disabled"}).groups == []


@pytest.mark.requirement("G-159")
def test_groups_of_nanobot_stay_where_its_list_of_people_counts(tmp_path: Path) -> None:
    home = copy_of("nanobot", tmp_path)
    change_json(home / "config.json", lambda config: config["channels"]["discord"].update(allowFrom=["500"]))
    moved = _read("nanobot", home)
    assert moved.groups == []
    assert "discord: groups 500000000000000009" in _left(moved)


@pytest.mark.requirement("G-159")
def test_direct_messages_that_are_disabled_let_nobody_in(tmp_path: Path) -> None:
    moved = _openclaw(tmp_path, "telegram", {"dmPolicy": "disabled", "allowFrom": ["77"]})
    assert (moved.people, moved.dm) == ([], "closed")
    assert _left(moved)["telegram: people of its list"] == "direct messages are disabled there"


@pytest.mark.requirement("G-157", "G-159")
def test_people_who_were_paired_stay_where_a_list_counts(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    with closing(sqlite3.connect(home / "state" / "openclaw.sqlite")) as database, database:
        for account, person in (("default", "78"), ("work", "79")):
            row = ("telegram", account, person)
            database.execute("insert into channel_pairing_allow_entries values (?, ?, ?, 0, 0)", row)
    moved = _read("openclaw", home)
    assert moved.people == ["telegram:77"]
    assert "telegram: 78 was paired" in _left(moved)


@pytest.mark.requirement("G-157", "G-159")
def test_accounts_of_a_platform_let_in_whom_all_of_them_let_in(tmp_path: Path) -> None:
    work: dict[str, Any] = {"botToken": "7654321:BBfixture", "allowFrom": ["77", "79"], "dmPolicy": "pairing"}
    accounts = {"default": {"allowFrom": ["77", "78"], "dmPolicy": "allowlist"}, "work": work}
    accounts["work"] |= {"groups": {"-1006": {}, "-1007": {}}}
    change = {"accounts": accounts, "groupPolicy": "open", "groups": {"-1005": {}, "-1006": {}}}
    moved = _openclaw(tmp_path, "telegram", change)
    assert (moved.people, moved.groups) == (["telegram:77"], ["telegram:-1006"])
    left = _left(moved)
    assert "telegram work does not answer" in left["[access] allow: telegram:78"]
    assert "the account telegram does not answer" in left["[access] allow: telegram:79"]
    assert "telegram work does not answer" in left["[access] allow_groups: telegram:-1005"]
    assert "direct messages: telegram allowlist, telegram work pairing" in left
    assert moved.dm == ""


@pytest.mark.requirement("G-159")
@pytest.mark.parametrize("agent", ["../../outside", "..", "a\0b"])
def test_the_name_of_an_agent_leads_to_no_keys_elsewhere(agent: str, tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    (home / "state" / "openclaw.sqlite").unlink()
    for folder in (tmp_path / "outside" / "agent", home / "agent", home / "agents"):
        folder.mkdir(parents=True)
        profiles = {"x": {"type": "api_key", "provider": "anthropic", "key": "sk-of-another"}}
        (folder / "auth-profiles.json").write_text(json.dumps({"profiles": profiles}))
    change_json(home / "openclaw.json", lambda config: config["agents"].update(entries={}, list=[{"id": agent}]))
    assert _read("openclaw", home).models[0].key is None


@pytest.mark.requirement("G-159")
def test_the_name_of_an_account_leads_to_no_list_elsewhere(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    (tmp_path / "x-allowFrom.json").write_text('{"allowFrom": ["99"]}')
    (home / "credentials" / "telegram-").mkdir(parents=True)
    change = {"botToken": TELEGRAM, "accounts": {"/../../../x": {}}}
    change_json(home / "openclaw.json", lambda config: config["channels"].update(telegram=change))
    assert "telegram:99" not in _read("openclaw", home).people


# Notes


@pytest.mark.requirement("G-157")
def test_notes_that_stay_are_told_of(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path / "a")
    workspace = home / "workspace"
    (workspace / "memory" / "projects.md").write_text("- The boat is in the harbour.")
    (workspace / "MEMORY.md").write_text("- Born in May\n- (ask Ben)\n")
    user = (workspace / "USER.md").read_text().replace("## Directives", "I am Anna.\n\n## directives")
    (workspace / "USER.md").write_text(user)
    moved = _read("openclaw", home)
    assert "Prefer answers in British English." in {note.text for note in moved.notes}
    left = _left(moved)
    assert "only the notes of a day" in left["workspace/memory/projects.md"]
    assert "“(ask Ben)”" in left["MEMORY.md"]
    assert "“I am Anna.”" in left["USER.md"]

    home = copy_of("nanobot", tmp_path / "b")
    (home / "workspace" / "memory" / "boat.md").write_text("- The boat is in the harbour.")
    left = _left(_read("nanobot", home))
    assert left["workspace/memory/boat.md"] == "only MEMORY.md moves from there"
    assert "“Timezone: (your timezone" in left["USER.md"]


# Odd values and accounts without a token


def _jobs_of_openclaw(home: Path, *jobs: Mapping[str, Any]) -> None:
    """Let these be all jobs of the home."""
    (home / "state" / "openclaw.sqlite").unlink()
    (home / "cron").mkdir(exist_ok=True)
    (home / "cron" / "jobs.json").write_text(json.dumps({"version": 1, "jobs": jobs}))


def _job(**changes: Any) -> Mapping[str, Any]:
    job = {
        "id": "a", "name": "morning", "schedule": {"kind": "cron", "expr": "30 8 * * *"},
        "payload": {"kind": "agentTurn", "message": "What is on today?"},
        "delivery": {"mode": "announce", "channel": "telegram", "to": "77"},
    }  # fmt: skip
    return {**job, **changes}


@pytest.mark.requirement("G-157", "G-159")
def test_rows_without_a_value_are_told_of(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    with closing(sqlite3.connect(home / "state" / "openclaw.sqlite")) as database:
        text = database.execute("select sql from sqlite_master where name = 'cron_jobs'").fetchone()[0]
        with database:
            database.execute("alter table cron_jobs rename to before")
            database.execute(text.replace("NOT NULL", ""))
            database.execute("insert into cron_jobs select * from before")
            database.execute("update cron_jobs set job_json = null where job_json like '%morning%'")
            database.execute("drop table channel_pairing_allow_entries")
            database.execute("create table channel_pairing_allow_entries (channel_key, account_id, entry, sort_order)")
            database.execute("insert into channel_pairing_allow_entries values ('discord', 'default', null, 0)")
    moved = _read("openclaw", home)
    assert "build" in {job.name for job in moved.jobs}
    assert "morning" not in {job.name for job in moved.jobs}
    assert _left(moved)["schedule"] == "it is no text in the database"


@pytest.mark.requirement("G-157", "G-159")
def test_keys_of_hermes_that_are_no_texts(tmp_path: Path) -> None:
    home = copy_of("hermes", tmp_path)
    with (home / "config.yaml").open("a") as config:
        config.write("1: 2\ntrue: 3\nplatforms:\n  1: {a: b}\nproviders:\n  5: {base_url: 6}\n")
    assert {one.type for one in _read("hermes", home).accounts} == {"telegram", "discord"}


@pytest.mark.requirement("G-159")
def test_a_workspace_with_a_nul_in_its_path_is_told_of(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    config = (home / "openclaw.json").read_text("utf-8")
    (home / "openclaw.json").write_text(config.replace("/.openclaw/workspace", "/.openclaw/a\\u0000b"), "utf-8")
    moved = _read("openclaw", home)
    assert any(what.startswith("workspace") for what in _left(moved))


@pytest.mark.requirement("G-157")
def test_two_jobs_with_one_id_and_jobs_without(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    _jobs_of_openclaw(
        home, _job(), _job(name="evening"), _job(id=5, name="five"), _job(id=None, name="none"), _job(id="x" * 100),
        _job(id="x" * 99 + "y"),
    )  # fmt: skip
    ids = [job.id for job in _read("openclaw", home).jobs]
    assert ids[:3] == ["a", "a#2", "5"]
    assert len({one[:80] for one in ids}) == 6
    assert ids == [job.id for job in _read("openclaw", home).jobs], "a second import knows them"


@pytest.mark.requirement("G-157")
def test_a_schedule_of_a_named_account_alone(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    _jobs_of_openclaw(home, _job(), _job(id="b", sessionTarget="main"), _job(id="c", delivery={
        "mode": "announce", "channel": "telegram", "to": "77", "accountId": "gone",
    }))  # fmt: skip
    change = {"accounts": {"work": {"botToken": TELEGRAM, "allowFrom": ["77"]}}}
    change_json(home / "openclaw.json", lambda config: config.update(channels={"telegram": change}))
    plan = plan_of("openclaw", home, tmp_path / "ours")
    found = rows_of(None, plan, read_catalogue(), NOW)
    assert [to for _, to in found.jobs] == ["telegram@work:77", "telegram@work:77"]
    assert [one.why for one in found.left] == ["no account here serves telegram@gone:77"]


@pytest.mark.requirement("G-157")
def test_people_and_groups_of_an_account_without_a_token_are_told_of(program: str, tmp_path: Path) -> None:
    home = copy_of(program, tmp_path)
    if program == "hermes":
        path = home / ".env"
        path.write_text("".join(line for line in path.read_text().splitlines(True) if "TELEGRAM_BOT" not in line))
    elif program == "openclaw":
        change_json(home / "openclaw.json", lambda config: config["channels"]["telegram"].pop("botToken"))
    else:
        change_json(home / "config.json", lambda config: config["channels"]["telegram"].update(token=""))
    moved = _read(program, home)
    assert [one.type for one in moved.accounts] == ["discord"]
    left = _left(moved)
    assert left["account telegram"] == "it has no token"
    told = [what for what, why in left.items() if why == "whom it answers stays with it"]
    assert "telegram:77" in str(told)
    assert program != "openclaw" or "telegram:-1005" in str(told)
    assert "telegram:77" not in moved.people


@pytest.mark.requirement("G-157")
def test_tokens_of_openclaw_in_its_variables(tmp_path: Path) -> None:
    home = copy_of("openclaw", tmp_path)
    (home / ".env").write_text(
        f'TELEGRAM_BOT_TOKEN="{TELEGRAM}" # mine\nSLACK_BOT_TOKEN=xoxb-1\nSLACK_APP_TOKEN=xapp-1\n'
    )

    def change(config: Any) -> None:
        config["channels"]["telegram"].pop("botToken")
        config["channels"]["discord"] = {"accounts": {"work": {}}}

    change_json(home / "openclaw.json", change)
    moved = _read("openclaw", home, TELEGRAM_BOT_TOKEN="of-another", DISCORD_BOT_TOKEN=DISCORD)
    assert {one.type: set(one.secrets) for one in moved.accounts} == {
        "slack": {"bot_token", "app_token"},
        "telegram": {"token"},
    }
    token = next(one.secrets["token"].value for one in moved.accounts if one.type == "telegram")
    assert token is not None
    assert token.get_secret_value() == TELEGRAM
    assert _left(moved)["account discord work"] == "it has no token"


@pytest.mark.requirement("G-157")
def test_keys_of_nanobot_in_their_other_form(tmp_path: Path) -> None:
    home = copy_of("nanobot", tmp_path)
    before = _read("nanobot", home)
    text = (home / "config.json").read_text("utf-8")
    for name in ("allowFrom", "allowChannels", "botName", "apiKey", "modelPreset", "timezoneMode"):
        written = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        text = text.replace(f'"{name}":', f'"{written}":')
    assert "allow_from" in text
    (home / "config.json").write_text(text, "utf-8")
    after = _read("nanobot", home)
    assert (after.people, after.groups, after.models) == (before.people, before.groups, before.models)
    assert after.persona == before.persona
    assert [job.zone for job in after.jobs] == [job.zone for job in before.jobs]


@pytest.mark.requirement("G-159")
def test_a_home_may_be_a_link(program: str, tmp_path: Path) -> None:
    (tmp_path / f".{program}").symlink_to(copy_of(program, tmp_path / "real"))
    (tmp_path / "data").mkdir()
    (tmp_path / "ours").symlink_to(tmp_path / "data")
    plan = plan_of(program, tmp_path / f".{program}", tmp_path / "ours", person="telegram:77")
    assert plan.notes
    assert plan.files


@pytest.mark.requirement("G-157")
def test_a_configuration_without_a_word_is_one(tmp_path: Path) -> None:
    for program, name in (("openclaw", "openclaw.json"), ("nanobot", "config.json")):
        home = copy_of(program, tmp_path)
        (home / name).write_text("{}")
        assert _read(program, home).notes, program


@pytest.mark.requirement("G-157")
@pytest.mark.parametrize(
    ("job", "to"),
    [
        pytest.param({"origin": {"platform": "telegram", "chat_id": "-1005", "thread_id": "17"}}, "telegram:-1005:17"),
        pytest.param({"origin": {"platform": "telegram", "chat_id": -1005, "thread_id": None}}, "telegram:-1005"),
        pytest.param(
            {"origin": {"platform": "discord", "chat_id": "5" * 18, "thread_id": "6" * 18}}, f"discord:{'6' * 18}"
        ),
        pytest.param({"origin": {"platform": "slack", "chat_id": "C0000001", "thread_id": "1.2"}}, "slack:C0000001"),
        pytest.param({"deliver": "telegram"}, "telegram:77:4"),
    ],
)
def test_threads_of_hermes(job: Mapping[str, Any], to: str, tmp_path: Path) -> None:
    home = copy_of("hermes", tmp_path)
    with (home / ".env").open("a") as variables:
        variables.write("TELEGRAM_HOME_CHANNEL_THREAD_ID=4\n")
    whole = {"id": "a", "name": "x", "prompt": "Look.", "schedule": {"kind": "interval", "minutes": 60}, **job}
    (home / "cron" / "jobs.json").write_text(json.dumps({"jobs": [{"deliver": "origin", **whole}]}))
    assert [one.to for one in _read("hermes", home).jobs] == [to]


def test_sections_of_models_differ_in_more_than_case() -> None:
    assert section_name("OpenAI", frozenset({"openai"})) == "OpenAI-2"
