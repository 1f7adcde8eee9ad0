"""The home of nanobot (nanobot-ai, 0.3): config.json, pairing.json, and a workspace with notes, skills and jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

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
from gateway.importers.moved import Account, FoundSkill, ImportRefused, Moved, Note, Persona, shown
from gateway.importers.notes import joined, notes_in
from gateway.importers.services import guessed
from gateway.importers.workspace import own_rules, workspace_of

FOLDER = ".nanobot"
TOKENS = {  # by platform: our name of the secret, and nanobot's
    "telegram": {"token": "token"},
    "discord": {"token": "token"},
    "slack": {"bot_token": "botToken", "app_token": "appToken"},
}
_NARROW = "only people of its allowFrom may write there, and here everybody in a group may; let it in if that is meant"
STORE_VERSION = 1  # of jobs.json
# AGENTS.md as `nanobot onboard` of 0.3.5 writes it; it speaks of nanobot's own tools.
SHIPPED = frozenset({"3401603e166d62b42512e96293e07032c8e5e1211fc6518da589b387d9cc4073"})


def read(home: Home, environ: Mapping[str, str], now: datetime) -> Moved:
    """Everything of the home that moves. Raises ImportRefused where there is no home of nanobot."""
    config = _both(home.json("config.json"))
    if home.left or not home.has("config.json"):
        raise ImportRefused(_why_none(home))
    home.leave("conversations", HISTORY)
    defaults = _both(table(table(config.get("agents")).get("defaults")))
    workspace = workspace_of(home, text(defaults.get("workspace")) or f"~/{FOLDER}/workspace", FOLDER)
    secrets = Secrets(home, {}, environ)
    channels = table(config.get("channels"))
    accounts, accesses = _accounts(home, channels, secrets)
    allowed, places = common(home, accesses)
    return Moved(
        program="nanobot",
        version="",
        persona=_persona(home, workspace, text(defaults.get("botName"))),
        notes=_notes(home, workspace),
        skills=_skills(home, workspace, frozenset(texts(defaults.get("disabledSkills")))),
        jobs=_jobs(home, workspace, defaults, now),
        accounts=accounts,
        people=allowed,
        groups=places,
        dm=policy(home, accesses) if accesses else "",
        models=_models(home, config, defaults, secrets),
        left=home.left,
    )


def _why_none(home: Home) -> str:
    if home.left:
        return f"{home.root}: {home.left[0].what}: {home.left[0].why}; nothing is moved"
    return f"{home.root} is no home of nanobot: there is no config.json; name its folder, such as ~/{FOLDER}"


def _persona(home: Home, workspace: tuple[str, ...] | None, name: str) -> Persona | None:
    if workspace is None:
        return None
    soul, rules = home.text(*workspace, "SOUL.md"), home.text(*workspace, "AGENTS.md")
    sources = ["SOUL.md"] if soul.strip() else []
    rules = own_rules(home, rules, SHIPPED, "nanobot")
    if rules.strip():
        sources.append("AGENTS.md")
    words = joined([("", soul), ("Further rules", rules)])
    return Persona(name=name or "nanobot", text=words, sources=tuple(sources)) if words else None


def _notes(home: Home, workspace: tuple[str, ...] | None) -> Sequence[Note]:
    if workspace is None:
        return ()
    if _has_tasks(home.text(*workspace, "HEARTBEAT.md")):
        home.leave("HEARTBEAT.md", "set its tasks with /heartbeat in the chat that is to hear of them")
    found: list[Note] = []
    for file in (("USER.md",), ("memory", "MEMORY.md")):
        found += notes(home, home.text(*workspace, *file), "/".join(file), is_form=file == ("USER.md",))
    for entry in home.files(*workspace, "memory"):
        if entry.names[-1] != "MEMORY.md":
            is_history = entry.names[-1].endswith(".jsonl") or entry.names[-1] == "HISTORY.md"
            home.leave("/".join(entry.names), "it is history" if is_history else "only MEMORY.md moves from there")
    return found


def _has_tasks(heartbeat: str) -> bool:
    return bool(notes_in(heartbeat, "HEARTBEAT.md"))


def _skills(home: Home, workspace: tuple[str, ...] | None, disabled: frozenset[str]) -> Sequence[FoundSkill]:
    found = home.skills(*workspace, "skills") if workspace is not None else []
    for skill in found:
        if skill.source.rpartition("/")[2] in disabled:
            home.leave(f"skill {shown(skill.name)}", "it was switched off")
    return [skill for skill in found if skill.source.rpartition("/")[2] not in disabled]


def _accounts(
    home: Home, channels: Mapping[str, Any], secrets: Secrets
) -> tuple[Sequence[Account], Sequence[AccountAccess]]:
    accounts: list[Account] = []
    accesses: list[AccountAccess] = []
    approved = table(home.json("pairing.json").get("approved"))
    for platform, written in channels.items():
        if not isinstance(written, dict):
            continue
        settings, what = _both(written), f"account {shown(platform)}"
        if platform not in TOKENS:
            if settings.get("enabled") is True and platform != "websocket":
                home.leave(what, "there is no such platform here")
            continue
        keys = TOKENS[platform]
        held = {ours: secrets.of(settings.get(theirs), what) for ours, theirs in keys.items()}
        found = account(platform, "default", held, next(iter(keys)))
        is_on = settings.get("enabled") is True
        if found is None and not is_on:
            continue  # as `nanobot onboard` writes it
        access = _access(home, platform, settings, texts(approved.get(platform)))
        if found is None or not is_on:
            home.leave(what, "it was switched off" if found is not None else "it has no token")
            leave_access(home, what, access)
            continue
        accounts.append(found)
        accesses.append(access)
    return accounts, accesses


def _access(home: Home, platform: str, settings: Mapping[str, Any], approved: Sequence[str]) -> AccountAccess:
    """The people and groups that an account answers: its list of people counts in groups as well."""
    listed, direct = texts(settings.get("allowFrom")), _both(table(settings.get("dm")))
    chats = [*texts(settings.get("allowChannels")), *texts(settings.get("groupAllowFrom"))]
    if chats and "*" not in listed:
        home.leave(f"{platform}: groups {', '.join(map(shown, chats))}", _NARROW)
        chats = []
    found = [*listed, *approved]
    if direct.get("enabled") is False or direct.get("policy") == "allowlist":  # of Slack
        fit = texts(direct.get("allowFrom")) if direct.get("enabled") is not False else ()
        if rest := [one for one in found if one not in fit]:
            home.leave(f"{platform}: {', '.join(map(shown, rest))}", "direct messages of them are not answered there")
        found = [one for one in found if one in fit]
    return AccountAccess(platform=platform, people=people(home, platform, found), groups=groups(home, platform, chats))


def _both(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section, whose keys nanobot takes in both forms: `allow_from` is `allowFrom`."""
    return {**{_camel(name): value for name, value in section.items()}, **section}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _models(home: Home, config: Mapping[str, Any], defaults: Mapping[str, Any], secrets: Secrets) -> Sequence[Any]:
    models, services, presets = Models(home), table(config.get("providers")), table(config.get("modelPresets"))
    wanted = [table(presets.get(text(defaults.get("modelPreset")))) or defaults]
    others = defaults.get("fallbackModels")
    for fallback in others if isinstance(others, list) else ():
        wanted += [table(presets.get(fallback)) if isinstance(fallback, str) else table(fallback)]
    wanted += [table(preset) for preset in presets.values()]
    for one in wanted:
        one = _both(one)
        model, name = text(one.get("model")), text(one.get("provider"))
        if name in ("", "auto"):
            name = guessed(model) or _with_key(services)
        service = _both(table(services.get(name)))
        models.add(
            name, model, base_url=text(service.get("apiBase")), key=secrets.key_of(name, service.get("apiKey"))
        )  # fmt: skip
    used = {one.name for one in models.found}
    for name, service in services.items():
        if text(_both(table(service)).get("apiKey")) and name not in used:
            home.leave(f"key of {shown(name)}", "no model is used with it")
    return models.found


