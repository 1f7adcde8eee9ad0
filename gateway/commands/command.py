"""A slash command: its name, its rights, its function, and what it may use of the gateway. Families live beside."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.messages import FilePart, ToolUse
from agent.core.outbox import Answer, Button, FileRef, Question
from agent.goals.service import GoalService
from agent.inbox import Brought, Incoming
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Account
from agent.memory.memory import Memory
from agent.operations import Operations
from agent.plans.service import PlanService
from agent.providers.registry import Registry
from agent.skills.folders import Skills
from agent.skills.learning import Learning
from agent.storage.database import Database
from agent.style.user_model import UserModel
from agent.subagent.profiles import Profiles
from agent.subagent.runner import SubagentRegistry
from agent.tools.approvals import Approvals
from agent.tools.mcp.servers import Servers
from gateway.access.grants import AccessBook
from gateway.access.policy import Decisions, Role
from gateway.access.settings import AccessSettings
from gateway.channels.adapter import Health, Ids
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import CommandSpec
from gateway.config.settings import Settings
from gateway.conversations.choices import Held
from gateway.conversations.place_settings import InForce, PlaceSettings
from gateway.phrases.catalogue import Catalogue, UsageError
from gateway.scheduler.service import ScheduleService

# Dependencies of commands: what they may use of the gateway.


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDeps:
    """Callables read what may change: the configuration, the awake agents, the adapters' health.

    `settings` are those of single places: what commands declare by `Setting`.
    `held` tells which provider holds for a place; `preference_changed` is told where somebody chose another.
    `more_allowed` is told for whom somebody raised a budget, and where.
    `subagent_registry` knows the sub-agents that work now, `profiles` those that are defined.
    `goal_of` is the goal whose own turn runs there now, `plan_of` the plan; `hide_live` takes the message
    away that follows such work.
    """

    home: Path
    database: Database
    clock: Clock
    phrase: Catalogue
    started_at: datetime
    access: Callable[[], AccessSettings]
    book: AccessBook
    decisions: Decisions
    providers: Callable[[], Registry]
    settings: PlaceSettings
    persistence: Callable[[], bool]
    held: Callable[[Connection, ConversationKey], Held]
    preference_changed: Callable[[ConversationKey], Awaitable[None]]
    health: Callable[[], Mapping[str, Health]]
    ids: Callable[[str], Ids]  # what those of a platform look like
    stop: Callable[[ConversationId, str, datetime], bool]  # the reason, and when the word came
    stop_within: Callable[[ConversationId, str, datetime], bool]  # the same for a place's topics and threads
    is_running: Callable[[ConversationId], bool]  # a turn is under way there, or is just beginning or ending
    running_since: Callable[[ConversationId], datetime | None]
    is_ending: Callable[[ConversationId], bool]  # a turn runs there, and was told to stop
    approvals: Approvals
    tools: Callable[[], Collection[str]]  # names of all that there are
    servers: Servers
    add_server: Callable[[str, str], Awaitable[None]]  # its name and address; raises ValueError
    remove_server: Callable[[str], Awaitable[bool]]
    servers_left_out: Callable[[], Collection[str]]  # added in a chat, and not taken any more
    ledger: Ledger
    more_allowed: Callable[[Account, ConversationKey], Awaitable[None]]
    ask: Callable[[ConversationKey, Question, str], Awaitable[Answer]]
    schedules: ScheduleService
    memory: Memory
    skills: Skills
    skills_on: Callable[[], bool]
    learning: Learning
    user_model: Callable[[], UserModel | None]
    goals: GoalService
    subagent_registry: SubagentRegistry
    profiles: Profiles
    plans: PlanService
    plan_of: Callable[[ConversationId], int | None]
    goal_of: Callable[[ConversationId], int | None]
    hide_live: Callable[[ConversationId], None]
    deliver: Callable[[ConversationKey], None]  # rows of that place were committed
    pairing_settled: Callable[[str, Literal["approved", "denied"]], None]  # what that person asked is decided
    recent_log: Callable[[ConversationId, int], Sequence[str]]  # its newest warnings and errors, oldest first
    test_alert: Callable[[str], Sequence[str]]  # tells the owners that somebody tried; who is told
    switched_off: Callable[[], Collection[str]]  # features, as `Command.feature` names them


Group = Literal["chat", "later", "model", "people", "more"]
PRESS = "c:"  # begins the action of a button that stands for a command
MOST_ACTION = 64  # bytes (Telegram's callback_data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One use of a command: by whom, where, with which words after the name.

    `place` is the group that grants name, "" where it is not known. `agent` is what may be done to the
    conversation; commands that run beside a turn may only look and switch, never stage.
    """

    name: str
    args: str
    key: ConversationKey
    place: str
    agent: Operations
    incoming: Incoming
    role: Role
    deps: CommandDeps

    @property
    def words(self) -> list[str]:
        return self.args.split()

    @property
    def in_group(self) -> bool:
        return self.incoming.chat_type != "direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a command. `go_on_with` makes it a turn with that text, whose first step is `go_on_call`
    where there is one; `end` closes the conversation's loop.

    A `private` answer is ephemeral where the platform can.
    """

    text: str = ""
    buttons: tuple[tuple[Button, ...], ...] = ()
    private: bool = False
    verbatim: bool = False
    files: tuple[FileRef, ...] = ()
    go_on_with: str | None = None
    go_on_files: tuple[FilePart, ...] = ()
    go_on_quoted: str | None = None
    go_on_call: ToolUse | None = None
    go_on_brought: Brought | None = None
    end: bool = False


Run = Callable[[Call], Awaitable[Reply]]
Suggest = Callable[[Call], Awaitable[Sequence[str]]]
T = TypeVar("T")


def nothing_else(call: Call, value: object) -> None:
    """Whoever needs the value asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[T]):
    """A setting of a place, all that there is to say of it. `/settings` and the command named in `command` change it.

    `key` names it in the database and for people; the phrase `setting.KEY` says what it is. `default` is what the
    configuration says of a place; `parse` gives the value of a stored text, or raises ValueError. It holds in topics
    and threads too where it `inherits`.

    `choices` are all its values as people write them. Where there is no such list, `text_for` gives the text to be
    stored for what somebody wrote (None: as if nothing were chosen) or raises UsageError; `usage` shows how it is
    written. `mistake` is the phrase for what is none of the `choices`; `changed` tells the new value, `cleared` that
    nothing is chosen any more. `apply` lets what runs already follow, before the value is stored; it may raise
    UsageError. `show` writes a value as people read it.

    `role` may change it in a direct chat, `group_role` where several people share the chat.
    """

    key: str
    command: str
    default: Callable[[Settings, ConversationKey], T]
    parse: Callable[[str], T]
    changed: str
    cleared: str = "setting_cleared"
    choices: tuple[str, ...] = ()
    text_for: Callable[[Call, str], Awaitable[str | None]] | None = None
    usage: str = ""
    mistake: str = "setting_value_unknown"
    apply: Callable[[Call, T], None] = nothing_else
    show: Callable[[T], str] = str
    inherits: bool = True
    role: Role = Role.MEMBER
    group_role: Role = Role.ADMIN

    @property
    def written_as(self) -> str:
        """Its values as people write them."""
        return self.usage or " | ".join(self.choices)

    def may_be_changed(self, call: Call) -> bool:
        """Whether who gave the command has the right here."""
        return call.role >= (self.group_role if call.in_group else self.role)

    async def change(self, call: Call, written: str | None) -> Reply:
        """Choose it for the place of the call; None takes the choice back. The reply tells value or mistake."""
        phrase, language, settings = call.deps.phrase, call.incoming.language, call.deps.settings
        if not self.may_be_changed(call):
            return refused(call)
        try:
            text = await self._text(call, written) if written is not None else None
            found = settings.find(self, call.key, own=False) if text is None else InForce(self.parse(text), call.key)
            self.apply(call, found.value)
        except UsageError as error:
            return Reply(text=error.text(phrase, language), private=True)
        if text is None:
            await settings.clear(self, call.key)
        else:
            await settings.put(self, call.key, text)
        told = self.changed if text is not None else self.cleared
        values = {"setting": self.key, "value": self.show(found.value), "source": source_of(call, found)}
        return Reply(text=phrase(told, language, **values))

    async def _text(self, call: Call, written: str) -> str | None:
        if self.text_for is not None:
            return await self.text_for(call, written)
        word = written.lower()
        if word not in self.choices:
            raise UsageError(self.mistake, value=written[:40], allowed=", ".join(self.choices))
        return word


