"""The home of OpenClaw (2026.9, and older files): openclaw.json, the state database, the main agent's workspace."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from agent.core.files.safe import Entry
from gateway.importers import names
from gateway.importers.found import (
    HISTORY,
    AccountAccess,
    Jobs,
    Models,
    Secrets,
    account,
    common,
    groups,
    leave_access,
    moment_of_ms,
    moment_of_text,
    notes,
    people,
    policy,
    table,
    tables,
    text,
    texts,
    whole_number,
)
from gateway.importers.home import Home
from gateway.importers.moved import Account, FoundSkill, ImportRefused, Model, Moved, Note, Persona, shown
from gateway.importers.notes import is_shipped, joined, notes_in
from gateway.importers.workspace import own_rules, workspace_of

FOLDER = ".openclaw"
KNOWN_VERSION = (2026, 9)
KNOWN_SCHEMA = 18  # of the state database
# AGENTS.md as OpenClaw 2026.3.28 wrote it, which does not keep the digests of what it writes.
SHIPPED = frozenset({"3ecae6a107899f284728bf1aa406c75d141773f9f380ba39ba378b5e9fa28f4c"})
SECRETS = {
    "telegram": {"token": "botToken"},
    "discord": {"token": "token"},
    "slack": {"bot_token": "botToken", "app_token": "appToken", "signing_secret": "signingSecret"},
}
VARIABLES = {  # that OpenClaw reads for its default account
    "telegram": {"token": "TELEGRAM_BOT_TOKEN"},
    "discord": {"token": "DISCORD_BOT_TOKEN"},
    "slack": {
        "bot_token": "SLACK_BOT_TOKEN", "app_token": "SLACK_APP_TOKEN", "signing_secret": "SLACK_SIGNING_SECRET"
    },
}  # fmt: skip
MOST_DAYS = 366  # daily notes that move, the newest
_EXAMPLE = (  # of USER.md as OpenClaw writes it
    "Replace the example below with a real directive and a real observation date before you save this file. "
    "Never leave a placeholder directive `active`."
)
_DIRECTIVES = re.compile(r"^## Directives[ \t]*$", re.IGNORECASE | re.MULTILINE)
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})\b.*\.md")
_FIELD = re.compile(r"[-*]\s*+\**+(Name|Creature|Vibe|Theme|Emoji)\**+:\**+(.*)", re.IGNORECASE)
_NARROW = "only people of a list may write there, and here everybody in a group may; let it in if that is meant"
_QUERIES = {
    "schema": "select schema_version from schema_meta where meta_key = 'primary'",
    "auth": "select value_json from config_machine_state where state_key = 'authProfiles.store'",
    "jobs": "select enabled, job_json from cron_jobs order by sort_order, job_id",
    "people": "select channel_key, account_id, entry from channel_pairing_allow_entries order by sort_order, entry",
    "hashes": "select filename, sha256 from workspace_generated_bootstrap_hashes",
}
State = Mapping[str, Sequence[tuple[Any, ...]]]


def read(home: Home, environ: Mapping[str, str], now: datetime) -> Moved:
    """Everything of the home that moves. Raises ImportRefused where there is no home of OpenClaw."""
    config = home.json5("openclaw.json")
    if home.left or not home.has("openclaw.json"):
        raise ImportRefused(_why_none(home))
    if "$include" in config:
        why = "it is put together of several files ($include); write it as one (`openclaw config get` shows it whole)"
        raise ImportRefused(f"{home.root}/openclaw.json: {why}; nothing is moved")
    home.leave("conversations", HISTORY)
    version = text(table(config.get("meta")).get("lastTouchedVersion"))
    if _number(version) > KNOWN_VERSION:
        known = ".".join(map(str, KNOWN_VERSION))
        why = f"it is of OpenClaw {shown(version)}; {known} is known, and what is new in it stays"
        home.leave("openclaw.json", why)
    agents = table(config.get("agents"))
    defaults, agent_id, agent = table(agents.get("defaults")), *_main_agent(home, agents)
    state = _state(home)
    variables = {**home.variables(".env"), **_inline_variables(config)}
    secrets = Secrets(home, variables, environ)
    written = text(agent.get("workspace")) or text(defaults.get("workspace")) or f"~/{FOLDER}/workspace"
    workspace = workspace_of(home, written, FOLDER)
    accounts, accesses = _accounts(home, config, state, secrets)
    allowed, places = common(home, accesses)
    return Moved(
        program="openclaw",
        version=version,
        persona=_persona(home, workspace, agent, state),
        notes=_notes(home, workspace, state),
        skills=_skills(home, workspace),
        jobs=_jobs(home, state, text(defaults.get("userTimezone")), now),
        accounts=accounts,
        owner=_owner(config, allowed),
        people=allowed,
        groups=places,
        dm=policy(home, accesses) if accesses else "",
        models=_models(home, config, agent, agent_id, state, secrets),
        left=home.left,
    )


def _why_none(home: Home) -> str:
    if home.left:
        return f"{home.root}: {home.left[0].what}: {home.left[0].why}; nothing is moved"
    return f"{home.root} is no home of OpenClaw: there is no openclaw.json; name its folder, such as ~/{FOLDER}"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal() and len(part) < 9)


def _main_agent(home: Home, agents: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The agent that answers where nothing else is said; the others are noted."""
    entries = {name: table(one) for name, one in table(agents.get("entries")).items()}
    entries |= {text(one.get("id")): one for one in tables(agents.get("list"))}
    chosen = next((name for name, one in entries.items() if one.get("default") is True), "")
    chosen = chosen or ("main" if "main" in entries else next(iter(entries), "main"))
    for name in entries:
        if name != chosen:
            home.leave(f"agent {shown(name)}", "only the main agent moves; write the others as agents/NAME/AGENT.md")
    return chosen, entries.get(chosen, {})


