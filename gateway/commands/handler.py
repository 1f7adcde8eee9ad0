"""The command handler: finds the command of a text, checks the role, runs it, and makes its answer sayable."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from agent.built_ins import CommandResult
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming, Work
from agent.operations import Operations
from gateway.access.policy import Role
from gateway.channels.keys import ConversationKey
from gateway.commands.command import AnyCommand, Call, Commands, Reply, refused, split_command
from gateway.commands.help import unknown
from gateway.conversations.place_settings import PlaceSettings
from gateway.phrases.catalogue import Catalogue

ROLES = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER}


class CommandHandler:
    """Serves the router (commands that run at once) and agents (`agent.built_ins.BuiltIns`)."""

    def __init__(
        self,
        commands: Commands,
        phrase: Catalogue,
        settings: PlaceSettings,
        switched_off: Callable[[], Collection[str]],
    ) -> None:
        """`switched_off` gives the features that the configuration switches off, as `Command.feature` names them."""
        self._commands = commands
        self._phrase = phrase
        self._settings = settings
        self._switched_off = switched_off
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
    ) -> tuple[OutgoingMessage, ...]:
        """Run a command beside the conversation's turn, if one goes on; what it says is the caller's to store."""
        agent = await self._agent(key)
        result = await self._result(text, key, incoming, role, place, agent)
        return result.says

    async def suggest(
        self, text: str, key: ConversationKey, incoming: Incoming, role: Role, place: str
    ) -> tuple[str, ...]:
        """Completions of a half written command: whole lines without the slash, the likeliest first."""
        in_group, written = incoming.chat_type != "direct", text.removeprefix("/")
        if not text.startswith("/") or "\n" in text:
            return ()
        found = self._commands.find(text)
        if found is None or (not found[1] and not text[-1].isspace()):
            off = self._switched_off()
            names = [
                command.name
                for command in self._commands.all
                if command.allowed(role, in_group=in_group) and not command.hidden and command.feature not in off
            ]
            return nearest(names, written.strip())
        command, args = found
        if not command.allowed(role, in_group=in_group) or command.feature in self._switched_off():
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
        return await self._result(incoming.text, key, incoming, ROLES[incoming.role], "", agent)

    async def _result(
        self, text: str, key: ConversationKey, incoming: Incoming, role: Role, place: str, agent: Operations
    ) -> CommandResult:
        name, args = split_command(text)
        found = self._commands.find(text)
        call = self._call(found[0] if found else None, args, key, incoming, role, place, agent, name)
        if found is None:
            reply = unknown(self._commands, call)
        elif not found[0].allowed(role, in_group=call.in_group):
            reply = refused(call)
        else:
            reply = await found[0].run(call)
        says = (_say(reply, incoming),) if reply.text else ()
        return CommandResult(
            says=says,
            go_on_with=reply.go_on_with,
            go_on_files=reply.go_on_files,
            go_on_quoted=reply.go_on_quoted,
            go_on_call=reply.go_on_call,
            go_on_brought=reply.go_on_brought,
            end=reply.end,
        )

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
        return Call(
            name=command.name if command else written,
            args=args,
            key=key,
            place=place,
            agent=agent,
            incoming=incoming,
            role=role,
            phrase=self._phrase,
            settings=self._settings,
            deps=self._families[command.deps] if command else None,
        )


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
