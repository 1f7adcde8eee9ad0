"""Addresses of the public internet; all others belong to somebody's own network, perhaps ours. Pure."""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, urlsplit

import idna

from agent.core.errors import ToolError
from agent.tools.settings import WebSettings

Address = IPv4Address | IPv6Address

# Networks that `is_global` of some Python versions still takes for public.
_ALSO_CLOSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(one)
    for one in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
        "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
    )
)  # fmt: skip
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")


def is_public(address: Address) -> bool:
    """Whether it, and every older address that is written into it, is on the public internet."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    if any(not is_public(inner) for inner in _within(address)):
        return False
    if isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address in _NAT64):
        return True  # the address within is, and these forms are closed by themselves
    closed = any(address in network for network in _ALSO_CLOSED if network.version == address.version)
    return address.is_global and not closed and not (address.is_multicast or address.is_reserved)


def _within(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to: mapped, compatible, 6to4, NAT64, Teredo."""
    if not isinstance(address, IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address in _NAT64 or address in _COMPATIBLE:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        yield IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
    if address.teredo is not None:
        yield from address.teredo


# Targets on the web: what an address means, and whether it may be fetched. Resolves nothing. Pure.

LONGEST = 2_000  # characters
LEAST_PORT = 1024  # besides the web's own; below it other protocols listen
_LABELS = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
# Names that mean somebody's own network, whatever they resolve to.
_LOCAL = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa", "in-addr.arpa", "ip6.arpa",
          "localdomain", "onion", "test", "invalid", "example", "kubernetes", "svc", "docker", "consul")  # fmt: skip


class NotAllowed(ToolError):
    """The address may not be asked for; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request goes. `path` is with its query, and escaped; `internal`: the operator has opened this one."""

    scheme: str
    host: str
    port: int
    path: str
    internal: bool = False

    @property
    def url(self) -> str:
        """The address as it is asked for."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def target_of(url: str, settings: WebSettings) -> Target:
    """The one thing that `url` means, if it may be fetched. Raises NotAllowed with the reason."""
    target = named_target(url)
    internal = _is_among(target.host, target.port, settings.internal)
    if not internal:
        _check(target.host, target.port, settings)
    return replace(target, internal=internal)


def named_target(url: str) -> Target:
    """The one thing that `url` means, whoever's it is. Raises NotAllowed with the reason."""
    text = url.strip()
    if len(text) > LONGEST:
        raise NotAllowed(f"the address is longer than {LONGEST} characters")
    if odd := next((sign for sign in text if sign in '\\ "<>^`{|}' or unicodedata.category(sign)[0] in "CZ"), None):
        raise NotAllowed(f"the address holds {odd!r}, which no address does; escape it")
    if "://" not in text:
        raise NotAllowed("give a whole address, beginning with https://")
    try:
        parts = urlsplit(text)
        port, name = parts.port, parts.hostname
    except ValueError as error:
        raise NotAllowed(f"{url!r} is no address: {error}") from error
    if parts.scheme.lower() not in ("http", "https"):
        raise NotAllowed(f"{parts.scheme}:// is not fetched; only http:// and https:// are")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise NotAllowed("an address with a name or password in it is not fetched")
    scheme, host = parts.scheme.lower(), _host(name or "")
    number = port if port is not None else {"http": 80, "https": 443}[scheme]
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = f"?{quote(parts.query, safe='/?%:@!$&()*+,;=~-._' + chr(39))}" if parts.query else ""
    return Target(scheme=scheme, host=host, port=number, path=path + query)


def _check(host: str, port: int, settings: WebSettings) -> None:
    if _is_below(host, _LOCAL) or ("." not in host and ":" not in host and not host.isdigit()):
        raise NotAllowed(f"{host} is a name of a private network; the operator may open it ([tools.web] internal)")
    if _is_below(host, settings.blocked):
        raise NotAllowed(f"the operator does not allow {host}")
    if settings.only and not _is_below(host, settings.only):
        raise NotAllowed(f"the operator allows {', '.join(settings.only)} only, not {host}")
    if port not in (80, 443) and port < LEAST_PORT:
        raise NotAllowed(f"port {port} is not the web's")


def _host(name: str) -> str:
    """The name in small ASCII letters without a last dot, or the bare number of an IPv6 address."""
    if ":" in name:
        try:
            if "%" in name:
                raise ValueError("it names an interface of this machine")
            return str(ip_address(name))
        except ValueError as error:
            raise NotAllowed(f"{name} is no address of a host: {error}") from error
    folded = unicodedata.normalize("NFKC", name).lower().replace("\u3002", ".").rstrip(".")
    if not folded.isascii():
        try:
            folded = idna.encode(folded, uts46=True).decode()
        except idna.IDNAError as error:
            raise NotAllowed(f"{name} is no name of a host: {error}") from error
    if not _LABELS.fullmatch(folded):
        raise NotAllowed(f"{name!r} is no name of a host")
    return folded


def _is_below(host: str, names: Collection[str]) -> bool:
    return any(host == name.lower() or host.endswith(f".{name.lower()}") for name in names)


def _is_among(host: str, port: int, places: Collection[str]) -> bool:
    shown = f"[{host}]" if ":" in host else host
    return any(place.lower() in (host, shown, f"{shown}:{port}") for place in places)