def _inline_variables(config: Mapping[str, Any]) -> Mapping[str, str]:
    env = table(config.get("env"))
    return {name: one for name, one in {**table(env.get("vars")), **env}.items() if isinstance(one, str)}


def _owner(config: Mapping[str, Any], allowed: Sequence[str]) -> str:
    """The person who may give the owner's commands, where that is one."""
    named = texts(table(config.get("commands")).get("ownerAllowFrom"))
    found = [person for person in allowed if person in named or person.partition(":")[2] in named]
    return found[0] if len(found) == 1 else ""


def _state(home: Home) -> State:
    """The rows of the state database; of older versions, which have none, nothing."""
    found = home.rows(("state", "openclaw.sqlite"), _QUERIES)
    if found is None:
        return {}
    schema = whole_number(found["schema"][0][0]) if found["schema"] else None
    if schema is None or schema > KNOWN_SCHEMA:
        why = f"it has the form {shown(schema)}; {KNOWN_SCHEMA} is known, so its schedules, keys and people stay"
        home.leave("state/openclaw.sqlite", why)
        return {}
    return found


def _persona(home: Home, workspace: tuple[str, ...] | None, agent: Mapping[str, Any], state: State) -> Persona | None:
    if workspace is None:
        return None
    written = {name: home.text(*workspace, name) for name in ("SOUL.md", "IDENTITY.md", "AGENTS.md")}
    lines = (_FIELD.fullmatch(line.strip()) for line in written["IDENTITY.md"].splitlines())
    fields = {found[1].lower(): found[2].strip() for found in lines if found is not None}
    fields = {label: value for label, value in fields.items() if value and not value.startswith(("_", "("))}
    name = text(table(agent.get("identity")).get("name")) or fields.get("name", "")
    digests = SHIPPED.union(row[1] for row in state.get("hashes", ()) if row[0] == "AGENTS.md")
    written["AGENTS.md"] = own_rules(home, written["AGENTS.md"], digests, "OpenClaw")
    about = "\n".join(f"- {label.capitalize()}: {value}" for label, value in fields.items())
    words = joined([("", written["SOUL.md"]), ("Identity", about), ("Further rules", written["AGENTS.md"])])
    sources = tuple(one for one, found in {**written, "IDENTITY.md": about}.items() if found.strip())
    if home.has(*workspace, "TOOLS.md") or home.has(*workspace, "BOOTSTRAP.md"):
        home.leave("TOOLS.md, BOOTSTRAP.md", "they are about OpenClaw's own tools and first start")
    return Persona(name=name or "OpenClaw", text=words, sources=sources) if words else None


