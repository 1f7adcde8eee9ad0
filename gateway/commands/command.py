"""A slash command: its name, its rights, its function, and one use of it. Families live beside."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

from agent.core.ids import ConversationId
from agent.core.messages import FilePart, ToolUse
from agent.core.outbox import Button, FileRef
from agent.inbox import Brought, Incoming, Quotation
from agent.operations import Operations
from agent.tools.rights import RightsVerdict
from agent.tools.settings import RoleSettings
from gateway.access.policy import Role
from gateway.access.roles import CommandRights, command_ruling
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import CommandSpec
from gateway.config.settings import Settings
from gateway.conversations.place_settings import InForce, PlaceSettings, account_of
from gateway.phrases.catalogue import Catalogue, UsageError

D = TypeVar("D", covariant=True)
Own = TypeVar("Own")


class Turns(Protocol):
    """Port to the turns that run now."""

    def stop(self, conversation: ConversationId, reason: str, said_at: datetime) -> bool:
        """End the turn there, if it was meant when the word came."""

    def stop_within(self, place: ConversationId, reason: str, said_at: datetime) -> bool:
        """The same in the topics and threads of a place: a Slack command cannot be given in one."""

    def is_running(self, conversation: ConversationId) -> bool:
        """Whether a turn is under way there, or is just beginning or ending."""

    def running_since(self, conversation: ConversationId) -> datetime | None: ...

    def is_ending(self, conversation: ConversationId) -> bool:
        """Whether a turn runs there that was told to stop."""

    def goal_of(self, conversation: ConversationId) -> int | None:
        """The goal whose own turn runs there now."""

    def plan_of(self, conversation: ConversationId) -> int | None:
        """The plan that is worked on there now."""

    def hide_live(self, conversation: ConversationId) -> None:
        """Take away the message that follows work on a goal or plan."""


Group = Literal["chat", "later", "model", "people", "more"]
FOR_GUESTS: frozenset[Group] = frozenset({"chat", "people"})  # the others set up work, spend, or change the bot
PRESS = "c:"  # begins the action of a button that stands for a command
MOST_ACTION = 64  # bytes (Telegram's callback_data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[D]):
    """One use of a command: by whom, where, with which words after the name.

    `place` is the group that grants name, "" where it is not known. `agent` is what may be done to the
    conversation; commands that run beside a turn may only look and switch, never stage. `settings` are those of
    single places; `deps` is what the commands of this family may use of the gateway. `roles` are the named roles of who
    gave it. Where one of them gives the command (`is_granted`), `role` is an admin's at least.
    """

    name: str
    args: str
    key: ConversationKey
    place: str
    agent: Operations
    incoming: Incoming
    role: Role
    roles: tuple[RoleSettings, ...] = ()
    is_granted: bool = False
    phrase: Catalogue
    settings: PlaceSettings
    deps: D

    @property
    def words(self) -> list[str]:
        return self.args.split()

    @property
    def in_group(self) -> bool:
        return self.incoming.chat_type != "direct"

    def on(self, deps: Own) -> "Call[Own]":
        """The same call, for a function of another family."""
        return replace(cast("Call[Own]", self), deps=deps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a command. `go_on_with` makes it a turn with that text, whose first step is `go_on_call`
    where there is one; `end` closes the conversation's loop.

    A `private` answer is ephemeral where the platform can. `refused_by` is the rule that refused it, for `/why`.
    """

    text: str = ""
    buttons: tuple[tuple[Button, ...], ...] = ()
    private: bool = False
    verbatim: bool = False
    files: tuple[FileRef, ...] = ()
    go_on_with: str | None = None
    go_on_files: tuple[FilePart, ...] = ()
    go_on_quoted: Quotation | None = None
    go_on_call: ToolUse | None = None
    go_on_brought: Brought | None = None
    end: bool = False
    refused_by: str = ""


AnyCall = Call[object]
T = TypeVar("T")