def source_of(call: Call, found: InForce[T]) -> str:
    """The source of a value, in words: this place, one around it, or the configuration."""
    where = found.chosen_in
    key = "setting_configured" if where is None else "setting_here" if where == call.key else "setting_around"
    return call.deps.phrase(key, call.incoming.language)


def one_of(values: Sequence[T]) -> Callable[[str], T]:
    """Reads one of these by its text (`Setting.parse`)."""
    known = {str(value): value for value in values}

    def parse(text: str) -> T:
        if text not in known:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}")
        return known[text]

    return parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`immediate` commands run at once, beside a running turn; the others wait their turn in the inbox, and so does one
    whose first word is among `queued`.

    `admin_in_groups` asks for the role where several people share the chat, `admin` asks for it everywhere. An
    `unlimited` command is taken even of somebody who writes too much. `platform` is the only one where it does
    anything; "": all of them. `examples` is the phrase that shows how it is written; "": its usage says it all.
    An `everyday` one stands in menus and in the short /help. `feature` is what it belongs to:
    where that is switched off, nobody is shown the command. `choices` are all the words it takes, `suggest` gives those
    that are only known at run time. `settings` are the settings of a place that it changes: there is no other list.
    """

    name: str
    run: Run
    group: Group
    usage: str = ""
    aliases: tuple[str, ...] = ()
    immediate: bool = False
    queued: frozenset[str] = frozenset()
    admin: bool = False
    admin_in_groups: bool = False
    hidden: bool = False
    unlimited: bool = False
    platform: str = ""
    examples: str = ""
    everyday: bool = False
    feature: str = ""
    choices: tuple[str, ...] = ()
    suggest: Suggest | None = None
    settings: tuple[Setting[Any], ...] = ()

    def is_immediate(self, args: str) -> bool:
        """Whether it runs at once with these words."""
        return self.immediate and args.partition(" ")[0].lower() not in self.queued

    @property
    def summary_key(self) -> str:
        """The phrase that says what it does."""
        return f"command.{self.name}"

    def allowed(self, role: Role, *, in_group: bool) -> bool:
        needed = Role.ADMIN if self.admin or (self.admin_in_groups and in_group) else Role.MEMBER
        return role >= needed


class Commands:
    """All commands by name, and the settings they declare. Two of one name are a programming error, found at start."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.all: tuple[Command, ...] = tuple(commands)
        self._by_name: dict[str, Command] = {}
        for command in self.all:
            for name in (command.name, *command.aliases):
                if name in self._by_name:
                    raise ValueError(f"two commands are called /{name}")
                self._by_name[name] = command
        self.settings: dict[str, Setting[Any]] = {}
        for setting in (setting for command in self.all for setting in command.settings):
            if setting.key in self.settings:
                raise ValueError(f"two settings are called {setting.key}")
            self.settings[setting.key] = setting

    def find(self, text: str) -> tuple[Command, str] | None:
        """The command a text calls and the words after it; None for ordinary text and unknown names."""
        name, args = split_command(text)
        command = self._by_name.get(name)
        return (command, args) if command else None

    def named(self, name: str) -> Command | None:
        return self._by_name.get(name.removeprefix("/").lower())

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._by_name)

    def specs(self, phrase: Callable[[str], str], *, switched_off: Collection[str] = ()) -> tuple[CommandSpec, ...]:
        """Commands for platforms: none that is switched off."""
        return tuple(
            CommandSpec(
                name=command.name,
                description=phrase(command.summary_key),
                options=command.usage,
                admin=command.admin,
                menu=command.everyday,
                choices=command.choices,
                suggests=command.suggest is not None,
                platform=command.platform,
            )
            for command in self.all
            if not command.hidden and command.feature not in switched_off
        )


def split_command(text: str) -> tuple[str, str]:
    """`/name rest` as ("name", "rest"); ("", "") for anything else, also for a path such as `/etc/hosts`."""
    first, *rest = text.split(maxsplit=1) or [""]
    name = first.removeprefix("/").lower().replace("_", "-")  # Telegram takes no dash in a command
    if not first.startswith("/") or not name.replace("-", "").isalnum():
        return "", ""
    return name, rest[0].strip() if rest else ""


def refused(call: Call, part: str = "") -> Reply:
    """The answer to somebody without the role; `part` is what the command does for admins alone, "": all of it."""
    values = {"name": f"{call.name} {part}".rstrip(), "role": call.role.name.lower()}
    return Reply(text=call.deps.phrase("admin_only", call.incoming.language, **values), private=True)


def choices(command: str, names: Iterable[str], *, most: int) -> tuple[tuple[Button, ...], ...]:
    """A button below another for each name that fits into one: it gives the command with that name."""
    buttons = (Button(label=name, action=f"{PRESS}/{command} {name}") for name in names)
    return tuple((button,) for button in buttons if len(button.action.encode()) <= MOST_ACTION)[:most]
