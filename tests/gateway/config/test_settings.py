"""The configuration: what it may say, what it must not, and how mistakes are told."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.config.errors import ConfigError
from gateway.config.live import LOOK_EVERY_S, RELOADABLE, Live
from gateway.config.read import home_directory, load, read
from gateway.config.settings import Sections, Settings
from gateway.scheduler.process_scheduler import ProcessScheduler
from tests.fakes.clock import HastyClock
from tests.fakes.running import running
from tests.fakes.waiting import until

SHIPPED = Path(__file__).parents[3] / "config" / "gateway.toml"
TELEGRAM = {"type": "telegram", "token": "1:abc"}


def reading(data: dict[str, Any], tmp_path: Path, **environ: str) -> Settings:
    return read(data, environ, home=tmp_path, source=None)


def mistakes(data: dict[str, Any], tmp_path: Path, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        reading(data, tmp_path, **environ)
    return list(caught.value.mistakes)


@pytest.mark.requirement("G-68")
def test_a_right_of_the_dashboard_that_there_is_not_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        reading({"roles": [{"name": "support", "dashboard": ["view", "opreate"]}]}, tmp_path)
    (mistake,) = caught.value.mistakes
    assert mistake == "roles[0].dashboard[1]: 'opreate' is not one of 'view', 'operate', 'transcripts' or 'configure'"


def test_the_shipped_file_names_every_setting_with_its_default(tmp_path: Path) -> None:
    shipped = tomllib.loads(SHIPPED.read_text())
    defaults = reading({}, tmp_path)
    assert reading(shipped, tmp_path).turn == defaults.turn
    text = SHIPPED.read_text()
    for name in Sections.model_fields:
        section, default = shipped.get(name, {}), getattr(defaults, name)
        if name == "llm":
            continue
        if name in ("events", "hooks", "people", "places", "roles", "webhooks"):
            assert f"# [[{name}]]" in text
            continue
        names_every_key(name, section, default, text)


def numbers_in(section: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from numbers_in(value, (*place, key))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield *place, key


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_no_setting_takes_a_number_that_is_none(number: str, tmp_path: Path) -> None:
    places = list(numbers_in(tomllib.loads(SHIPPED.read_text())))
    assert len(places) > 80
    for place in places:
        data: Any = float(number)
        for key in reversed(place):
            data = {key: data}
        told = mistakes(data, tmp_path)
        assert any(line.startswith(".".join(place) + ": must be a") for line in told), told


@pytest.mark.parametrize("path", ["config/gateway.toml", "docs/configuration.md"])
def test_what_counts_at_once_is_told_as_it_is(path: str) -> None:
    text = (SHIPPED.parents[1] / path).read_text()
    (told,) = re.findall(r"change of (.*?)\s+counts from the next", text.replace("\n# ", " "), re.DOTALL)
    assert sorted(re.findall(r"\w+", told.replace(" or ", " "))) == sorted(RELOADABLE)


def names_every_key(name: str, section: dict[str, Any], default: Any, text: str) -> None:
    """The section, and those inside of it, holds each key with its default; what has none stands as a comment."""
    assert is_dataclass(default)
    for field in fields(default):
        value, key = getattr(default, field.name), f"{name}.{field.name}"
        if key in ("spending.limits", "mcp.servers"):
            assert f"# [[{key}]]" in text
        elif is_dataclass(value):
            names_every_key(key, section.get(field.name, {}), value, text)
        elif field.name in section:
            written = section[field.name]
            assert (tuple(written) if isinstance(written, list) else written) == value, key
        else:
            assert value is None, f"{key} is missing in config/gateway.toml"
            assert f"# {field.name} = " in text, key


def test_every_key_in_a_commented_example_exists(tmp_path: Path) -> None:
    example = re.sub(r"^# (?=\[\[|\w+ = )", "", SHIPPED.read_text(), flags=re.MULTILINE)
    environ = {name: f"{index}1:abcdef" for index, name in enumerate(re.findall(r"env:(\w+)", example))}
    environ |= {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "TELEGRAM_SECRET": "s3cret"}
    environ |= {"ALERT_WEBHOOK": "https://example.org/hook", "ALERT_SECRET": "a secret of sixteen"}
    environ |= {"EVENT_SECRET": "a secret of sixteen"}
    environ |= {"GITHUB_SECRET": "a secret of sixteen", "GITHUB_FORMER": "a former secret of more"}
    example = example.replace('mode = "polling" ', 'mode = "webhook" ')
    settings = reading(tomllib.loads(example), tmp_path, **environ)
    assert [channel.type for channel in settings.channels] == ["telegram", "discord", "slack", "web", "console", "api"]


@pytest.mark.requirement("G-29")
def test_all_mistakes_come_at_once_with_the_nearest_key(tmp_path: Path) -> None:
    found = mistakes(
        {
            "wbe": {},
            "web": {"prot": 1},
            "access": {"dm": "opne", "allow": ["77"]},
            "channels": [TELEGRAM | {"tokn": "x"}, {"type": "telegrm"}, {"type": "discord"}],
            "llm": {"providers": [{"name": "a", "type": "openai"}]},
        },
        tmp_path,
    )
    text = "\n".join(found)
    for wanted in (
        "wbe: unknown key; did you mean web?",
        "web.prot: unknown key; did you mean port?",
        "access.dm: 'opne' is not one of 'pairing', 'allowlist', 'open' or 'closed'",
        "channels[0].tokn: unknown key; did you mean token?",
        "channels[1].type: 'telegrm' is no platform",
        "channels[2].token: missing",
        "model is missing",
    ):
        assert wanted in text
    assert all("\n" not in line for line in found)


@pytest.mark.requirement("G-29")
def test_a_mistake_in_one_section_hides_none_of_another(tmp_path: Path) -> None:
    found = mistakes(
        {
            "queue": {"mode": "quque"},
            "web": {"port": 99999},
            "scheduler": {"zone": "Mars/Phobos"},
            "access": {"allow_groups": ["-1005"]},
            "llm": {"failover": ["other"]},
        },
        tmp_path,
    )
    for key in ("queue.mode", "web.port", "scheduler", "access.allow_groups", "llm.failover"):
        assert any(line.startswith(key) for line in found), key
    assert len(found) == 5


def test_what_names_a_provider_waits_until_the_providers_can_be_read(tmp_path: Path) -> None:
    found = mistakes({"llm": {"providers": 1}, "memory": {"summary_provider": "mine"}}, tmp_path)
    assert [line.partition(":")[0] for line in found] == ["llm.providers"]


def test_people_on_telegram_may_be_chats_too(tmp_path: Path) -> None:
    assert reading({"access": {"block": ["telegram:-1005", "slack:U0ANN"]}}, tmp_path).access.block


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        pytest.param({"queue": {"max_depth": 0}}, "queue.max_depth: 0 must be 1 or more", id="a depth of nothing"),
        pytest.param({"web": {"host": "0.0.0.0"}}, "allow_remote = true", id="open to the network by accident"),
        pytest.param({"database": {"url": "mysql://x"}}, "database.url: 'mysql' scheme", id="another database"),
        pytest.param({"agent": {"max_tool_iterations": 101}}, "it must be 1 to 100", id="beyond the hard maximum"),
        pytest.param(
            {"access": {"admins": "x"}},
            'access.admins: must be a list, such as ["one", "two"], not \'x\'',
            id="no list",
        ),
        pytest.param({"web": {"port": "x"}}, "web.port: must be a whole number, not 'x'", id="no number"),
        pytest.param(
            {"web": {"allow_remote": "x"}}, "web.allow_remote: must be true or false, not 'x'", id="no yes or no"
        ),
        pytest.param(
            {"access": {"allow_groups": ["-1005"]}}, 'write it as "telegram:-1005"', id="a group without a platform"
        ),
        *(
            pytest.param(
                {"access": {key: ["telegram:@ann"]}}, "on Telegram is a number", id=f"a username in access.{key}"
            )
            for key in ("allow", "admins", "block")
        ),
        pytest.param({"foo": {}}, "foo: unknown key; known here: ", id="like nothing that there is"),
        pytest.param({"budget": {"max_cost_usd": float("inf")}}, "finite", id="an infinite budget"),
        pytest.param({"channels": [TELEGRAM, TELEGRAM]}, 'two accounts are called "telegram"', id="twice the same"),
        pytest.param(
            {"llm": {"providers": [{"name": "a", "type": "demo"}, {"name": "A", "type": "demo"}]}},
            'two are called "a"',
            id="two providers of one name",
        ),
        pytest.param(
            {"llm": {"providers": [{"name": n, "type": "demo", "default": True} for n in "ab"]}},
            "both marked default",
            id="two defaults",
        ),
        *(
            pytest.param({section: {key: value}}, f"{section}.{key}: {value} must be", id=f"{key} for ever")
            for section, key, value in (
                ("retention", "inbox_days", 999_999),
                ("retention", "outbox_days", 999_999),
                ("retention", "audit_days", 999_999),
                ("retention", "conversation_days", 999_999),
                ("retention", "conversation_days", -1),
                ("retention", "attachment_days", 10**9),
                ("retention", "workspace_days", 10**9),
                ("retention", "output_days", 10**9),
                ("scheduler", "ledger_days", 999_999),
                ("scheduler", "late_after_s", 1e15),
                ("scheduler", "spread_s", 1e15),
                ("scheduler", "min_period_s", 10**15),
                ("scheduler", "group_period_s", 10**15),
                ("network", "catch_up_max_age", 1e15),
                ("queue", "merge_ms", 10**18),
            )
        ),
        pytest.param({"memory": {"recall": {"miss_days": 10**9}}}, "miss_days is", id="misses for ever"),
        pytest.param({"lock": {"lock_timeout_ms": 10**18}}, "lock: no time can be longer", id="a lease for ever"),
        pytest.param({"lock": {"lock_timeout_ms": 1000}}, "lock.lock_timeout_ms", id="a lease shorter than its beat"),
        pytest.param({"approvals": {"ttl_secs": 1}}, "ttl_secs is 1; it must be 10 to 86400", id="no time to answer"),
        pytest.param({"approvals": {"approvers": ["ann"]}}, "'ann' is no person", id="an approver without a platform"),
        pytest.param({"approvals": {"requester": False}}, "nobody could approve anything", id="nobody left to ask"),
        pytest.param(
            {"hooks": [{"name": "a", "on": "pre_tool", "command": "x"}]}, "'pre_tool' is not one of", id="no such point"
        ),
        pytest.param({"hooks": [{"name": "a", "on": "stop", "command": " "}]}, "command is empty", id="an empty hook"),
        pytest.param({"memory": {"soft_compaction_threshold": 0.95}}, "must rise between", id="soft above hard"),
        pytest.param(
            {"memory": {"soft_compaction_threshold": 0.7, "high_compaction_threshold": 0.7}},
            "must rise between",
            id="soft as high",
        ),
    ],
)
@pytest.mark.requirement("G-29")
def test_what_cannot_work_is_refused(data: dict[str, Any], wanted: str, tmp_path: Path) -> None:
    assert any(wanted in line for line in mistakes(data, tmp_path))


def test_a_variable_that_is_not_set_is_told_once(tmp_path: Path) -> None:
    provider = {"name": "a", "type": "openai", "model": "m", "api_key": "env:NOPE_K"}
    found = mistakes({"channels": [TELEGRAM | {"token": "env:NOPE_T"}], "llm": {"providers": [provider]}}, tmp_path)
    assert sorted(line.partition(";")[0] for line in found) == [
        "channels[0].token: the environment variable NOPE_T is not set",
        "llm.providers[0].api_key: the environment variable NOPE_K is not set",
    ]


def test_secrets_come_from_elsewhere_and_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-from-a-file\n")
    (tmp_path / "key").chmod(0o600)
    data = {
        "llm": {"providers": [{"name": "a", "type": "openai", "model": "m", "api_key": "file:key"}]},
        "channels": [TELEGRAM | {"token": "env:TOKEN"}],
    }
    settings = reading(data, tmp_path, TOKEN="123456:from-the-environment")
    assert settings.llm.providers[0].api_key.get_secret_value() == "sk-from-a-file"
    assert {"sk-from-a-file", "123456:from-the-environment"} <= settings.secrets
    assert "sk-from-a-file" not in repr(settings)
    assert "from-the-environment" not in repr(settings)
    found = mistakes({"channels": [TELEGRAM | {"token": "env:NOT_SET"}], "web": {"public_url": "file:none"}}, tmp_path)
    assert any("channels[0].token: the environment variable NOT_SET is not set" in line for line in found)
    assert any("web.public_url: cannot read" in line for line in found)


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    settings = reading(
        {"web": {"port": 1, "max_upload_mb": 3}},
        tmp_path,
        TIELINE__WEB__PORT="9999",
        TIELINE__ACCESS__ALLOW='["telegram:1"]',
        TIELINE__DATABASE__URL="postgresql://x/y",
        TIELINE_HOME="elsewhere",
    )
    assert (settings.web.port, settings.web.max_upload_mb) == (9999, 3)
    assert settings.access.allow == ("telegram:1",)
    assert settings.database.url == "postgresql://x/y"
    assert "web.prot" in mistakes({}, tmp_path, TIELINE__WEB__PROT="1")[0]
    assert "wbe" in mistakes({}, tmp_path, TIELINE__WBE__PORT="1")[0]


@pytest.mark.requirement("W-66")
def test_one_home_is_the_base_of_everything(tmp_path: Path) -> None:
    assert home_directory({"TIELINE_HOME": str(tmp_path)}) == tmp_path
    assert home_directory({}) == Path("~/.tieline").expanduser()
    assert load(environ={"TIELINE_HOME": str(tmp_path)}).home == tmp_path
    assert Live(load(environ={"TIELINE_HOME": str(tmp_path)})).agent_folders()[0] == tmp_path / "agents"


@pytest.mark.requirement("B-80", "B-81", "B-83", "B-84", "B-85", "B-86", "B-87", "W-65", "Z-68")
def test_the_numbers_of_the_specification_are_the_defaults(tmp_path: Path) -> None:
    settings = reading({}, tmp_path)
    assert settings.agent.max_tool_iterations == 10
    assert settings.agent.execution_timeout_ms == 600_000
    assert settings.agent.max_turns is None
    assert (settings.approvals.auto_approve, settings.context.compaction) == (False, "safe")
    assert (settings.lock.queue_timeout_ms, settings.lock.lock_timeout_ms) == (30_000, 900_000)
    assert settings.queue.max_depth == 10
    assert (settings.retry.max_retries, settings.retry.backoff_ms) == (3, 1000)
    assert settings.session.provider_persistence
    assert reading({"agent": {"max_turns": 7}}, tmp_path).turn.agent.max_turns == 7
    bold = reading({"approvals": {"auto_approve": True}, "context": {"compaction": "full"}}, tmp_path).turn
    assert (bold.approvals.auto_approve, bold.context.compaction) == (True, "full")


@pytest.mark.requirement("B-82")
def test_an_ordinary_tool_has_thirty_seconds(tmp_path: Path) -> None:
    timeouts = reading({}, tmp_path).timeouts
    assert (timeouts.tool_info, timeouts.tool_edit) == (30.0, 30.0)


def test_a_changed_file_finds_its_secrets_in_the_data_directory_that_an_option_named(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("[agent]\nmax_turns = 3\n")
    live = Live(load(environ={"TIELINE_HOME": str(tmp_path)}), {"HOME": "/nowhere"})  # `tieline run --home`
    (tmp_path / "secrets").mkdir(mode=0o700)
    secret = tmp_path / "secrets" / "crm"
    secret.write_text("a-secret-of-some-length")
    secret.chmod(0o600)
    section = '[[events]]\nname = "crm"\nurl = "https://example.org/hook"\nsecret = "file:secrets/crm"\n'
    file.write_text(file.read_text() + section)
    live.reload()
    (one,) = live.settings.events
    assert one.secret.get_secret_value() == "a-secret-of-some-length"


@pytest.mark.requirement("Z-21")
def test_a_changed_file_counts_and_a_broken_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('[queue]\nmode = "queue"')
    environ = {"TIELINE_HOME": str(tmp_path)}
    live = Live(load(file, environ), environ)
    heard: list[str] = []
    live.listen(lambda settings: heard.append(settings.queue.mode))
    file.write_text('[queue]\nmode = "dorp"')
    live.reload()
    assert live.settings.queue.mode == "queue"
    file.write_text('[queue]\nmode = "drop"\n[web]\nport = 1234')
    assert live.reload() == ("web",)
    assert (live.settings.queue.mode, live.settings.web.port, heard) == ("drop", 8080, ["drop"])


@pytest.mark.requirement("Z-21")
async def test_a_change_between_the_load_and_the_watch_counts(tmp_path: Path) -> None:
    """The gateway is built in between, which takes seconds."""
    file = tmp_path / "gateway.toml"
    file.write_text('[queue]\nmode = "queue"')
    environ = {"TIELINE_HOME": str(tmp_path)}
    live = Live(load(file, environ), environ)
    file.write_text('[queue]\nmode = "drop"')
    clock = HastyClock(1000)
    look = partial(live.look, clock)
    async with running(lambda: ProcessScheduler(clock).repeat("configuration", look, every_s=LOOK_EVERY_S)):
        await until(lambda: live.settings.queue.mode == "drop")


@pytest.mark.parametrize(
    ("data", "mistake"),
    [
        ({"spending": {"limits": [{"scope": "person"}]}}, "usd and tokens are both missing"),
        ({"spending": {"limits": [{"scope": "planet", "usd": 1}]}}, "spending.limits[0].scope"),
        ({"spending": {"limits": [{"scope": "person", "usd": 1, "per": "week"}]}}, "spending.limits[0].per"),
        ({"spending": {"limits": [{"scope": "planet", "usd": -1}]}}, "spending.limits[0].usd: -1.0 is no amount"),
        ({"spending": {"limits": [{"scope": "planet", "tokens": -1}]}}, "spending.limits[0].tokens: -1 is no amount"),
        ({"spending": {"warn_at": 2}}, "warn_at is 2"),
        (
            {"budget": {"max_daily_cost_usd": 1}, "spending": {"limits": [{"scope": "channel", "usd": 1}]}},
            "budget.max_daily_cost_usd: [[spending.limits]] has one for each chat and day",
        ),
        (
            {"speech": {"provider": "mouth"}, "llm": {"providers": [{"name": "a", "type": "demo"}]}},
            "speech.provider: there is no provider 'mouth'; known: a",
        ),
        (
            {"images": {"provider": "A"}, "llm": {"providers": [{"name": "a", "type": "demo"}]}},
            "images.provider: a is of type 'demo'; name one of type \"openai\"",
        ),
        ({"speech": {"format": "ogg"}}, "speech.format"),
        (
            {"transcription": {"provider": "ear"}, "llm": {"providers": [{"name": "a", "type": "demo"}]}},
            "transcription.provider: there is no provider 'ear'; known: a",
        ),
        (
            {"transcription": {"provider": "A"}, "llm": {"providers": [{"name": "a", "type": "demo"}]}},
            "transcription.provider: a is of type 'demo'",
        ),
    ],
)
def test_what_cannot_be_spent_or_heard_is_told(data: dict[str, Any], mistake: str, tmp_path: Path) -> None:
    found = mistakes(data, tmp_path)
    assert any(mistake in one for one in found), found


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"memory": {"summary_provider": "zz"}}, "memory.summary_provider"),
        ({"memory": {"graph": {"provider": "zz"}}}, "memory.graph.provider"),
        ({"memory": {"sidequest": {"provider": "zz"}}}, "memory.sidequest.provider"),
        ({"memory": {"semantic": {"engine": "provider", "provider": "zz", "model": "m"}}}, "memory.semantic.provider"),
        ({"tools": {"taco": {"provider": "zz"}}}, "tools.taco.provider"),
        ({"plans": {"provider": "zz"}}, "plans.provider"),
        ({"channels": [TELEGRAM | {"provider": "zz"}]}, "channels (telegram): provider"),
        ({"spending": {"limits": [{"scope": "provider", "name": "zz", "usd": 1}]}}, "spending.limits[0].name"),
        ({"llm": {"failover": ["zz"]}}, "llm.failover"),
        ({"llm": {"aliases": {"z": "zz/small"}}}, "llm.aliases.z"),
    ],
)
def test_a_provider_that_is_named_and_not_there_is_told(data: dict[str, Any], key: str, tmp_path: Path) -> None:
    providers = [{"name": "Main", "type": "demo"}]
    with_providers = data | {"llm": {**data.get("llm", {}), "providers": providers}}
    assert mistakes(with_providers, tmp_path) == [f"{key}: there is no provider 'zz'; known: Main"]
    assert mistakes(data, tmp_path) == [f"{key}: there is no provider 'zz'; known: anthropic, openai, demo"]


def test_a_language_without_sentences_is_told(tmp_path: Path) -> None:
    assert mistakes({"delivery": {"language": "xx"}}, tmp_path) == [
        "delivery.language: there are no sentences in 'xx'; use one of de, en"
    ]
    assert reading({"delivery": {"language": "de-AT"}}, tmp_path)


def test_names_of_providers_that_are_there_pass(tmp_path: Path) -> None:
    limits = [{"scope": "provider", "name": "MAIN", "usd": 1}, {"scope": "person", "name": "telegram:77", "usd": 1}]
    named = {"memory": {"summary_provider": "main"}, "spending": {"limits": limits}}
    assert reading(named | {"llm": {"providers": [{"name": "Main", "type": "demo"}]}}, tmp_path)
    assert reading({"plans": {"provider": "openai"}}, tmp_path), "whichever key is set today"


def test_a_reload_with_a_provider_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('[memory]\nsummary_provider = "demo"')
    environ = {"TIELINE_HOME": str(tmp_path)}
    live = Live(load(file, environ), environ)
    file.write_text('[memory]\nsummary_provider = "dmeo"\n[queue]\nmode = "drop"')
    live.reload()
    assert (live.settings.memory.summary_provider, live.settings.queue.mode) == ("demo", "queue")


def test_the_daily_cap_is_a_limit_among_the_others(tmp_path: Path) -> None:
    spending = {"limits": [{"scope": "gateway", "usd": 9.0, "per": "month"}]}
    settings = reading({"budget": {"max_daily_cost_usd": 1.5}, "spending": spending}, tmp_path)
    assert [(one.scope, one.per, one.usd) for one in settings.limits.limits] == [
        ("gateway", "month", 9.0),
        ("channel", "day", 1.5),
    ]


@pytest.mark.requirement("Z-122")
def test_a_supervisor_that_does_not_exist_is_found_at_the_start(tmp_path: Path) -> None:
    providers = [{"name": "main", "type": "demo"}]
    found = mistakes({"agent": {"goal": {"supervisor_provider": "cheap"}}, "llm": {"providers": providers}}, tmp_path)
    assert found == ["agent.goal.supervisor_provider: there is no provider 'cheap'; known: main"]
    found = mistakes({"agent": {"goal": {"verify_interval": 0, "autonomous_max_turns": 0}}}, tmp_path)
    assert len(found) == 1
    assert "verify_interval is 0" in found[0]
    assert "autonomous_max_turns is 0" in found[0]


def test_the_pages_name_settings_that_exist() -> None:
    """Each `[section] key` of the documentation stands in the shipped configuration, which holds every key."""
    keys: dict[str, set[str]] = {}
    section = ""
    for line in SHIPPED.read_text().splitlines():
        if head := re.match(r"#? ?\[\[?([\w.]+)\]", line):
            section = head[1]
            keys.setdefault(section, set())
        elif (key := re.match(r"(?:# )?(\w+) = ", line)) and section:
            keys[section].add(key[1])
    root = SHIPPED.parents[1]
    for page in (root / "README.md", *(root / "docs").glob("*.md")):
        for named, key in re.findall(r"`\[\[?([a-z_.]+)\]\]?(?: ([a-z_0-9]+))?", page.read_text()):
            if named == "redacted":  # what stands in place of a secret
                continue
            within = [of for name, of in keys.items() if name == named or name.startswith(f"{named}.")]
            assert within, f"{page.name}: no section [{named}]"
            assert not key or any(key in of for of in within), f"{page.name}: no key {key} in [{named}]"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", True),
        ('webhook_url = "https://bot.example.org/hook"', False),
        ('[web]\npublic_url = "https://bot.example.org"', False),
        ('api_base_url = "http://127.0.0.1:8081"', False),  # a Bot API server of one's own may call back locally
    ],
    ids=["no address", "its own", "that of the web server", "a local Bot API server"],
)
def test_a_webhook_without_an_address_is_a_mistake(tmp_path: Path, more: str, told: bool) -> None:
    text = f'[[channels]]\ntype = "telegram"\ntoken = "1:abcdef"\nmode = "webhook"\n{more}\n'
    data = tomllib.loads(text)
    if told:
        (mistake,) = mistakes(data, tmp_path)
        assert "webhook" in mistake
        assert "public_url" in mistake
    else:
        assert reading(data, tmp_path).channels[0].channel_type == "telegram"
