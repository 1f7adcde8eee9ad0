"""The home of Hermes Agent (hermes-agent, 0.19): config.yaml, .env, memories, skills, jobs and approved people."""

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
    groups,
    leave_access,
    moment_of_text,
    people,
    table,
    tables,
    text,
    texts,
    whole_number,
)
from gateway.importers.home import Home
from gateway.importers.moved import Account, FoundSkill, ImportRefused, Model, Moved, Note, Persona, shown
from gateway.importers.notes import is_shipped, pieces
from gateway.importers.services import guessed

FOLDER = ".hermes"
KNOWN_VERSION = 33  # `_config_version` of config.yaml
BETWEEN = "\n" + chr(0xA7) + "\n"  # entries of the notes; the sign of a section alone on a line
SECRETS = {
    "telegram": {"token": "TELEGRAM_BOT_TOKEN"},
    "discord": {"token": "DISCORD_BOT_TOKEN"},
    "slack": {"bot_token": "SLACK_BOT_TOKEN", "app_token": "SLACK_APP_TOKEN"},
}
OTHERS = ("WHATSAPP", "SIGNAL", "MATRIX", "MATTERMOST", "EMAIL", "FEISHU", "DINGTALK", "WECOM", "HASS", "TWILIO")
SHIPPED = frozenset({"2765a846e1bb371d78d3b93b403dfb0f8d1ba1a9895edb5f608367abfe81194d"})  # SOUL.md as 0.19 writes it


def read(home: Home, environ: Mapping[str, str], now: datetime) -> Moved:
    """Everything of the home that moves. Raises ImportRefused where there is no home of Hermes Agent."""
    if not any(home.has(name) for name in ("config.yaml", ".env", "SOUL.md", "memories")):
        raise ImportRefused(f"{home.root} is no home of Hermes Agent; name its folder, such as ~/{FOLDER}")
    config = home.yaml("config.yaml")
    if home.left:  # a configuration that cannot be read would leave the half of it behind
        raise ImportRefused(f"{home.root}: {home.left[0].what}: {home.left[0].why}; nothing is moved")
    home.leave("conversations", HISTORY)
    version = whole_number(config.get("_config_version")) or 0
    if version > KNOWN_VERSION:
        why = f"it has the form {version}; {KNOWN_VERSION} is known, and what is new in it stays"
        home.leave("config.yaml", why)
    # Hermes itself hands the plain values at the top of config.yaml on as variables.
    plain = {name: str(value) for name, value in config.items() if isinstance(value, (str, int)) and name.isupper()}
    variables = {**plain, **home.variables(".env")}
    secrets = Secrets(home, variables, environ)
    accounts, allowed, places = _accounts(home, config, variables, secrets)
    _note_others(home, variables)
    return Moved(
        program="hermes",
        version=str(version or ""),
        persona=_persona(home),
        notes=_notes(home),
        skills=_skills(home),
        jobs=_jobs(home, config, variables, now),
        accounts=accounts,
        owner=_owner(variables),
        people=allowed,
        groups=places,
        models=_models(home, config, variables, secrets),
        left=home.left,
    )


def _owner(variables: Mapping[str, str]) -> str:
    """The person of the chat that Hermes calls its home, where it is one with a single person."""
    chat = variables.get("TELEGRAM_HOME_CHANNEL", "")
    return names.person("telegram", chat)


def _persona(home: Home) -> Persona | None:
    soul = home.text("SOUL.md")
    if soul.strip() and is_shipped(soul.strip(), SHIPPED):
        home.leave("SOUL.md", "it is as Hermes wrote it, about Hermes itself")
        return None
    return Persona(name="Hermes", text=soul.strip(), sources=("SOUL.md",)) if soul.strip() else None


def _notes(home: Home) -> Sequence[Note]:
    found = []
    for file in ("USER.md", "MEMORY.md"):
        for entry in home.text("memories", file).split(BETWEEN):
            found += [Note(piece, f"memories/{file}") for piece in pieces(" ".join(entry.split()))]
    return list(dict.fromkeys(found))


def _skills(home: Home) -> Sequence[FoundSkill]:
    bundled = {line.partition(":")[0].strip() for line in home.text("skills", ".bundled_manifest").splitlines()}
    found = home.skills("skills", depth=3)
    own = [skill for skill in found if skill.source.rpartition("/")[2] not in bundled]
    if len(own) < len(found):
        home.leave(f"{len(found) - len(own)} skills", "they came with Hermes; copy the ones that you have changed")
    return own


def _accounts(
    home: Home, config: Mapping[str, Any], variables: Mapping[str, str], secrets: Secrets
) -> tuple[Sequence[Account], Sequence[str], Sequence[str]]:
    accounts: list[Account] = []
    allowed: list[str] = []
    places: list[str] = []
    for platform, keys in SECRETS.items():
        section = {**table(table(config.get("platforms")).get(platform)), **table(config.get(platform))}
        written = {"token": section.get("token"), "bot_token": section.get("token")}
        held = {
            ours: secrets.of(variables.get(theirs) or written.get(ours), f"account {platform}")
            for ours, theirs in keys.items()
        }
        upper, what = platform.upper(), f"account {platform}"
        approved = home.json("platforms", "pairing", f"{platform}-approved.json")
        approved = approved or home.json("pairing", f"{platform}-approved.json")
        listed = texts(variables.get(f"{upper}_ALLOWED_USERS", "")) or texts(section.get("allow_from"))
        chats = texts(variables.get(f"{upper}_GROUP_ALLOWED_CHATS", "")) or texts(section.get("group_allowed_chats"))
        if _is_true(variables.get(f"{upper}_ALLOW_ALL_USERS", "")):
            listed = [*listed, "*"]
        is_off = section.get("enabled") is False
        found = account(platform, "default", held, next(iter(keys)))
        if found is None and not (listed or approved or chats or (section.get("enabled") is True)):
            continue
        access = AccountAccess(
            platform=platform,
            people=people(home, platform, [*listed, *approved]),
            groups=groups(home, platform, chats),
        )
        if found is None or is_off:
            home.leave(what, "it was switched off" if is_off else "it has no token")
            leave_access(home, what, access)
            continue
        accounts.append(found)
        allowed += access.people
        places += access.groups
    if _is_true(variables.get("GATEWAY_ALLOW_ALL_USERS", "")):
        home.leave("everybody may write", 'set [access] dm = "open" yourself if that is meant')
    return accounts, list(dict.fromkeys(allowed)), list(dict.fromkeys(places))


