"""What an address on the web means, and whether it may be asked for at all; nothing is resolved here. Pure.

One reading of an address is made, and the request is built from that reading: what was checked is what is asked.
"""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

import idna

from agent.core.errors import ToolError
from agent.tools.reach import WebSettings

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
        """For the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def target_of(url: str, settings: WebSettings) -> Target:
    """The one thing that `url` means. Raises NotAllowed with the reason."""
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
    internal = _is_among(host, number, settings.internal)
    if not internal:
        _check(host, number, settings)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = f"?{quote(parts.query, safe='/?%:@!$&()*+,;=~-._' + chr(39))}" if parts.query else ""
    return Target(scheme=scheme, host=host, port=number, path=path + query, internal=internal)


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