def _notes(home: Home, workspace: tuple[str, ...] | None, state: State) -> Sequence[Note]:
    if workspace is None:
        return ()
    found: list[Note] = []
    shipped = {row[0]: row[1] for row in state.get("hashes", ())}
    for file in ("USER.md", "MEMORY.md"):
        words = home.text(*workspace, file)
        if not is_shipped(words, [shipped[file]] if file in shipped else []):
            found += notes(home, _directives(home, words) if file == "USER.md" else words, file)
    days: list[Entry] = []
    for entry in home.files(*workspace, "memory"):
        if _DAY.fullmatch(entry.names[-1]):
            days.append(entry)
        else:
            home.leave("/".join(entry.names), "only the notes of a day move from there; put it into MEMORY.md")
    if len(days) > MOST_DAYS:
        home.leave(f"{len(days) - MOST_DAYS} daily notes", f"the newest {MOST_DAYS} move")
    for entry in days[-MOST_DAYS:]:
        day = _DAY.fullmatch(entry.names[-1])
        assert day is not None
        found += notes(home, home.text(*entry.names), shown("/".join(entry.names[-2:])), when=day[1])
    if notes_in(home.text(*workspace, "HEARTBEAT.md"), "HEARTBEAT.md"):
        home.leave("HEARTBEAT.md", "set its tasks with /heartbeat in the chat that is to hear of them")
    return found


def _directives(home: Home, words: str) -> str:
    """The directives of USER.md alone: what stands before them tells OpenClaw how to write them, which is noted."""
    before, *rest = _DIRECTIVES.split(words, maxsplit=1)
    if not rest:
        return words
    if about := notes_in(before, "USER.md"):
        home.leave("USER.md", f"what stands before its directives is about how to write them: “{about[0].text[:40]}”")
    return f"\n## Directives\n{rest[0]}".replace(_EXAMPLE, "")


def _skills(home: Home, workspace: tuple[str, ...] | None) -> Sequence[FoundSkill]:
    found = home.skills(*workspace, "skills") if workspace is not None else []
    there = {skill.name for skill in found}
    for skill in home.skills("skills"):
        if skill.name in there:
            home.leave(f"skill {shown(skill.source)}", "the workspace has another of that name, which counts")
        else:
            found.append(skill)
    return found


def _accounts(
    home: Home, config: Mapping[str, Any], state: State, secrets: Secrets
) -> tuple[Sequence[Account], Sequence[AccountAccess]]:
    accounts: list[Account] = []
    accesses: list[AccountAccess] = []
    sections = table(config.get("channels"))
    usual = text(table(sections.get("defaults")).get("groupPolicy"))
    by_variable: dict[str, Mapping[str, Any]] = {
        name: {} for name, names in VARIABLES.items() if secrets.variables.get(next(iter(names.values())))
    }
    for platform, settings in {**by_variable, **sections}.items():
        section = table(settings)
        if platform == "defaults" or not (section or platform in by_variable):
            continue
        if platform not in SECRETS:
            home.leave(f"account {shown(platform)}", "there is no such platform here")
            continue
        several: dict[str, Mapping[str, Any]] = {
            name: {**section, **table(one)} for name, one in table(section.get("accounts")).items()
        }
        for name, one in (several or {"default": section}).items():
            what = f"account {platform}" if name == "default" else f"account {platform} {shown(name)}"
            access = _access(home, platform, name, {"groupPolicy": usual or None, **one}, state)
            if one.get("enabled") is False or section.get("enabled") is False:
                home.leave(what, "it was switched off")
                leave_access(home, what, access)
                continue
            if one.get("tokenFile"):
                home.leave(what, "its token is in a file of its own; put it into secrets/ yourself")
                leave_access(home, what, access)
                continue
            held = {ours: secrets.of(one.get(theirs), what) for ours, theirs in SECRETS[platform].items()}
            if name == "default":
                variables = VARIABLES[platform].items()
                by_name = {ours: secrets.of(secrets.variables.get(variable), what) for ours, variable in variables}
                held = {ours: found or by_name.get(ours) for ours, found in held.items()}
            if (found := account(platform, name, held, next(iter(SECRETS[platform])))) is None:
                home.leave(what, "it has no token")
                leave_access(home, what, access)
                continue
            accounts.append(found)
            accesses.append(access)
    return accounts, accesses


