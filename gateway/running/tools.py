"""Tools: the executor with those of the program, MCP servers, approvals, hooks, and the agents that are defined."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from sqlalchemy import Connection, select

from agent.assembly import built_in_tools, known_tools, rules_without_effect, shared_executor
from agent.core.clock import Clock
from agent.core.files.safe import put_whole
from agent.core.files.store import FileStore
from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import SENT, FileRef, OutgoingMessage
from agent.core.tools import Tool, ToolSpec
from agent.definitions import Definitions
from agent.storage import outbox_rows
from agent.storage.approval_rows import Approval
from agent.storage.database import Database
from agent.storage.tables import conversation
from agent.storage.timestamps import to_timestamp
from agent.subagent.profiles import Profiles
from agent.tools.approvals import Approvals
from agent.tools.executor import Executor
from agent.tools.hooks import Hooks
from agent.tools.images import PictureService
from agent.tools.mcp.resources import RESOURCE_TOOLS
from agent.tools.mcp.server import Server
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.settings import ServerSettings
from agent.tools.output_files import Outputs
from agent.tools.schedules import Schedules
from agent.tools.shell.shell import room_for
from agent.tools.toolbox import WORKING, Reach, Toolbox, working_tools
from gateway.channels.keys import ConversationKey
from gateway.config.errors import ConfigError
from gateway.config.settings import Settings
from gateway.delivery.outbox.delivery import Delivery
from gateway.router.attachments import safe_name
from gateway.running.basics import Basics
from gateway.running.mcp.added_servers import AddedServers
from gateway.running.mcp.logins import McpLogins, shared_logins
from gateway.running.mcp.states import OwnStates, ServerStates, SharedStates
from gateway.running.messaging import Messaging
from gateway.running.monitoring.alerts import DEAF_AFTER_S, Alerts
from gateway.running.rights import Rights, roles_without_effect
from gateway.telemetry.trouble import Troubles

_log = logging.getLogger("tieline.gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """All that calls of tools go through. `profiles` are the sub-agents that are defined."""

    executor: Executor
    approvals: Approvals
    hooks: Hooks
    servers: Servers
    server_states: ServerStates
    added_servers: AddedServers
    logins: McpLogins
    definitions: Definitions
    profiles: Profiles


async def install_tools(
    basics: Basics,
    rights: Rights,
    messaging: Messaging,
    schedules: Schedules,
    pictures: PictureService,
    asked: Callable[[Connection, Approval], None],
) -> ToolServices:
    """With the MCP servers that chats have added; none is connected yet.

    `asked` writes of an approval that is asked for, in the transaction that stores it.
    """
    live, database, clock, home = basics.live, basics.database, basics.clock, basics.home
    outputs = Outputs(home, basics.files)
    tools = (
        *built_in_tools(clock, outputs, schedules),
        *await _working_tools(basics, rights, messaging.delivery, pictures),
    )
    executor = shared_executor(tools, clock, outputs, basics.redact)
    toolbox = executor.toolbox
    health = McpHealth(basics.troubles, messaging.alerts, clock)
    sync_logins = await shared_logins(basics)
    servers = Servers(
        basics.settings.mcp,
        clock,
        home,
        lend=toolbox.lend,
        health=health.changed,
        expect=toolbox.expect,
        tried=toolbox.tried,
        sync_logins=sync_logins,
    )
    health.watch(servers)
    server_states: ServerStates = OwnStates(servers)
    if basics.cluster is not None:
        server_states = SharedStates(servers, database, basics.cluster, basics.redact)
    added_servers = AddedServers(database, clock, servers, health.changed_added)
    await added_servers.recover()
    warn = partial(_warn_of_configuration, added_servers)
    warn(basics.settings)
    live.listen(warn)
    live.listen_to_reads(partial(_configuration_read, basics.troubles, live.file))
    definitions = Definitions(live.agent_folders(), known_tools=known_tools(toolbox.names | WORKING | RESOURCE_TOOLS))
    return ToolServices(
        executor=executor,
        approvals=Approvals(
            database,
            clock,
            live.approvals,
            changed=messaging.delivery.prompts.changed,
            stored=asked,
            roles=lambda: live.settings.roles,
            spec=partial(_spec_of, toolbox),
            is_decider_known=rights.is_decider_known,
        ),
        hooks=Hooks(live.hooks, home),
        servers=servers,
        server_states=server_states,
        added_servers=added_servers,
        logins=McpLogins(servers, clock, home, sync_logins),
        definitions=definitions,
        profiles=Profiles(definitions.roots, known_tools=definitions.known_tools),
    )


def _spec_of(toolbox: Toolbox, name: str) -> ToolSpec | None:
    """Specification of the tool; None while its server is away."""
    found = toolbox.get(name)
    return found.spec if found is not None else None


# Working tools (files, programs, web), as this machine and its configuration allow them.


async def _working_tools(
    basics: Basics, rights: Rights, delivery: Delivery, pictures: PictureService
) -> tuple[Tool, ...]:
    """The tools that can be had; whether there is a sandbox is tried out here, once."""
    live, settings = basics.live, basics.settings

    def serves(key: ConversationKey) -> bool:
        return any(channel.channel_type == key.channel_type for channel in live.settings.channels)

    sending = Sending(
        basics.database,
        basics.clock,
        settings.home,
        basics.files,
        deliver=delivery.wake,
        serves=serves,
        is_admin=rights.is_admin,
    )
    return working_tools(
        Reach(
            clock=basics.clock,
            files=lambda: live.settings.tools.files,
            commands=lambda: live.settings.tools.shell,
            web=lambda: live.settings.tools.web,
            sending=sending,
            pictures=pictures,
            room=await anyio.to_thread.run_sync(room_for, settings.tools.shell),
            proxy=settings.network.proxy,
        )
    )


# Troubles that operators and owners hear of: MCP servers, and mistakes of the configuration.


class McpHealth:
    """Hears which MCP servers stay away. The owners are told of them: one that is started anew is back in seconds."""

    def __init__(self, troubles: Troubles, alerts: Alerts, clock: Clock) -> None:
        self._troubles = troubles
        self._alerts = alerts
        self._clock = clock
        self._servers: Servers | None = None

    def watch(self, servers: Servers) -> None:
        """Hear of the state of these; their settings tell what can be done."""
        self._servers = servers

    def changed(self, name: str, trouble: str | None) -> None:
        """Of a server that is kept connected."""
        server = self._servers.named(name) if self._servers is not None else None
        self._changed(name, trouble, "owner_mcp_back", server)

    def changed_added(self, name: str, trouble: str | None) -> None:
        """Of a server that was added in a chat, and is left out or removed."""
        self._changed(name, trouble, None, None)

    def _changed(self, name: str, trouble: str | None, back: str | None, server: Server | None) -> None:
        subject = f"mcp:{name}"
        if trouble is None:
            self._troubles.over("mcp", name)
            self._alerts.outage_over(subject, back, {"server": name})
            return
        fix = _mcp_fix(name, server.settings if server is not None else None)
        self._troubles.report("mcp", name, trouble, fix=fix)
        since = next(one.since for one in self._troubles.open if (one.kind, one.subject) == ("mcp", name))
        if (self._clock.now() - since).total_seconds() >= DEAF_AFTER_S:
            self._alerts.outage(subject, "owner_mcp_lost", {"server": name, "detail": trouble.rstrip(".")})


def _mcp_fix(name: str, settings: ServerSettings | None) -> str:
    """Advice about an MCP server that is not connected; None: added in a chat, and left out."""
    if settings is None:
        return f"in a chat: `/mcp remove {name}`, then `/mcp add {name}` with its address anew"
    if not settings.has_entry:
        return (
            f"it was added in a chat: `/mcp remove {name}` there, and if its address is wrong "
            f"`/mcp add {name}` with the right one; it is tried again"
        )
    log = f" and at logs/mcp-{name}.log in the data directory" if settings.command else ""  # what a program says there
    return f"look at its [[mcp.servers]] entry{log}; it is tried again"


def _warn_of_configuration(added: AddedServers, settings: Settings) -> None:
    """Log former names of keys, and rules that stand for no tool. `added` are the MCP servers that chats have added."""
    servers = {one.name for one in settings.mcp.servers} | set(added.names)
    rules = (*rules_without_effect(settings.approvals, servers), *roles_without_effect(settings, servers))
    for warning in (*settings.warnings, *rules):
        _log.warning("%s", warning)


def _configuration_read(troubles: Troubles, source: Path, mistake: ConfigError | None) -> None:
    """The file was changed while the gateway runs; with a mistake in it the settings of before hold on."""
    subject = source.name
    if mistake is None:
        troubles.over("config", subject)
        return
    text = f"the changed file is not used, the settings of before hold on: {'; '.join(str(mistake).split(chr(10)))}"
    fix = "mend it, as `tieline config check` tells; it is read again by itself. The next start would refuse it"
    troubles.report("config", subject, text, fix=fix)


# Sending by tools: rows of the outbox like everything else that must arrive, each once (`agent.tools.sending`).


class Sending:
    """Writes rows and wakes delivery.

    `serves` tells whether an account for that chat is configured, `is_admin` whether a person is an admin of the whole
    bot.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        home: Path,
        files: FileStore,
        *,
        deliver: Callable[[ConversationKey], None],
        serves: Callable[[ConversationKey], bool],
        is_admin: Callable[[PersonId | None], bool],
    ) -> None:
        self._database = database
        self._clock = clock
        self._home = home
        self._files = files
        self._deliver = deliver
        self._serves = serves
        self.may_send_elsewhere = is_admin

    async def message(self, to: ConversationId, text: str, key: str) -> None:
        await self._say(to, OutgoingMessage(text=text, kind="reply"), key)

    async def file(self, to: ConversationId, data: bytes, name: str, mime_type: str, caption: str, key: str) -> None:
        folder = hashlib.blake2b(f"{to}:{key}".encode(), digest_size=8).hexdigest()  # the same for a repeat
        path = Path(SENT, folder, safe_name(name))
        await anyio.to_thread.run_sync(put_whole, self._home / path, data)
        await self._files.put(str(path), conversation=to)
        await self._say(
            to,
            OutgoingMessage(
                text=caption, kind="reply", files=(FileRef(path=str(path), name=name, mime_type=mime_type),)
            ),
            key,
        )

    async def knows(self, conversation: ConversationId) -> bool:
        try:
            key = ConversationKey.parse(conversation)
        except ValueError:
            return False
        return self._serves(key) and await self._database.read(lambda conn: _is_there(conn, conversation))

    async def _say(self, to: ConversationId, say: OutgoingMessage, key: str) -> None:
        def write(conn: Connection) -> None:
            outbox_rows.add(
                conn,
                conversation=to,
                inbox_id=None,
                part=0,
                dedup=f"tool:{to}:{key}",
                say=say,
                at=to_timestamp(self._clock.now()),
            )

        await self._database.write(write)
        self._deliver(ConversationKey.parse(to))


def _is_there(conn: Connection, key: ConversationId) -> bool:
    return conn.execute(select(conversation.c.key).where(conversation.c.key == key)).first() is not None
