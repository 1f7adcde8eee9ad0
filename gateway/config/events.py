"""The section `[[events]]`: programs that are told of events, and where each of them is called."""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from pydantic import SecretStr

from agent.core.settings_section import SECTION_CONFIG
from gateway.channels.keys import ConversationKey
from gateway.config.addresses import web_address
from gateway.config.places import PlacePattern

EventType = Literal["turn.finished", "approval.wanted", "dead_letter", "budget.reached"]

TYPES: tuple[EventType, ...] = get_args(EventType)
ENCODED = "whsec_"  # begins a secret that is written in Base64
LEAST_SECRET, LEAST_KEY, MOST_KEY = 16, 24, 64  # characters of a plain one, bytes of an encoded one
MOST = 20  # subscriptions: each one adds a row to what it hears of
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """`[[events]]`: a program that is told of events by signed webhooks (https://www.standardwebhooks.com).

    `url` is a secret itself. `secret` signs each request: `whsec_` and Base64, or a plain text. `events` and `places`
    choose; none: all of them. Words of people and answers are sent with `include_text` alone. `allow_private` names
    addresses or networks of one's own that may be called; without it the internet alone is.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    name: str
    url: SecretStr
    secret: SecretStr
    events: tuple[EventType, ...] = ()
    places: tuple[str, ...] = ()
    include_text: bool = False
    allow_private: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The address that is called."""
        return self.url.get_secret_value()

    @property
    def host(self) -> str:
        """The part of the address that may be told."""
        return urlsplit(self.address).hostname or ""

    @property
    def key(self) -> bytes:
        """The key of the signatures; the secret is checked."""
        return key_of(self.secret.get_secret_value())

    @property
    def secrets(self) -> frozenset[str]:
        """All that must not be shown: the secret, and the parts of the address that are long enough to be one."""
        parts = urlsplit(self.address)
        long = (one for one in (parts.path, parts.query) if len(one) >= LEAST_SECRET)
        secret = self.secret.get_secret_value()
        return frozenset((secret, secret.removeprefix(ENCODED), *long))

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of one's own that may be called."""
        return tuple(ip_network(one, strict=False) for one in self.allow_private)

    def allows(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether the address is among those of one's own that may be called, in whichever way it is written."""
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)

    def wants(self, kind: EventType, places: Iterable[ConversationKey]) -> bool:
        """Whether it is told of such an event; `places` are that of the event and those around it."""
        if self.events and kind not in self.events:
            return False
        patterns = [PlacePattern.of(one) for one in self.places]
        return not patterns or any(pattern.holds(place) for place in places for pattern in patterns)

    def mistakes(self) -> Iterator[str]:
        """Mistakes, one line each, without the address and the secret."""
        if not _NAME.fullmatch(self.name):
            yield f'name: "{self.name}" is no name; use small letters, digits, - and _, 32 at most'
        yield from self._mistakes_of_address()
        try:
            long_enough = len(self.key) >= LEAST_SECRET
        except ValueError as error:
            yield f"secret: {error}"
        else:
            if not long_enough:
                made = 'write "whsec_" and what `openssl rand -base64 32` prints'
                yield f"secret: is shorter than {LEAST_SECRET} characters; {made}"
        for place in self.places:
            if place != "*" and not place.partition(":")[0]:
                yield f'places: "{place}" names no place; write it as "telegram:-1005" or "slack:*"'
        for one in self.allow_private:
            try:
                everything = ip_network(one, strict=False).prefixlen == 0
            except ValueError:
                everything = True
            if everything:
                yield f'allow_private: "{one}" is no address or network; name each, as in "10.0.0.5"'

    def _mistakes_of_address(self) -> Iterator[str]:
        parts = web_address(self.address)
        if parts is None:
            yield 'url: is no address; write it as "https://example.org/hook"'
        elif parts.username or parts.password:
            yield "url: holds a name or a password; the signature tells the receiver who calls"
        elif parts.scheme == "http" and not self.allow_private:
            yield "url: must begin with https://; http:// is for addresses of allow_private"


def key_of(secret: str) -> bytes:
    """The bytes that sign. Raises ValueError with what is wrong with an encoded secret."""
    if not secret.startswith(ENCODED):
        return secret.encode()
    try:
        key = b64decode(secret.removeprefix(ENCODED), validate=True)
    except ValueError:
        raise ValueError(f"is no Base64 behind {ENCODED}; a plain text needs no {ENCODED}") from None
    if not LEAST_KEY <= len(key) <= MOST_KEY:
        raise ValueError(f"holds {len(key)} bytes; use {LEAST_KEY} to {MOST_KEY}, as `openssl rand -base64 32` makes")
    return key


def mistakes_of(subscriptions: tuple[EventSettings, ...]) -> Iterator[str]:
    """Mistakes of the sections together."""
    for index, one in enumerate(subscriptions):
        yield from (f"events[{index}].{mistake}" for mistake in one.mistakes())
    if len(subscriptions) > MOST:
        yield f"events: {len(subscriptions)} sections are too many; use {MOST} or fewer"
    names = [one.name for one in subscriptions]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f'events: two sections are called "{name}"; give each its own name'
