"""Reading of the configuration: file, environment, secrets, then all checks, so that every mistake is told at once.

No platform library is imported here.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.providers.settings import from_environment, missing_extra
from agent.style.backends import unknown
from agent.tools.rights import WILD
from gateway.access.policy import subject_kind
from gateway.channels.adapter import ChannelSettings
from gateway.channels.entry_points import PlatformBroken, ids_of, installed, settings_class
from gateway.config.errors import ConfigError, lines, told_once
from gateway.config.events import mistakes_of
from gateway.config.secret_files import holds_secret, judged, lies_among_secrets
from gateway.config.settings import Sections, Settings

# `TIELINE__SECTION__KEY` in the environment overrides the file (decision 0002 tells why no library does it).

PREFIX = "TIELINE__"


def overlaid(data: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """`data` with the environment's values over it; lists and tables are written as JSON.

    Names are lower-cased and split at `__`; nothing is checked here, so a misspelt one is found with the file's own.
    """
    result = dict(data)
    for name in sorted(environ):
        if name.startswith(PREFIX):
            *path, key = name.removeprefix(PREFIX).lower().split("__")
            table = result
            for step in path:
                inner = table.get(step)
                table[step] = inner = dict(inner) if isinstance(inner, Mapping) else {}
                table = inner
            table[key] = _read(environ[name])
    return result


def blamed(mistake: str, environ: Mapping[str, str], data: Mapping[str, Any]) -> str:
    """The mistake with the variable that it is of, where one set the value and not the file."""
    key = mistake.partition(": ")[0]
    for name in sorted(environ):
        path = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and (key == ".".join(path) or (key == path[0] and key not in data)):
            return f"{mistake} (set by the environment variable {name})"
    return mistake


def _read(value: str) -> Any:
    """JSON where it is a list or a table; all else stays text, which pydantic turns into what the key wants."""
    if not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


# References to values elsewhere: `env:NAME` and `file:PATH` anywhere in the configuration. Never echoes what it read.


def _nothing(key: str, path: Path, text: str) -> None:
    """Files are of no interest."""


def resolved(
    value: Any,
    *,
    environ: Mapping[str, str],
    home: Path,
    mistake: Callable[[str], None],
    opened: Callable[[str, Path, str], None] = _nothing,
    key: str = "",
) -> Any:
    """`value` with every reference in it replaced by what it names.

    A relative path is looked for below `home`. What cannot be read is told to `mistake` with its key and the fix, and
    becomes an empty text. `opened` is given the key, the path and the text of each file.
    """
    inside = partial(resolved, environ=environ, home=home, mistake=mistake, opened=opened)
    match value:
        case dict():
            return {name: inside(inner, key=f"{key}.{name}" if key else name) for name, inner in value.items()}
        case list():
            return [inside(inner, key=f"{key}[{index}]") for index, inner in enumerate(value)]
        case str() if value.startswith("env:"):
            name = value.removeprefix("env:")
            if name not in environ:
                mistake(f"{key}: the environment variable {name} is not set; export it, or use file:PATH")
            return environ.get(name, "")
        case str() if value.startswith("file:"):
            path = home / Path(value.removeprefix("file:")).expanduser()
            try:
                text = path.read_text()
                opened(key, path, text)
                return text.strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                mistake(f"{key}: cannot read {path}: {reason}; create it, or use env:NAME")
                return ""
        case _:
            return value


# Keys by section and former name: read until the next version, with a warning that names the new one.
FORMER_KEYS = {("logging", "traces"): "event_log"}


def with_new_names(values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`values` with the former keys in it under their new names, and a warning for each. A new name keeps its value."""
    result, warnings = dict(values), []
    for (section, former), new in FORMER_KEYS.items():
        table = result.get(section)
        if isinstance(table, Mapping) and former in table:
            rest = {key: value for key, value in table.items() if key != former}
            result[section] = {new: table[former], **rest}
            warnings.append(
                f"{section}.{former}: is called {section}.{new} now; the former name goes with the next version"
            )
    return result, tuple(warnings)


_INDEX = re.compile(r"\[(\d+)\]")
ALWAYS = ("web", "console", "api")  # channels that need no section
FROM_ENVIRONMENT = ("anthropic", "openai", "demo")  # what providers may be called where the file has none


def home_directory(environ: Mapping[str, str]) -> Path:
    """Where data lives: TIELINE_HOME, else `~/.tieline`."""
    return Path(environ.get("TIELINE_HOME") or "~/.tieline").expanduser().absolute()


