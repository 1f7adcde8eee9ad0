"""The contract of one signed-in bot account, and what the gateway lends it."""

import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol

import anyio
from pydantic import BaseModel, ConfigDict
from starlette.routing import BaseRoute

from agent.core.clock import Clock
from agent.core.files.store import FileStore, LocalFiles
from gateway.channels.channel import Channel
from gateway.channels.inbound import Inbound, MessageReceived, Receipt
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.kit.rate_limits import SharedRates
from gateway.channels.outbound import CommandSpec

Admit = Callable[[Inbound], Awaitable[Receipt]]

# Where an adapter's routes are mounted, and who vouches for its people: the platform (access decides who may talk), the
# web server's sign-in, the control socket (whoever may open it owns the data directory), or the key of a program, whose
# adapter has no routes of its own.
Entrance = Literal["platform", "sign_in", "control", "key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """Somebody who came through an entrance of ours, an owner; stands in `request.state.person` of such a request."""

    id: UserId
    display: str


class Asked(NamedTuple):
    """A secret that `tieline init` asks for: its key in the settings, the question, whether it must be given."""

    key: str
    question: str
    needed: bool = True


class Ids(NamedTuple):
    """The forms of a platform's ids. `person` and `place` match whole ids, None: any may be one.

    A `place` is looked for first, and without it no id can be told from a person's. `mistake` completes "access.allow:
    'telegram:@ann': …" where the configuration names what matches neither. With `names_private_chat` the private chat
    with a person has the person's id. With `place_may_write` a group or channel may write as itself, as people do.
    """

    person: re.Pattern[str] | None = None
    place: re.Pattern[str] | None = None
    mistake: str = ""
    names_private_chat: bool = False
    place_may_write: bool = False


class TokenForm(NamedTuple):
    """The form of a platform's secret tokens, which are masked wherever one stands: regular expressions, no groups.

    `shown` matches the beginning that stays readable, so that an operator sees which token it was, `secret` the rest.
    A token begins with one of the characters `first`, written as in a class. `begun` matches a beginning, however
    short, that may become one when more of the text comes. At least 13 of `A-Za-z0-9_-` stand on end in a token.
    """

    first: str
    shown: str
    secret: str
    begun: str


class ChannelSettings(BaseModel):
    """Keys of every `[[channels]]` section. An adapter's own class adds its keys and names the adapter to load.

    It also tells what the gateway must know of the platform. `init_asks` is what `tieline init` asks to connect it;
    without any it is not offered there; those of a lower `init_rank` come first. `ids` tells what ids look like.
    `place_parts` says of how many parts, with `:` between, the id of a place
    consists: a longer one names a thread or topic that everybody in the place can read, so it shares the memory of the
    place. None: ids do not tell, or a thread may be private.

    `tokens` are the forms of its secret tokens, masked in logs and answers whether or not an account is configured.
    `loggers` of its library log too much: of an account that is configured they tell warnings and worse alone.

    The class lives in a light module (the entry point of group `gateway.channels`), so that a configuration can be
    checked without importing the platform's library.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    adapter: ClassVar[str]  # "module:Class"; called with (settings, context)
    entrance: ClassVar[Entrance] = "platform"
    init_asks: ClassVar[tuple[Asked, ...]] = ()
    init_rank: ClassVar[int] = 100
    ids: ClassVar[Ids] = Ids()
    place_parts: ClassVar[int | None] = None
    tokens: ClassVar[tuple[TokenForm, ...]] = ()
    loggers: ClassVar[tuple[str, ...]] = ()

    type: str
    account: str = "default"
    provider: str = ""  # what its chats use where nobody chose; "": the default
    provider_locked: bool = False  # only admins may choose another

    def mistakes(self, public_url: str | None) -> Iterator[str]:
        """Conflicts with the rest of the configuration, each with the key in front and its fix.

        `public_url` is that of section `[web]`.
        """
        yield from ()

    @property
    def heard_by_many(self) -> bool:
        """Whether several processes may run the account at once: the platform comes to us, to any of them."""
        return False

    @property
    def channel_type(self) -> str:
        return self.type if self.account == "default" else f"{self.type}@{self.account}"


class State(StrEnum):
    STARTING = "starting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    FAILED = "failed"  # the login was refused
    PAUSED = "paused"  # by an operator; told by the gateway, never by an adapter


# What rules rely on and a platform may keep from an account: messages of groups that do not address the bot; the roles
# of people, administrators included; what was written while the account heard nothing.
Affected = Literal["unaddressed messages", "platform roles", "history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Something that the platform keeps from the account by a setting that the operator can change.

    `finding` says which setting and what is missing through it, `fix` where it is changed: as in a `Diagnosis`.
    """

    affects: tuple[Affected, ...]
    finding: str
    fix: str

    def diagnosis(self, subject: str) -> "Diagnosis":
        """The same as a line of `tieline doctor`, which says by its rules whether it matters."""
        return Diagnosis(subject=subject, level="warning", finding=self.finding, fix=self.fix, affects=self.affects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Is the account able to hear? `last_event_at` is the last sign of life from the platform, not from people.

    `withheld` is what the platform keeps from it, as far as the platform has told since the start.
    """

    state: State
    detail: str = ""
    last_event_at: datetime | None = None
    withheld: tuple[Withheld, ...] = ()

    @property
    def hears(self) -> bool:
        return self.state is State.CONNECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A conversation worth catching up with, and the last message of it that was stored."""

    key: ConversationKey
    last_message_id: str | None
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Fullness:
    """How full the model's window is in one conversation, as /status tells it. `used` and `window` in tokens.

    `badge` is what the newest compaction saved, "" before the first. `subgoal` is what the agent works on there, in a
    model's words; "" while that is not known.
    """

    used: int
    window: int
    colour: Literal["green", "yellow", "red"]
    badge: str
    subgoal: str = ""


class AdapterStore(Protocol):
    """Short texts by key that outlive the process, each for a while: what a server cannot do, where a list ended.

    For what is cheap to lose. An adapter must work where all of it is gone; `tieline doctor` lends one that keeps
    nothing. Both calls raise GatewayUnavailable when the database fails.

    A platform's cursor (a sync token, an offset that the platform does not keep itself) belongs here too, in the
    account's own scope: put it when `admit` has returned for all before it, never sooner. A crash in between hands a
    few messages over again, which the gateway knows by place and id; where it is gone, `known_places` tells how far
    each conversation came.
    """

    async def get(self, key: str) -> str | None:
        """None: not kept, or its time is over."""

    async def put(self, key: str, value: str, *, until: datetime) -> None:
        """Keep it in place of an earlier one. Raises ValueError for more than `STORED_MOST` characters."""


STORED_MOST = 4000  # characters of a key and its value together


class Forgetful:
    """An `AdapterStore` that keeps nothing."""

    async def get(self, key: str) -> str | None:
        return None

    async def put(self, key: str, value: str, *, until: datetime) -> None:
        pass


class AdapterLines(Protocol):
    """Journals of one account that another process goes on with where this one dies, by name: what a page shows.

    All calls raise GatewayUnavailable when the database fails.
    """

    async def names(self, beginning: str) -> Mapping[str, int]:
        """The journals whose names begin so, each with a number that grows with every change."""

    async def read(self, name: str) -> Sequence[str]:
        """Its lines, in the order in which they were added."""

    async def append(self, name: str, line: str) -> None: ...

    async def replace(self, name: str, lines: Sequence[str]) -> None:
        """Put these in place of all; none: the journal is gone."""


async def nothing_to_suggest(said: MessageReceived) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContext:
    """The gateway's loans to an adapter.

    `known_places` lists its conversations of the last seven days, newest first, for catch-up, or raises
    GatewayUnavailable.
    `catch_up_max_age_s` bounds what is answered. `proxy` is the operator's outbound proxy. `home` is the data
    directory, of which `files` stores what other processes need too: a file that was put is there for all of them, and
    one that is needed is brought.
    `fullness` tells of a conversation whose agent is awake and has asked its model; of others nothing.
    `only_demo` tells whether no model is connected, so that nothing but the built-in demo answers.
    `store` gives what is kept under a name: the platform's (`settings.type`), for what its accounts share, or the
    account's own (`settings.channel_type`).
    `lines` gives the journals of an account; None where nobody else goes on: the adapter keeps files in `home` then.
    `tell` says words to an account (by channel type) in all other processes that have it, whose methods `told` and,
    where some may have been lost, `told_anew` hear them; None where there are no others. `shared_rates` gives
    the limits that an account (by channel type) keeps to together with these.
    `suggest` gives what a half written command (`/provider ma`) may become, the whole line without its slash, the
    likeliest first: nothing for somebody who may not talk to the bot there. It never raises and is asked at each key.
    `not_taken` words, in the person's language, that what they did could not be stored: for platforms that show no
    failure by themselves and will not hand it over again.
    """

    clock: Clock
    home: Path
    files: FileStore = field(default_factory=LocalFiles)
    known_places: Callable[[str], Awaitable[Sequence[Place]]]
    catch_up_max_age_s: float = 900.0
    proxy: str | None = None
    public_url: str | None = None
    store: Callable[[str], AdapterStore] = lambda scope: Forgetful()
    fullness: Callable[[ConversationKey], Fullness | None] = lambda key: None
    only_demo: Callable[[], bool] = lambda: False
    not_taken: Callable[[Inbound], str] = lambda inbound: ""
    suggest: Callable[[MessageReceived], Awaitable[Sequence[str]]] = nothing_to_suggest
    lines: Callable[[str], AdapterLines] | None = None
    tell: Callable[[str, str], None] | None = None
    shared_rates: Callable[[str], SharedRates] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One line of `tieline doctor`: what was looked at, whether it is well, and what mends it.

    A warning that `affects` something is shown as one only where a rule of the configuration needs that.
    """

    subject: str
    level: Literal["ok", "warning", "error"]
    finding: str
    fix: str = ""
    affects: tuple[Affected, ...] = ()


class Adapter(Protocol):
    """One signed-in bot account on one chat platform."""

    # Mounted below `/channels/<channel_type>`, of the web server or (entrance `control`) of the control socket. The
    # platform's own are reachable by anybody and check the platform's signature themselves. Those behind an entrance of
    # ours find the person in `request.state.person: SignedIn`; in the browser they may use `/static/frame.css` and must
    # send `request.state.csrf` back as header `x-csrf-token` with everything that changes state. An answer that goes on
    # (an event stream) ends once `await request.state.is_over()` says so.
    channel_type: str
    routes: Sequence[BaseRoute]

    async def run(self, admit: Admit) -> None:
        """Hand over what people sent, never the bot's own words, in each place's order, until cancelled.

        `admit` returns when the message is stored; only then is it acknowledged to the platform. It raises
        GatewayUnavailable when that failed, and may be called again. Many places may be admitted at once, one place in
        order. Raises ChannelFatal when the login is refused. Reconnects by itself on anything less.
        """

    def channel(self, channel_id: str) -> Channel: ...

    def health(self) -> Health: ...

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        """Register the slash commands natively, changing only what differs; failing is not fatal."""

    async def diagnose(self) -> Sequence[Diagnosis]:
        """Check token, intents, webhook and the like against the platform; may be called without `run`."""

    async def aclose(self) -> None: ...


# For adapters of other people, in this version.
_FORMER: Mapping[str, type] = {"Surroundings": AdapterContext}


def __getattr__(name: str) -> type:
    """A class by the name that it had before; it goes with the next version."""
    if name in _FORMER:
        warnings.warn(f"{name} is called {_FORMER[name].__name__} now", DeprecationWarning, stacklevel=2)
        return _FORMER[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Downloads: a file is whole or absent; a server that asks to wait is waited for.


@asynccontextmanager
async def whole_or_nothing(to: Path) -> AsyncIterator[None]:
    """Remove `to` if anything goes wrong while it is written, cancellation too: half a file helps nobody."""

    async def remove() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.Path(to).unlink(missing_ok=True)

    async with AsyncExitStack() as undone:
        undone.push_async_callback(remove)
        yield
        undone.pop_all()


def wait_asked_s(headers: Mapping[str, str], otherwise: float) -> float:
    """The seconds that `Retry-After` asks for."""
    asked = headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else otherwise