def _is_true(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on")


def _note_others(home: Home, variables: Mapping[str, str]) -> None:
    for other in OTHERS:
        if any(name.startswith(f"{other}_") and value for name, value in variables.items()):
            home.leave(f"account {other.lower()}", "there is no such platform here")
    kinds = {
        text(one.get("auth_type"))
        for pool in table(home.json("auth.json").get("credential_pool")).values()
        for one in tables(pool)
    }
    if kinds - {"", "api_key"}:
        home.leave("auth.json", "logins by a browser stay; use an API key of the service")


def _models(home: Home, config: Mapping[str, Any], variables: Mapping[str, str], secrets: Secrets) -> Sequence[Model]:
    models, chosen = Models(home), config.get("model")
    section = table(chosen) or {"default": text(chosen)}
    wanted = [section, *tables(config.get("fallback_providers"))]
    own = {text(one.get("name")): one for one in tables(config.get("custom_providers"))}
    own |= {name: table(one) for name, one in table(config.get("providers")).items()}
    for one in wanted:
        model, name, address = text(one.get("default")) or text(one.get("model")), text(one.get("provider")), ""
        if name in ("", "auto"):
            name = "openrouter" if secrets.variables.get("OPENROUTER_API_KEY") else guessed(model)
        entry = table(own.get(name.removeprefix("custom:")))
        if name.startswith("custom") or entry:
            name = name.removeprefix("custom:")
            address = text(one.get("base_url")) or text(entry.get("base_url"))
        elif text(one.get("base_url")) and name not in ("openrouter", "anthropic"):
            address = text(one.get("base_url"))
        if not model and not name:
            continue
        named = text(entry.get("key_env")) or text(one.get("key_env"))
        by_name = secrets.named(named, f"key of {shown(name)}") if named else None
        key = by_name or secrets.key_of(name, one.get("api_key"), entry.get("api_key"))
        if key is None and name == "custom" and variables.get("OPENAI_API_KEY"):
            key = secrets.named("OPENAI_API_KEY", "key of custom")
        models.add(name, model, base_url=address, key=key)
    return models.found


def _jobs(home: Home, config: Mapping[str, Any], variables: Mapping[str, str], now: datetime) -> Sequence[Any]:
    jobs = Jobs(home, now)
    zone = text(config.get("timezone"))
    for job in tables(home.json("cron", "jobs.json").get("jobs")):
        what, schedule = f"schedule {shown(job.get('name'))}", table(job.get("schedule"))
        repeat, kind = table(job.get("repeat")).get("times"), schedule.get("kind")
        if job.get("no_agent") or job.get("script"):
            home.leave(what, "it runs a script")
            continue
        if repeat is not None and not (kind == "once" and repeat == 1):
            home.leave(what, f"it ends after {shown(repeat)} times, which a schedule here cannot")
            continue
        to = _chat_of(job, variables)
        if not to:
            home.leave(what, f"it tells {shown(job.get('deliver'))}, which is no chat here")
            continue
        minutes = whole_number(schedule.get("minutes"))
        jobs.add(
            id=job.get("id"),
            name=job.get("name"),
            words=job.get("prompt"),
            to=to,
            cron=text(schedule.get("expr")) if kind == "cron" else "",
            seconds=minutes * 60 if kind == "interval" and minutes is not None else None,
            moment=moment_of_text(schedule.get("run_at")) if kind == "once" else None,
            zone=zone,
            is_paused=job.get("enabled") is False or job.get("state") == "paused",
            remarks=_remarks(job),
        )
    return jobs.found


def _remarks(job: Mapping[str, Any]) -> Sequence[str]:
    found = []
    if job.get("skills") or job.get("skill"):
        found.append("its skill is found by its words, once it is approved")
    if job.get("model") or job.get("provider"):
        found.append("it uses the model of its chat")
    if job.get("workdir") or job.get("context_from") or job.get("enabled_toolsets"):
        found.append("without its folder, its tools and the output of other jobs")
    return found


def _chat_of(job: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """The conversation that a job tells; "" for none that is known."""
    told = text(job.get("deliver"))
    if told == "origin" or not told:
        origin = table(job.get("origin"))
        platform, place, thread = text(origin.get("platform")), origin.get("chat_id"), origin.get("thread_id")
    else:
        platform, _, place = told.partition(":")
        thread = None
        if not place:
            home_of = f"{platform.upper()}_HOME_CHANNEL"
            place, thread = variables.get(home_of), variables.get(f"{home_of}_THREAD_ID")
    chat, topic = (next(iter(texts([one])), "") for one in (place, thread))
    if topic and platform == "discord":  # where a thread is a channel of its own
        chat = topic
    elif topic and platform == "telegram" and names.chat(platform, f"{chat}:{topic}"):
        chat = f"{chat}:{topic}"
    return names.chat(platform, chat)