def default_file(environ: Mapping[str, str], home: Path) -> Path:
    """The file that is read where none is named."""
    named = environ.get("TIELINE_CONFIG")
    return Path(named).expanduser().absolute() if named else home / "gateway.toml"


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read and check everything.

    `path` None: what TIELINE_CONFIG names, else `gateway.toml` in the home directory, if it is there. Raises
    ConfigError with every mistake in it.
    """
    home = home_directory(environ)
    source = path or default_file(environ, home)
    if path is None and not environ.get("TIELINE_CONFIG") and not source.exists():
        return read({}, environ, home=home, source=None)
    try:
        data = tomllib.loads(source.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(source), [f"not valid TOML: {error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(source), ["not a text file in UTF-8"]) from error
    except OSError as error:
        raise ConfigError(str(source), [f"cannot be read: {error.strerror}; `tieline init` writes one"]) from error
    return read(data, environ, home=home, source=source)


LEARN_AN_ID = "when they write to the bot, the log and `tieline pair list` show it, and later /whoami"


def read(data: Mapping[str, Any], environ: Mapping[str, str], *, home: Path, source: Path | None) -> Settings:
    """Check parsed TOML with the environment over it. Raises ConfigError with every mistake in it."""
    unread: list[str] = []
    mistakes: list[str] = []
    named, warnings = with_new_names(overlaid(data, environ))
    platforms = installed()
    files: list[tuple[str, Path, str]] = []
    values = resolved(named, environ=environ, home=home, mistake=unread.append, opened=lambda *file: files.append(file))
    secrets = [
        (key, judged(path, text, home)) for key, path, text in files if _is_secret(key, path, values, platforms, home)
    ]
    unread += [f"{key}: {found.refused}" for key, found in secrets if found.refused]
    warnings += tuple(f"{key}: {found.unsafe}" for key, found in secrets if found.unsafe)
    channels = _channels(values.pop("channels", []), platforms, mistakes)
    sections, unusable = _sections(values, mistakes)
    mistakes += _conflicts(sections)
    mistakes += _of_nobody(sections, platforms)
    mistakes += _of_webhooks(sections, platforms)
    if "web" not in unusable:
        mistakes += _unfit(channels, sections)
    if "llm" not in unusable:
        mistakes += _unknown_providers(sections, channels)
    mistakes = told_once(unread, mistakes)
    if mistakes:
        mistakes = [blamed(mistake, environ, data) for mistake in mistakes]
        raise ConfigError(str(source or "environment"), list(dict.fromkeys(mistakes)))
    chosen = {name: getattr(sections, name) for name in Sections.model_fields}
    if not sections.llm.providers:
        chosen["llm"] = replace(sections.llm, providers=from_environment(environ))
    return Settings.model_construct(**chosen, channels=channels, home=home, source=source, warnings=warnings)


def _is_secret(
    key: str, path: Path, values: Mapping[str, Any], platforms: Mapping[str, EntryPoint], home: Path
) -> bool:
    """Whether the file that the key names holds a secret."""
    if lies_among_secrets(path, home):
        return True
    section, *steps = _INDEX.sub("", key).split(".")
    if section != "channels":
        field = Sections.model_fields.get(section)
        return field is not None and holds_secret(field.annotation, steps)
    index, entries = _INDEX.search(key), values.get("channels")
    entry = entries[int(index[1])] if index is not None and isinstance(entries, list) else None
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    if not isinstance(kind, str) or kind not in platforms:
        return False
    try:
        return holds_secret(settings_class(kind, platforms), steps)
    except PlatformBroken:
        return True  # nobody knows, and the platform itself is a mistake


def _sections(values: Mapping[str, Any], mistakes: list[str]) -> tuple[Sections, frozenset[str]]:
    """Every section, and which hold a mistake: their defaults stand in, so that the others can be checked further."""
    try:
        return Sections.model_validate(values), frozenset()
    except ValidationError as error:
        mistakes += lines(error.errors(), Sections)
        unusable = frozenset(str(one["loc"][0]) for one in error.errors())
    return Sections.model_validate({name: value for name, value in values.items() if name not in unusable}), unusable


def _channels(entries: Any, platforms: Mapping[str, EntryPoint], mistakes: list[str]) -> tuple[ChannelSettings, ...]:
    """Each `[[channels]]` entry by its platform's own rules, and the channels that are always there."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        mistakes.append("channels: write each account as a [[channels]] section")
        return ()
    found: list[ChannelSettings] = []
    for index, entry in enumerate(entries):
        prefix = f"channels[{index}]"
        kind = entry.get("type")
        if not isinstance(kind, str) or kind not in platforms:
            known = ", ".join(platforms)
            mistakes.append(f"{prefix}.type: {kind!r} is no platform; use one of {known}" if kind else
                            f"{prefix}.type: missing; use one of {known}")  # fmt: skip
            continue
        try:
            model = settings_class(kind, platforms)
        except PlatformBroken as error:
            mistakes.append(f"{prefix}.type: {error}")
            continue
        try:
            found.append(model.model_validate(entry))
        except ValidationError as error:
            mistakes += lines(error.errors(), model, prefix)
    names = [settings.channel_type for settings in found]
    mistakes += [
        f'channels: two accounts are called "{name}"; give each its own `account`'
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    found += [settings_class(name, platforms)(type=name) for name in ALWAYS if name not in names and name in platforms]
    return tuple(found)


def _unfit(channels: Sequence[ChannelSettings], sections: Sections) -> Iterator[str]:
    """Accounts that cannot work beside the other sections."""
    for one in channels:
        yield from (f"channels ({one.channel_type}): {mistake}" for mistake in one.mistakes(sections.web.public_url))


def _of_nobody(sections: Sections, platforms: Mapping[str, EntryPoint]) -> Iterator[str]:
    """Names that nobody has: they would let in, shut out and make an admin nobody, without a word."""
    access = sections.access
    for index, section in enumerate(sections.places):
        platform = section.match.partition(":")[0].partition("@")[0]
        if platform not in platforms and not set(platform) & set("*?["):
            yield f"places[{index}].match: {_no_platform(platform, platforms)}"
    for index, subscription in enumerate(sections.events):
        for place in subscription.places:
            platform = place.partition(":")[0].partition("@")[0]
            if platform and platform not in platforms and not set(platform) & set("*?["):
                yield f"events[{index}].places: {_no_platform(platform, platforms)}"
    people = {f"access.{key}": getattr(access, key) for key in ("allow", "admins", "block")}
    people |= {f"roles ({role.name}): people": role.people for role in sections.roles}
    accounts = {f"people ({person.name}): accounts": person.accounts for person in sections.people}
    people |= accounts
    named = {**people, "access.allow_groups": access.allow_groups, "approvals.approvers": sections.approvals.approvers}
    named |= {f"roles ({role.name}): platform_roles": role.platform_roles for role in sections.roles}
    for key, names in named.items():
        for name in names:
            platform, colon, _ = name.partition(":")
            if colon and platform not in platforms:
                yield f"{key}: {name!r}: {_no_platform(platform, platforms)}"
                continue
            ids = ids_of(platforms, platform)
            kind = subject_kind(name, ids)
            if key in people and ids.mistake and kind is None:
                yield f"{key}: {name!r}: {ids.mistake}; {LEARN_AN_ID}"
            elif key in people and kind == "place" and (key in accounts or not ids.place_may_write):
                yield f"{key}: {name!r} is a group, and only people stand there; access.allow_groups lets in groups"
            elif key == "access.allow_groups" and kind == "person" and ids.place is not None:
                yield f"{key}: {name!r} is a person, and only groups stand there; access.allow lets in people"


def _no_platform(name: str, platforms: Mapping[str, EntryPoint]) -> str:
    """The mistake of a name that no platform has, with the nearest that one has."""
    near = get_close_matches(name, platforms, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{name!r} is no platform; use one of {', '.join(platforms)}{hint}"


def _conflicts(sections: Sections) -> Iterator[str]:
    """Mistakes that each section finds in itself, and conflicts between them."""
    for name in Sections.model_fields:
        check = getattr(getattr(sections, name), "mistakes", None)
        if check is not None:
            yield from check()
    if sections.budget.max_daily_cost_usd is not None and any(
        (limit.scope, limit.name, limit.per) == ("channel", "", "day") for limit in sections.spending.limits
    ):
        yield "budget.max_daily_cost_usd: [[spending.limits]] has one for each chat and day; keep one of the two"
    if sections.otel.sends_traces and not sections.traces.enabled:
        yield "otel.traces: turns are exported as they are traced; set traces.enabled = true, or otel.traces = false"
    yield from sections.cluster.conflicts(sections.database.url)
    yield from _of_other_type(sections)
    yield from _of_places(sections)
    yield from mistakes_of(sections.events)
    yield from _of_people(sections)
    yield from (
        f"llm.providers ({one.name}): {missing}"
        for one in sections.llm.providers
        if (missing := missing_extra(one.type))
    )
    yield from _without_vectors(sections)
    if wrong := unknown(sections.memory.style.backend):
        yield f"memory.style.backend: {wrong}"
    roles = [role.name.lower() for role in sections.roles]
    yield from (
        f'roles: two are called "{name}"; names must differ' for name in dict.fromkeys(roles) if roles.count(name) > 1
    )
    names = [provider.name.lower() for provider in sections.llm.providers]
    yield from (
        f'llm.providers: two are called "{name}"; names must differ'
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    )
    defaults = [provider.name for provider in sections.llm.providers if provider.default]
    if len(defaults) > 1:
        yield f"llm.providers: {' and '.join(defaults)} are both marked default; keep one"


def _of_places(sections: Sections) -> Iterator[str]:
    """Mistakes of `[[places]]`, each with the section it is of."""
    for index, section in enumerate(sections.places):
        yield from (f"places[{index}].{mistake}" for mistake in section.mistakes())
    matches = [section.match for section in sections.places]
    yield from (
        f'places: two are for "{match}"; write them as one'
        for match in dict.fromkeys(matches)
        if matches.count(match) > 1
    )


def _of_people(sections: Sections) -> Iterator[str]:
    """Mistakes of `[[people]]`, each with the person it is of."""
    owners: dict[str, list[str]] = {}
    for index, person in enumerate(sections.people):
        yield from (f"people[{index}].{mistake}" for mistake in person.mistakes())
        for account in dict.fromkeys(person.accounts):
            owners.setdefault(account, []).append(person.name)
    names = [person.name.lower() for person in sections.people]
    yield from (
        f'people: two are called "{name}"; names must differ' for name in dict.fromkeys(names) if names.count(name) > 1
    )
    yield from (
        f"people: {account!r} is of {' and '.join(named)}; an account is one person's"
        for account, named in owners.items()
        if len(named) > 1
    )


def _of_webhooks(sections: Sections, platforms: Mapping[str, EntryPoint]) -> Iterator[str]:
    """Mistakes of `[[webhooks]]`, each with the hook it is of. One whose account is not there waits for it."""
    for hook in sections.webhooks:
        yield from (f"webhooks ({hook.name}): {mistake}" for mistake in hook.mistakes())
        platform = hook.place.partition(":")[0].partition("@")[0]
        if platform and platform not in platforms:
            yield f"webhooks ({hook.name}): place: {_no_platform(platform, platforms)}"
    names = [hook.name for hook in sections.webhooks]
    yield from (
        f'webhooks: two are called "{name}"; names must differ'
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    )


def _unknown_providers(sections: Sections, channels: Sequence[ChannelSettings]) -> Iterator[str]:
    """Settings that name a provider which is not there."""
    known = [one.name for one in sections.llm.providers] or FROM_ENVIRONMENT
    folded = {name.lower() for name in known}
    for key, name in _named_providers(sections, channels):
        if name and name.lower() not in folded:
            yield f"{key}: there is no provider {name!r}; known: {', '.join(known)}"


def _named_providers(sections: Sections, channels: Sequence[ChannelSettings]) -> Iterator[tuple[str, str | None]]:
    """Every setting that names a provider, and what it says."""
    llm, memory = sections.llm, sections.memory
    yield from (("llm.failover", name) for name in llm.failover)
    yield from ((f"llm.routing.{tier}", name) for tier, name in llm.routing.items())
    yield from ((f"llm.providers ({one.name}): failover", name) for one in llm.providers for name in one.failover or ())
    yield from ((f"llm.aliases.{alias}", target.partition("/")[0]) for alias, target in llm.aliases.items())
    yield "agent.goal.supervisor_provider", sections.agent.goal.supervisor_provider
    yield "plans.provider", sections.plans.provider
    yield "transcription.provider", sections.transcription.provider
    yield "speech.provider", sections.speech.provider
    yield "images.provider", sections.images.provider
    yield "memory.summary_provider", memory.summary_provider
    yield "memory.sidequest.provider", memory.sidequest.provider
    yield "memory.graph.provider", memory.graph.provider
    yield "memory.semantic.provider", memory.semantic.provider if memory.semantic.engine == "provider" else None
    yield "tools.taco.provider", sections.tools.taco.provider
    for role in sections.roles:
        wanted = (rule.removeprefix("!").partition("/")[0] for rule in role.models)
        yield from ((f"roles ({role.name}): models", name) for name in wanted if WILD.isdisjoint(name))
    for index, limit in enumerate(sections.spending.limits):
        yield f"spending.limits[{index}].name", limit.name if limit.scope == "provider" else None
    yield from ((f"channels ({one.channel_type}): provider", one.provider) for one in channels)
    for index, place in enumerate(sections.places):
        yield f"places[{index}].provider", place.provider.partition("/")[0] if place.provider else None


def _of_other_type(sections: Sections) -> Iterator[str]:
    """Why voice messages could not be written down, answers not read out, and pictures not made."""
    for key, wanted in (
        ("transcription", sections.transcription.provider),
        ("speech", sections.speech.provider),
        ("images", sections.images.provider),
    ):
        found = next((one for one in sections.llm.providers if one.name.lower() == wanted.lower()), None)
        if found is not None and found.type != "openai":
            yield f'{key}.provider: {found.name} is of type {found.type!r}; name one of type "openai"'


def _without_vectors(sections: Sections) -> Iterator[str]:
    """Why the memory could not have its vectors made."""
    semantic = sections.memory.semantic
    found = next((one for one in sections.llm.providers if one.name.lower() == semantic.provider.lower()), None)
    if semantic.engine == "provider" and found is not None and found.type != "openai":
        yield f'memory.semantic.provider: {found.name} is of type {found.type!r}; name one of type "openai"'
