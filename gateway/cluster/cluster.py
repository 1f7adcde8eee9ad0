"""The entrance: this process among those that share a PostgreSQL database, with what they tell each other (G-137)."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial

import anyio
from sqlalchemy import URL

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import TROUBLE, Database
from gateway.channels.keys import ConversationKey
from gateway.cluster import schema
from gateway.cluster.arrivals import Mailbox
from gateway.cluster.connection import Notifications
from gateway.cluster.engine import Engine
from gateway.cluster.hosting import Hosting, Others
from gateway.cluster.membership import Claims, Membership
from gateway.cluster.outlets import ClusterOutlets
from gateway.cluster.rates import RATES, ClusterRates
from gateway.cluster.roles import Role
from gateway.cluster.words import Words
from gateway.delivery.outbox.delivery import Delivery
from gateway.dispatch.local import LocalDispatcher

ACCOUNTS = "accounts"  # what they tell each other, among the tables that are read again
AGAIN_S = 1.0  # between two tries to read again

ReadAgain = Callable[[str], Awaitable[object]]

_log = logging.getLogger("tieline.cluster")


async def _nothing() -> None:
    """Until the accounts are there."""


class Cluster:
    """Made by `join`. The rest of the process is connected to it once that is built."""

    def __init__(self, database: Database, url: URL, clock: Clock, roles: frozenset[Role]) -> None:
        self.roles = roles
        self.membership = Membership(database, url, clock, roles)
        self.claims = Claims(database, hears="ingress" in roles, works="worker" in roles)
        self.mailbox = Mailbox(database, clock)
        self.outlets = ClusterOutlets(database, self._has, delivers="delivery" in roles)
        self.words = Words(database)
        self.rates = ClusterRates(database, clock, self.membership.senders, self.words.tell)
        self._database = database
        self._url = url
        self._clock = clock
        self._hosting: Hosting | None = None
        self._delivery: Delivery | None = None
        self.hear_account: Callable[[str, str], None] = lambda channel_type, words: None
        self.hear_accounts_anew: Callable[[], Awaitable[None]] = _nothing
        self._hearers: dict[str, Callable[[str], None]] = {RATES: self.rates.hear}
        # Not watched, since each draw changes it.
        self._read_again: dict[str, ReadAgain] = {"rate_bucket": self.rates.look_again}
        self._changed: set[tuple[str, str]] = set()  # tables, each with a conversation or with "" for all of it
        self._has_changes = anyio.Event()
        channels = [f"tieline_{self.membership.id}", schema.EVERYBODY]
        if "delivery" in roles:
            channels.append(schema.DELIVERY)
        self._notifications = Notifications(url, tuple(channels), self._heard, self._heard_anew)

    @classmethod
    async def join(cls, database: Database, url: URL, clock: Clock, roles: frozenset[Role]) -> "Cluster":
        """Become one of the processes. Raises what the database raises."""
        cluster = cls(database, url, clock, roles)
        await database.write(schema.prepare)
        await cluster.membership.join()
        return cluster

    # -- what the rest of the process is connected with

    def hosted_by(self, local: LocalDispatcher) -> Hosting:
        """The dispatcher of this process, which hosts conversations if it is a worker."""
        self._hosting = Hosting(local, self._database, self._clock, works="worker" in self.roles)
        return self._hosting

    def connect(
        self,
        *,
        admit: Callable[..., Awaitable[object]],
        delivery: Delivery,
        is_awake: Callable[[ConversationId], bool],
    ) -> None:
        """`admit` is the router's; `is_awake` tells whether the agent of a conversation is in memory."""
        assert self._hosting is not None
        self._delivery = delivery
        self.outlets.when_idle = self._hosting.ring
        others = Others(
            admit=admit,  # type: ignore[arg-type]
            delivers=lambda conversation: delivery.is_delivering(ConversationKey.parse(conversation)),
            opened=self._opened,
            closed=self.outlets.give_back,
            is_awake=is_awake,
        )
        self._hosting.connect(others, partial(Engine, self._url, self._database, self.membership.id))

    def hear(self, name: str, hear: Callable[[str], None]) -> None:
        """Hear words of that name, which is none of an account."""
        self._hearers[name] = hear

    def when_changed(self, table: str, read_again: ReadAgain) -> None:
        """Read again what is kept in memory of the table, when another process has changed it, or may have.

        `read_again` is given the conversation whose rows changed (`schema.WATCHED_BY_PLACE`), or "" for all. Of a table
        that is not watched, all is read again when notifications were lost.
        """
        self._read_again[table] = read_again

    # -- running

    @property
    def loops(self) -> Sequence[tuple[str, Callable[[], Coroutine[None, None, None]]]]:
        """Loops that run as long as the process, by name: hearing the others, and telling them."""
        looking = [("unserved conversations", partial(self.outlets.keep_looking, self._say))]
        return (
            ("notifications", self._notifications.run),
            ("changes of other processes", self._keep_reading_again),
            ("words to other processes", self.words.run),
            *(looking if "delivery" in self.roles else ()),
        )

    async def ready(self) -> None:
        """Return once this process hears the others."""
        await self._notifications.listening.wait()

    async def _opened(self, conversation: ConversationId) -> None:
        if self.outlets.holds(conversation):
            return
        left_over = await self.outlets.take(conversation)
        if left_over is not None and self._delivery is not None:
            self._delivery.adopt(ConversationKey.parse(conversation), left_over)

    def _has(self, conversation: ConversationId) -> bool:
        return self._hosting is not None and self._hosting.has(conversation)

    def _say(self, conversation: ConversationId) -> None:
        if self._delivery is not None:
            self._delivery.wake(ConversationKey.parse(conversation))

    async def _heard(self, channel: str, payload: str) -> None:
        try:
            await self._take_in(payload)
        except (ValueError, LookupError, TypeError, *TROUBLE) as error:  # of another version perhaps
            _log.warning("a word could not be taken in, all is read again: %s", type(error).__name__)
            self._heard_anew()

    async def _take_in(self, payload: str) -> None:
        word, _, rest = payload.partition(" ")
        match word:
            case "work" if self._hosting is not None:
                self._hosting.heard(ConversationId(rest))
            case "say":
                self._say(ConversationId(rest))
            case "receipt":
                self.mailbox.heard(rest)
            case "changed":
                table, _, more = rest.partition(" ")
                by, _, place = more.partition(" ")
                if by != self.membership.id and table in self._read_again:
                    self._changed_elsewhere((table, place))
            case "account":
                by, _, more = rest.partition(" ")
                channel_type, _, told = more.partition(" ")
                if by != self.membership.id:
                    told = await self.words.whole(told)
                    if not told:
                        self._heard_anew()
                        return
                    hear = self._hearers.get(channel_type)
                    hear(told) if hear is not None else self.hear_account(channel_type, told)
            case "lost":
                if rest != self.membership.id:
                    self._heard_anew()
            case _:
                _log.debug("a word that nobody here knows: %s", word)

    def _heard_anew(self) -> None:
        if self._hosting is not None:
            self._hosting.heard_anew()
        for conversation in self.outlets.held:
            self._say(conversation)
        self._changed_elsewhere(*((table, "") for table in (*self._read_again, ACCOUNTS)))

    def _changed_elsewhere(self, *changes: tuple[str, str]) -> None:
        self._changed.update(changes)
        self._has_changes.set()

    async def _keep_reading_again(self) -> None:
        while True:
            await self._has_changes.wait()
            self._has_changes = anyio.Event()
            while self._changed:
                change = table, place = self._changed.pop()
                try:
                    with ExitStack() as unread:  # else a right that was taken away would go on to hold here
                        unread.callback(self._changed_elsewhere, change)
                        await (self.hear_accounts_anew() if table == ACCOUNTS else self._read_again[table](place))
                        unread.pop_all()
                except TROUBLE as error:
                    _log.warning("%s could not be read again, tried again: %s", table, type(error).__name__)
                    await anyio.sleep(AGAIN_S)
