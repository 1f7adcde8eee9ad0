"""The command handler: finds the command of a text, checks the role, runs it, and makes its answer sayable."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.built_ins import CommandResult
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming, Work
from agent.operations import Operations
from agent.tools.rights import held
from agent.tools.settings import RoleSettings
from gateway.access.policy import Role
from gateway.access.roles import RANKS
from gateway.channels.keys import ConversationKey
from gateway.commands.command import AnyCommand, Call, Commands, Reply, denied, split_command
from gateway.commands.help import unknown
from gateway.conversations.place_settings import PlaceSettings
from gateway.phrases.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The words of a command, and the rule that refused what it was to do; "": none did."""

    says: tuple[OutgoingMessage, ...]
    refused_by: str = ""


class CommandHandler:
    """Serves the router (commands that run at once) and agents (`agent.built_ins.BuiltIns`)."""

    def __init__(
        self,
        commands: Commands,
        phrase: Catalogue,
        settings: PlaceSettings,
        switched_off: Callable[[], Collection[str]],
        roles: Callable[[], Sequence[RoleSettings]],
    ) -> None:
        """`switched_off` gives the features that the configuration switches off, as `Command.feature` names them.

        `roles` are the operator's named roles.
        """
        self._commands = commands
        self._phrase = phrase
        self._settings = settings
        self._switched_off = switched_off
        self._roles = roles
        self._families: Mapping[type, object] = {}
        self._operations: Callable[[ConversationId], Awaitable[Operations]] | None = None

    def serve(self, operations: Callable[[ConversationId], Awaitable[Operations]], families: Iterable[object]) -> None:
        """Run commands from now on: agents, which are built with this handler, exist by then.

        `operations` gives what may be done to a conversation, whether its agent is awake or not; `families` are what
        the commands of each family may use. Raises ValueError where those of one are missing.
        """
        self._families = self._commands.given(families)
        self._operations = operations

    def family(self, kind: type) -> object:
        """The parts that the commands of a family may use, by their type."""
        return self._families[kind]

    def find(self, text: str) -> tuple[AnyCommand, str] | None:
        return self._commands.find(text)

    async def answer(
        self, text: str, key: ConversationKey, incoming: Incoming, role: Role, place: str
    ) -> CommandAnswer:
        """Run a command beside the conversation's turn, if one goes on; what it says is the caller's to store."""
        agent = await self._agent(key)
        reply = await self._reply(text, key, incoming, role, place, agent)
        return CommandAnswer(_says(reply, incoming), reply.refused_by)

    def refusal(self, command: AnyCommand, incoming: Incoming, role: Role) -> CommandAnswer | None:
        """The answer to somebody who may not give the command here, and the rule; None for who may."""
        roles = held(incoming.roles, self._roles())
        ruling = command.ruling(role, roles, in_group=incoming.chat_type != "direct")
        if ruling.gate == "allow":
            return None
        return CommandAnswer(_says(denied(command, ruling, incoming, role, self._phrase), incoming), ruling.rule)

    async def suggest(
        self, text: str, key: ConversationKey, incoming: Incoming, role: Role, place: str
    ) -> tuple[str, ...]:
        """Completions of a half written command: whole lines without the slash, the likeliest first."""
        in_group, written = incoming.chat_type != "direct", text.removeprefix("/")
        roles = held(incoming.roles, self._roles())
        if not text.startswith("/") or "\n" in text:
            return ()
        found = self._commands.find(text)
        if found is None or (not found[1] and not text[-1].isspace()):
            off = self._switched_off()
            names = [
                command.name
                for command in self._commands.all
                if command.allowed(role, roles, in_group=in_group) and not command.hidden and command.feature not in off
            ]
            return nearest(names, written.strip())
        command, args = found
        if not command.allowed(role, roles, in_group=in_group) or command.feature in self._switched_off():
            return ()
        options: Sequence[str] = command.choices
        if command.suggest is not None:
            agent = await self._agent(key)
            options = await command.suggest(self._call(command, args, key, incoming, role, place, agent))
        return tuple(f"{command.name} {option}" for option in nearest(options, args))

    def concerns(self, work: Work) -> bool:
        return bool(split_command(work.incoming.text)[0])

    async def run(self, work: Work, agent: Operations) -> CommandResult | None:
        """Run the command in the conversation's turn; None for text that is no command."""
        incoming = work.incoming
        if not self.concerns(work):
            return None
        key = ConversationKey.parse(agent.conversation)
        reply = await self._reply(incoming.text, key, incoming, RANKS[incoming.role], "", agent)
        return CommandResult(
            says=_says(reply, incoming),
            go_on_with=reply.go_on_with,
            go_on_files=reply.go_on_files,
            go_on_quoted=reply.go_on_quoted,
            go_on_call=reply.go_on_call,
            go_on_brought=reply.go_on_brought,
            end=reply.end,
        )

    async def _reply(
        self, text: str, key: ConversationKey, incoming: Incoming, role: Role, place: str, agent: Operations
    ) -> Reply:
        name, args = split_command(text)
        found = self._commands.find(text)
        call = self._call(found[0] if found else None, args, key, incoming, role, place, agent, name)
        if found is None:
            return unknown(self._commands, call)
        ruling = found[0].ruling(role, call.roles, in_group=call.in_group)
        if ruling.gate != "allow":
            return denied(found[0], ruling, incoming, role, self._phrase)
        return await found[0].run(call)

    async def _agent(self, key: ConversationKey) -> Operations:
        assert self._operations is not None, "a command came before the handler serves"
        return await self._operations(ConversationId(str(key)))

    def _call(
        self,
        command: AnyCommand | None,
        args: str,
        key: ConversationKey,
        incoming: Incoming,
        role: Role,
        place: str,
        agent: Operations,
        written: str = "",
    ) -> Call[Any]:
        """A call of the command; of the word that was `written`, where that is none."""
        roles = held(incoming.roles, self._roles())
        ruling = command.ruling(role, roles, in_group=incoming.chat_type != "direct") if command else None
        is_granted = ruling is not None and ruling.gate == "allow" and bool(ruling.by_role)
        return Call(
            name=command.name if command else written,
            args=args,
            key=key,
            place=place,
            agent=agent,
            incoming=incoming,
            role=max(role, Role.ADMIN) if is_granted else role,
            roles=roles,
            is_granted=is_granted,
            phrase=self._phrase,
            settings=self._settings,
            deps=self._families[command.deps] if command else None,
        )


def _says(reply: Reply, incoming: Incoming) -> tuple[OutgoingMessage, ...]:
    return (_say(reply, incoming),) if reply.text else ()


def _say(reply: Reply, incoming: Incoming) -> OutgoingMessage:
    """Private answers are ephemeral in groups; a direct chat is private already."""
    in_group = incoming.chat_type != "direct"
    send_ephemeral = reply.private and (in_group or incoming.interaction is not None)
    return OutgoingMessage(
        text=reply.text,
        kind="notice",
        reply_to=incoming.message_ref if in_group else None,
        answers=incoming.message_ref,
        private_to=incoming.person if send_ephemeral else None,
        interaction=incoming.interaction,
        buttons=reply.buttons,
        files=reply.files,
        verbatim=reply.verbatim,
    )


MOST_SUGGESTED = 25  # no platform shows more


def nearest(options: Sequence[str], written: str) -> tuple[str, ...]:
    """The options that begin with the written text, then those that hold it; in their own order."""
    start = written.casefold()
    begins = [option for option in options if option.casefold().startswith(start)]
    holds = [option for option in options if start in option.casefold() and option not in begins]
    return tuple((begins + holds)[:MOST_SUGGESTED])
