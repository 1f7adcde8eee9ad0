"""Several keys of one provider: which one is tried, which ones rest, and until when.

A key that is limited rests as long as the service says; one that is refused or has nothing left is passed over for
longer. Resting is stored, for a restart and for other processes; a key itself never is, only its digest.
"""

import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from agent.core.clock import Clock, SystemClock
from agent.core.errors import AgentError, KeyRefused, ProviderBusy, QuotaUsedUp
from agent.core.model_facts import KeyRest, KeyTrouble
from agent.providers.settings import ProviderSettings
from agent.storage.timestamps import to_timestamp

LIMITED_S = 60.0  # where the service does not say how long
LONGEST_LIMITED_S = 3600.0
PASSED_OVER_S = 3600.0  # a refused or exhausted key; then it is asked again
DIGEST = 16  # hexadecimal digits

T = TypeVar("T")

log = logging.getLogger("tieline.providers")


class KeyStore(Protocol):
    """Where it is kept; `agent.storage.model_rows.KeyRestStore` is it. Nothing raises: what fails is logged."""

    async def read_all(self) -> Sequence[KeyRest]: ...
    async def put(self, rest: KeyRest) -> None: ...
    async def remove(self, provider: str, digest: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Key:
    """One of a provider's keys; `number` counts from 1 in the order of the configuration."""

    number: int
    secret: str = field(repr=False)
    digest: str


def digest_of(provider: str, secret: str) -> str:
    """A name for the key by which it is known again."""
    return hashlib.sha256(f"{provider}\0{secret}".encode()).hexdigest()[:DIGEST]


def trouble_of(error: AgentError) -> KeyTrouble | None:
    """The trouble with the key that an error tells; None where the key is not at fault. Pure."""
    match error:
        case ProviderBusy() if error.limited:
            return "limited"
        case QuotaUsedUp():
            return "exhausted"
        case KeyRefused():
            return "refused"
        case _:
            return None


def in_order(keys: Sequence[Key], rests: Mapping[str, KeyRest], now: int) -> Sequence[Key]:
    """The keys to try, the first configured first; where all of them rest, the one that has rested soonest. Pure."""
    usable = [key for key in keys if key.digest not in rests or rests[key.digest].until <= now]
    return usable or sorted(keys, key=lambda key: rests[key.digest].until)[:1]


def last_word(errors: Sequence[AgentError]) -> AgentError:
    """The error of a call that failed with each key: the one with the shortest wait, else the last. Pure."""
    busy = [error for error in errors if isinstance(error, ProviderBusy)]
    return min(busy, key=lambda error: error.after_s or LIMITED_S) if busy else errors[-1]


PassedOver = Callable[[str, Key, int, KeyTrouble], None]  # provider, key, number of keys, what is wrong


class KeyRings:
    """The keys of all providers. Without a store their rest is known for as long as the process lives."""

    def __init__(
        self,
        clock: Clock | None = None,
        store: KeyStore | None = None,
        *,
        on_passed_over: PassedOver = lambda provider, key, count, trouble: None,
        on_back: Callable[[str, Key, int], None] = lambda provider, key, count: None,
    ) -> None:
        """`on_passed_over` hears of each refused or exhausted key, `on_back` of one that is taken again."""
        self._clock = clock or SystemClock()
        self._store = store
        self._on_passed_over, self._on_back = on_passed_over, on_back
        self._rests: dict[str, dict[str, KeyRest]] = {}

    async def load(self) -> None:
        """Read what is stored, before the first call."""
        for rest in await self._store.read_all() if self._store is not None else ():
            self._rests.setdefault(rest.provider, {})[rest.digest] = rest

    def of(self, settings: ProviderSettings) -> "KeyRing":
        """The keys of that provider."""
        secrets = [key.get_secret_value() for key in settings.keys]
        return KeyRing(
            settings.name,
            tuple(Key(number, one, digest_of(settings.name, one)) for number, one in enumerate(secrets, 1)),
            self,
        )

    def order(self, ring: "KeyRing") -> Sequence[Key]:
        """Keys of the ring to try now."""
        return in_order(ring.keys, self._rests.get(ring.provider, {}), to_timestamp(self._clock.now()))

    async def failed(self, ring: "KeyRing", key: Key, trouble: KeyTrouble, after_s: float | None) -> None:
        """The key rests from now on."""
        wait_s = PASSED_OVER_S if trouble != "limited" else min(after_s or LIMITED_S, LONGEST_LIMITED_S)
        until = to_timestamp(self._clock.now()) + int(wait_s * 1_000_000)
        rest = KeyRest(provider=ring.provider, digest=key.digest, trouble=trouble, until=until)
        self._rests.setdefault(ring.provider, {})[key.digest] = rest
        log.warning("%s: key %d of %d is %s; it rests", ring.provider, key.number, len(ring.keys), trouble)
        if trouble != "limited":
            self._on_passed_over(ring.provider, key, len(ring.keys), trouble)
        if self._store is not None:
            await self._store.put(rest)

    def resting(self, ring: "KeyRing") -> Sequence[tuple[int, KeyRest]]:
        """Keys of the ring that rest now, by their number."""
        rests, now = self._rests.get(ring.provider, {}), to_timestamp(self._clock.now())
        found = ((key.number, rests.get(key.digest)) for key in ring.keys)
        return [(number, rest) for number, rest in found if rest is not None and rest.until > now]

    async def use_again(self, ring: "KeyRing", number: int) -> bool:
        """Let the key of that number be tried at the next call; False where it does not rest.

        What was told of it stands until the service takes it.
        """
        rest = dict(self.resting(ring)).get(number)
        if rest is None:
            return False
        rest = replace(rest, until=to_timestamp(self._clock.now()))
        self._rests[ring.provider][rest.digest] = rest
        if self._store is not None:
            await self._store.put(rest)
        return True

    async def answered(self, ring: "KeyRing", key: Key) -> None:
        """The service takes the key."""
        rest = self._rests.get(ring.provider, {}).pop(key.digest, None)
        if rest is None:
            return
        if rest.trouble != "limited":
            self._on_back(ring.provider, key, len(ring.keys))
        if self._store is not None:
            await self._store.remove(ring.provider, key.digest)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of one provider, and the way to call with one after another."""

    provider: str
    keys: tuple[Key, ...]
    rings: KeyRings = field(repr=False, compare=False)

    async def stream(self, call: Callable[[str], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """The stream that `call` makes with a key; the next key at once where one is not taken.

        Raises the error of the call; once something came, no other key is tried. With a single key, or none, it is the
        call alone.
        """
        if len(self.keys) < 2:
            async with aclosing(call(self.keys[0].secret if self.keys else "")) as pieces:
                async for piece in pieces:
                    yield piece
            return
        errors: list[AgentError] = []
        doubtful: list[Key] = []
        for key in self.rings.order(self):
            begun = False
            try:
                async with aclosing(call(key.secret)) as pieces:
                    async for piece in pieces:
                        if not begun:
                            begun = True
                            await self._taken(key, doubtful)
                        yield piece
                return
            except AgentError as error:
                if begun or not await self._rests(key, error, doubtful):
                    raise
                errors.append(error)
        raise last_word(errors)

    async def ask(self, call: Callable[[str], Awaitable[T]]) -> T:
        """The same for a call that gives one answer."""
        if len(self.keys) < 2:
            return await call(self.keys[0].secret if self.keys else "")
        errors: list[AgentError] = []
        doubtful: list[Key] = []
        for key in self.rings.order(self):
            try:
                answer = await call(key.secret)
            except AgentError as error:
                if not await self._rests(key, error, doubtful):
                    raise
                errors.append(error)
            else:
                await self._taken(key, doubtful)
                return answer
        raise last_word(errors)

    async def _taken(self, key: Key, doubtful: Sequence[Key]) -> None:
        """The service takes the key; those that it did not take for the same request are at fault."""
        await self.rings.answered(self, key)
        for one in doubtful:
            await self.rings.failed(self, one, "refused", None)

    async def _rests(self, key: Key, error: AgentError, doubtful: list[Key]) -> bool:
        """Whether another key may be taken. This one rests, unless the account itself may lack the right, as for a
        model: what every key is refused is the fault of none."""
        trouble = trouble_of(error)
        if isinstance(error, KeyRefused) and error.doubtful:
            doubtful.append(key)
        elif trouble is not None:
            await self.rings.failed(self, key, trouble, error.after_s if isinstance(error, ProviderBusy) else None)
        return trouble is not None