def nothing_else(call: AnyCall, value: object) -> None:
    """Do nothing: the setting has no effect beyond its stored value."""


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

    Where it `narrows`, each value that was set around a place holds there as well; where it `adds`, each of the file.
    One that `takes_text` takes any.

    `role` may change it in a direct chat, `group_role` where several people share the chat. `change_by` makes the
    change where its command does more than to store it.
    """

    key: str
    command: str
    default: Callable[[Settings, ConversationKey], T]
    parse: Callable[[str], T]
    changed: str = "setting_changed"
    cleared: str = "setting_cleared"
    choices: tuple[str, ...] = ()
    text_for: Callable[[Call[Any], str], Awaitable[str | None]] | None = None
    usage: str = ""
    mistake: str = "setting_value_unknown"
    apply: Callable[[AnyCall, T], None] = nothing_else
    show: Callable[[T], str] = str
    inherits: bool = True
    narrows: bool = False
    adds: bool = False
    takes_text: bool = False
    role: Role = Role.MEMBER
    group_role: Role = Role.ADMIN
    change_by: Callable[[Call[Any], str | None], Awaitable[Reply]] | None = None

    @property
    def written_as(self) -> str:
        """Its values as people write them."""
        return self.usage or " | ".join(self.choices)

    def may_be_changed(self, call: AnyCall) -> bool:
        """Whether who gave the command has the right here."""
        return call.role >= (self.group_role if call.in_group else self.role)

    def holds_too(self, behind: InForce[T]) -> bool:
        """Whether a value that was set around a place, or in the file, holds beside the nearest."""
        return self.narrows or (self.adds and bool(behind.section))

    async def change(self, call: AnyCall, written: str | None) -> Reply:
        """Choose it for the place of the call; None takes the choice back. The reply tells value or mistake."""
        phrase, language, settings = call.phrase, call.incoming.language, call.settings
        if not self.may_be_changed(call):
            return refused(call)
        if self.change_by is not None:
            word = written.lower() if written is not None and self.choices else written
            if word is not None and self.choices and word not in self.choices:
                return Reply(text=self._mistake(word).text(phrase, language), private=True)
            return await self.change_by(call, word)
        try:
            text = await self._text(call, written) if written is not None else None
            found = settings.find(self, call.key, own=False) if text is None else InForce(self.parse(text), call.key)
            self.apply(call, found.value)
        except UsageError as error:
            return Reply(text=error.text(phrase, language), private=True)
        by = str(call.incoming.person)
        if text is None:
            await settings.clear(self, call.key, by=by)
        else:
            await settings.put(self, call.key, text, by=by)
        told = self.changed if text is not None else self.cleared
        values = {"setting": self.key, "value": self.show(found.value), "source": source_of(call, found)}
        lines = [phrase(told, language, **values)]
        lines += [
            phrase("setting_holds_too", language, value=self.show(one.value), source=source_of(call, one))
            for one in settings.layers(self, call.key)
            if one.chosen_in != call.key and one != found and self.holds_too(one)
        ]
        return Reply(text="\n".join(lines))

    async def _text(self, call: AnyCall, written: str) -> str | None:
        if self.text_for is not None:
            return await self.text_for(call, written)
        word = written.lower()
        if word not in self.choices:
            raise self._mistake(written)
        return word

    def _mistake(self, written: str) -> UsageError:
        return UsageError(self.mistake, value=written[:40], allowed=", ".join(self.choices))


def source_of(call: AnyCall, found: InForce[T]) -> str:
    """The source of a value, in words: this place, one around it, or the configuration."""
    where, language = found.chosen_in, call.incoming.language
    if found.section:
        return call.phrase("setting_in_file", language, match=found.section)
    if where == account_of(call.key):
        return call.phrase("setting_of_account", language)
    key = "setting_configured" if where is None else "setting_here" if where == call.key else "setting_around"
    return call.phrase(key, language)


def one_of(values: Sequence[T]) -> Callable[[str], T]:
    """Reads one of these by its text (`Setting.parse`)."""
    known = {str(value): value for value in values}

    def parse(text: str) -> T:
        if text not in known:
            raise ValueError(f"{text!r} is not one of {', '.join(known)}")
        return known[text]

    return parse


def on_or_off(text: str) -> bool:
    """Reads a switch (`Setting.parse`)."""
    if text not in ("on", "off"):
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


_NOTHING_MORE: Any = type(None)  # than every call has


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[Own]):
    """`immediate` commands run at once, beside a running turn; the others wait their turn in the inbox, and so does one
    whose first word is among `queued`.

    `admin_in_groups` asks for the role where several people share the chat, `admin` asks for it everywhere. An
    `unlimited` command is taken even of somebody who writes too much. `platform` is the only one where it does
    anything; "": all of them. `examples` is the phrase that shows how it is written; "": its usage says it all.
    An `everyday` one stands in menus and in the short /help. `feature` is what it belongs to:
    where that is switched off, nobody is shown the command. `choices` are all the words it takes, `suggest` gives those
    that are only known at run time. `deps` is the type of what its family may use.
    `settings` are the settings of a place that it changes: there is no other list.
    """

    name: str
    run: Callable[[Call[Own]], Awaitable[Reply]]
    group: Group
    deps: type[Own] = _NOTHING_MORE
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
    suggest: Callable[[Call[Own]], Awaitable[Sequence[str]]] | None = None
    settings: tuple[Setting[Any], ...] = ()

    def is_immediate(self, args: str) -> bool:
        """Whether it runs at once with these words."""
        first = next(iter(args.split(maxsplit=1)), "").lower()
        return self.immediate and first not in self.queued

    @property
    def summary_key(self) -> str:
        """The phrase that says what it does."""
        return f"command.{self.name}"

    def ruling(self, role: Role, roles: Sequence[RoleSettings] = (), *, in_group: bool) -> RightsVerdict:
        """Whether somebody of that rank, with these named roles, may give it; and by which rule."""
        needs = Role.GUEST if self.group in FOR_GUESTS else Role.MEMBER
        if self.admin or (self.admin_in_groups and in_group):
            needs = Role.ADMIN
        return command_ruling(CommandRights(name=self.name, needs=needs, aliases=self.aliases), role, roles)

    def allowed(self, role: Role, roles: Sequence[RoleSettings] = (), *, in_group: bool) -> bool:
        """Whether they may give it."""
        return self.ruling(role, roles, in_group=in_group).gate == "allow"


AnyCommand = Command[Any]


class Commands:
    """All commands by name, and the settings they declare. Two of one name are a programming error, found at start."""

    def __init__(self, commands: Iterable[AnyCommand]) -> None:
        self.all: tuple[AnyCommand, ...] = tuple(commands)
        self._by_name: dict[str, AnyCommand] = {}
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

    def find(self, text: str) -> tuple[AnyCommand, str] | None:
        """The command a text calls and the words after it; None for ordinary text and unknown names."""
        name, args = split_command(text)
        command = self._by_name.get(name)
        return (command, args) if command else None

    def named(self, name: str) -> AnyCommand | None:
        return self._by_name.get(name.removeprefix("/").lower())

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._by_name)

    def given(self, families: Iterable[object]) -> Mapping[type, object]:
        """Deps of all families by their type. Raises ValueError where those of a command are missing."""
        given = {type(one): one for one in (None, *families)}
        missing = {one.deps.__name__ for one in self.all if one.deps not in given}
        if missing:
            raise ValueError(f"commands lack their {', '.join(sorted(missing))}")
        return given

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


def refused(call: AnyCall, part: str = "") -> Reply:
    """The answer to somebody without the role; `part` is what the command does for admins alone, "": all of it."""
    values = {"name": f"{call.name} {part}".rstrip(), "role": call.role.name.lower()}
    rule = f"/{values['name']} is for admins; this person is {values['role']} here"
    return Reply(text=call.phrase("admin_only", call.incoming.language, **values), private=True, refused_by=rule)


def denied(command: AnyCommand, ruling: RightsVerdict, incoming: Incoming, role: Role, phrase: Catalogue) -> Reply:
    """The answer to somebody who may not give the command, by the ruling about them."""
    name, language, in_group = command.name, incoming.language, incoming.chat_type != "direct"
    if ruling.by_role:
        text = phrase("command_denied_by_role", language, name=name, role=ruling.by_role)
    elif role is Role.GUEST and command.allowed(Role.MEMBER, in_group=in_group):
        text = phrase("command_for_members", language, name=name)
    else:
        text = phrase("admin_only", language, name=name, role=role.name.lower())
    return Reply(text=text, private=True, refused_by=ruling.rule)


def choices(command: str, names: Iterable[str], *, most: int) -> tuple[tuple[Button, ...], ...]:
    """A button below another for each name that fits into one: it gives the command with that name."""
    buttons = (Button(label=name, action=f"{PRESS}/{command} {name}") for name in names)
    return tuple((button,) for button in buttons if len(button.action.encode()) <= MOST_ACTION)[:most]