def _access(home: Home, platform: str, name: str, settings: Mapping[str, Any], state: State) -> AccountAccess:
    """The people and groups that an account answers."""
    direct = table(settings.get("dm"))
    policy = text(settings.get("dmPolicy")) or text(direct.get("policy")) or "pairing"
    if direct.get("enabled") is False:
        policy = "disabled"
    listed = texts(settings.get("allowFrom")) or texts(direct.get("allowFrom"))
    paired = [*texts([row[2] for row in state.get("people", ()) if row[:2] == (platform, name)])]
    paired += _older_people(home, platform, name)
    access = AccountAccess(platform=platform, account=name, policy=policy)
    if policy == "allowlist" and (rest := [one for one in paired if one not in listed]):
        home.leave(f"{access.name}: {', '.join(map(shown, rest))} was paired", "its list of people alone counts there")
    if policy == "disabled" and listed:
        home.leave(f"{access.name}: people of its list", "direct messages are disabled there")
    found = {"allowlist": listed, "disabled": []}.get(policy, [*listed, *paired])
    places = _groups_of(home, access.name, platform, settings)
    return replace(
        access,
        people=people(home, platform, found),
        groups=groups(home, platform, places),
        people_open="*" in found,
        groups_open="*" in places,
    )


def _older_people(home: Home, platform: str, account_name: str) -> Sequence[str]:
    """People who were paired, in the files of older versions."""
    found = texts(home.json("credentials", f"{platform}-{account_name}-allowFrom.json").get("allowFrom"))
    if account_name == "default":
        found = [*found, *texts(home.json("credentials", f"{platform}-allowFrom.json").get("allowFrom"))]
    return found


def _groups_of(home: Home, what: str, platform: str, settings: Mapping[str, Any]) -> Sequence[str]:
    """The groups in which everybody may write, as here; "*" for all. What is narrower is noted."""
    policy = text(settings.get("groupPolicy")) or "allowlist"
    key = {"discord": "guilds", "slack": "channels"}.get(platform, "groups")
    places = table(settings.get(key))
    if policy not in ("open", "allowlist"):
        if places:
            home.leave(f"{what}: {key} {', '.join(map(shown, places))}", f"its groupPolicy is {shown(policy)}")
        return ()
    if not places:
        return ("*",) if policy == "open" else ()
    found: list[str] = []
    for name, place in places.items():
        if platform == "discord":
            found += _channels_of(home, what, name, place)
        elif not _is_open(place):
            continue
        elif _is_narrow(table(place)) if platform == "slack" else _is_narrow_on_telegram(settings, table(place)):
            home.leave(f"{what}: group {shown(name)}", _NARROW)
        else:
            found.append(name)
    return found


def _channels_of(home: Home, what: str, guild: str, settings: object) -> Sequence[str]:
    """The server where everybody may write anywhere, else those channels of it where everybody may."""
    if not _is_open(settings):
        return ()
    section = table(settings)
    channels = section.get("channels")
    if not channels:
        if _is_narrow(section):
            home.leave(f"{what}: server {shown(guild)}", _NARROW)
            return ()
        return (guild,)
    found: list[str] = []
    for name, channel in table(channels).items():
        if not _is_open(channel):
            continue
        if _is_narrow(table(channel), section):
            home.leave(f"{what}: channel {shown(name)}", _NARROW)
        else:
            found.append(name)
    if "*" in found:  # of this server; not of all
        if all(map(_is_open, table(channels).values())) and set(found) == set(table(channels)):
            return (guild,)
        home.leave(f"{what}: server {shown(guild)}", "some of its channels are closed or narrower; let in the others")
        found.remove("*")
    elif not found:
        home.leave(f"{what}: server {shown(guild)}", "none of the channels that are listed for it is open to everybody")
    return found


def _is_open(place: object) -> bool:
    return isinstance(place, dict) and all(place.get(key) in (None, True) for key in ("enabled", "allow"))