def _with_key(services: Mapping[str, Any]) -> str:
    return next((name for name, one in services.items() if text(_both(table(one)).get("apiKey"))), "")


def _jobs(home: Home, workspace: tuple[str, ...] | None, defaults: Mapping[str, Any], now: datetime) -> Sequence[Any]:
    jobs = Jobs(home, now)
    if workspace is None:
        return ()
    store = home.json(*workspace, "cron", "jobs.json") or home.json("cron", "jobs.json")
    version = whole_number(store.get("version", STORE_VERSION))
    if version is None or version > STORE_VERSION:
        home.leave("cron/jobs.json", f"it has the form {shown(store.get('version'))}; {STORE_VERSION} is known")
        return ()
    usual = text(defaults.get("timezone")) if defaults.get("timezoneMode") == "manual" else ""
    for job in tables(store.get("jobs")):
        schedule, payload = table(job.get("schedule")), table(job.get("payload"))
        name = text(job.get("name"))
        if payload.get("kind", "agent_turn") != "agent_turn":
            home.leave(f"schedule {shown(name)}", "nanobot works by itself with it")
            continue
        platform = text(payload.get("originChannel")) or text(payload.get("channel"))
        place = text(payload.get("originChatId")) or text(payload.get("to"))
        if not platform:
            platform, _, place = text(payload.get("sessionKey")).partition(":")
        to = names.chat(platform, place)
        if not to:
            home.leave(f"schedule {shown(name)}", f"its chat {shown(f'{platform}:{place}')} is not known here")
            continue
        kind, every = schedule.get("kind"), whole_number(schedule.get("everyMs"))
        jobs.add(
            id=job.get("id"),
            name=name,
            words=payload.get("message"),
            to=to,
            cron=text(schedule.get("expr")) if kind == "cron" else "",
            seconds=every / 1000 if kind == "every" and every is not None else None,
            moment=moment_of_ms(schedule.get("atMs")) if kind == "at" else None,
            zone=text(schedule.get("tz")) or usual,
            is_paused=job.get("enabled") is False,
        )
    return jobs.found