def _is_narrow(place: Mapping[str, Any], around: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """Whether only some people may write in a place of Discord or Slack, by its lists or those of what is around."""
    lists = [place.get(key) or around.get(key) for key in ("users", "roles")]
    policy = text(place.get("groupPolicy")) or text(around.get("groupPolicy"))
    return policy == "disabled" or any(one and "*" not in texts(one) for one in lists)


def _is_narrow_on_telegram(settings: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    """Whether only some people may write in the group, or in one of its topics."""
    levels = [settings, group]
    for topic in (None, *table(group.get("topics")).values()):
        inner = [*levels, table(topic)] if topic is not None else levels
        policy = next((text(one["groupPolicy"]) for one in reversed(inner) if one.get("groupPolicy")), "allowlist")
        own = next((one["allowFrom"] for one in reversed(inner[1:]) if one.get("allowFrom") is not None), None)
        lists = (own, settings.get("groupAllowFrom"), settings.get("allowFrom"))
        senders = texts(next((one for one in lists if one is not None), None))
        is_anybody = "*" in senders if own is not None or policy == "allowlist" else policy == "open"
        if policy == "disabled" or not is_anybody or (topic is not None and not _is_open(topic)):
            return True
    return False


# Models


def _models(
    home: Home, config: Mapping[str, Any], agent: Mapping[str, Any], agent_id: str, state: State, secrets: Secrets
) -> Sequence[Model]:
    models, services = Models(home), table(table(config.get("models")).get("providers"))
    chosen = agent.get("model") or table(table(config.get("agents")).get("defaults")).get("model")
    wanted = [text(chosen)] if isinstance(chosen, str) else [text(table(chosen).get("primary"))]
    wanted += texts(table(chosen).get("fallbacks"))
    keys = _keys(home, agent_id, state)
    for reference in filter(None, wanted):
        name, _, model = reference.partition("/")
        service = table(services.get(name))
        key = secrets.key_of(name, service.get("apiKey"), *keys.get(name, ()))
        kind = "anthropic" if text(service.get("api")).startswith("anthropic") and name != "anthropic" else ""
        models.add(name, model, base_url=text(service.get("baseUrl")), type=kind, key=key)
    return models.found


def _keys(home: Home, agent_id: str, state: State) -> Mapping[str, Sequence[object]]:
    """The keys of the store of logins, by service; what is no key is noted."""
    stored: Mapping[str, Any] = {}
    for (value,) in state.get("auth", ()):
        if isinstance(value, str):
            stored = home.table_in(value, "logins")
    stored = stored or home.json("agents", agent_id, "agent", "auth-profiles.json")
    found: dict[str, list[object]] = {}
    for profile in map(table, table(stored.get("profiles")).values()):
        service = text(profile.get("provider"))
        if profile.get("type") == "api_key":
            found.setdefault(service, []).append(profile.get("key") or profile.get("keyRef"))
        else:
            home.leave(f"login at {shown(service)}", "logins by a browser stay; use an API key of the service")
    return found


# Jobs


def _jobs(home: Home, state: State, zone: str, now: datetime) -> Sequence[Any]:
    jobs, own = Jobs(home, now), 0
    for job in _stored_jobs(home, state):
        what, payload = f"schedule {shown(job.get('name'))}", table(job.get("payload"))
        kind, schedule = text(payload.get("kind")), table(job.get("schedule"))
        if kind == "heartbeat" or job.get("declarationKey"):
            own += 1
            continue
        if kind not in ("agentTurn", "systemEvent"):
            home.leave(what, "it runs a command or a script")
            continue
        delivery, is_main = table(job.get("delivery")), job.get("sessionTarget") == "main"
        if not is_main and delivery.get("mode") not in ("announce", "deliver"):
            home.leave(what, "it tells nobody, which a schedule here cannot")
            continue
        platform, place = text(delivery.get("channel")), str(delivery.get("to") or "")
        to = "" if is_main or platform in ("", "last") else names.chat(platform, place, text(delivery.get("accountId")))
        if not to and not is_main and platform not in ("", "last"):
            home.leave(what, f"its chat {shown(f'{platform}:{place}')} is not known here")
            continue
        every, when = whole_number(schedule.get("everyMs")), schedule.get("kind")
        jobs.add(
            id=job.get("id"),
            name=job.get("name"),
            words=payload.get("message") or payload.get("text"),
            to=to,
            cron=text(schedule.get("expr")) if when == "cron" else "",
            seconds=every / 1000 if when == "every" and every is not None else None,
            moment=(moment_of_text(schedule.get("at")) or moment_of_ms(schedule.get("atMs"))) if when == "at" else None,
            zone=text(schedule.get("tz")) or zone,
            is_paused=job.get("enabled") is False,
            remarks=("it uses the model of its chat",) if payload.get("model") else (),
        )
    if own:
        why = "its heartbeat and its care for itself; /heartbeat sets one here"
        home.leave(f"{own} schedules of OpenClaw's own", why)
    return jobs.found


def _stored_jobs(home: Home, state: State) -> Sequence[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for enabled, written in state.get("jobs", ()):
        if not isinstance(written, str):
            home.leave("schedule", "it is no text in the database")
        elif job := home.table_in(written, "schedule"):
            found.append({**job, "enabled": bool(enabled)})
    older = tables(home.json("cron", "jobs.json").get("jobs"))  # before the database there was a file
    known = {text(job.get("id")) for job in found}
    found += [one for one in older if text(one.get("id")) not in known]
    return found
