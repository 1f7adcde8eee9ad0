"""The `[web]` section: where the web server listens and whom it believes."""

from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from agent.core.section_config import SECTION_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """`host` other than loopback needs `allow_remote = true`. Sizes are in mebibytes.

    `public_url` is how people reach it from outside (`https://chat.example.org`): sign-in links and webhooks use it.
    `allowed_hosts` are further names it may be called by. `trusted_proxies` are the addresses or networks whose
    `X-Forwarded-*` headers count; none by default. `metrics_token` lets a scraper in that is not on this machine.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    host: str = "127.0.0.1"
    port: int = 8080
    allow_remote: bool = False
    public_url: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    max_upload_mb: int = 20
    metrics_token: SecretStr | None = None

    def mistakes(self) -> list[str]:
        """What cannot work, one line each."""
        found = []
        if not 0 <= self.port <= 65535:
            found.append(f"web.port: {self.port} is no port; use 1 to 65535, or 0 for any free one")
        if not self.allow_remote and not is_loopback(self.host):
            found.append(
                f'web.host: "{self.host}" is reachable from other machines; set allow_remote = true if that is meant, '
                'or host = "127.0.0.1"'
            )
        if self.public_url is not None and not _is_origin(self.public_url):
            found.append(
                f'web.public_url: "{self.public_url}" must be scheme and host alone, as in "https://chat.example.org"'
            )
        found += [
            f'web.trusted_proxies: "{proxy}" is no address or network; name each proxy, as in "10.0.0.2"'
            for proxy in self.trusted_proxies
            if not _is_network(proxy)
        ]
        if not 1 <= self.max_upload_mb <= 1024:
            found.append(f"web.max_upload_mb: {self.max_upload_mb} must be between 1 and 1024")
        return found

    @property
    def is_public(self) -> bool:
        """Whether people reach it at another address than this machine's own: through a proxy."""
        return self.public_url is not None and not is_loopback(urlsplit(self.public_url).hostname or "")

    @property
    def scheme(self) -> Literal["http", "https"]:
        """What the browser sees; TLS is the reverse proxy's work."""
        return "https" if (self.public_url or "").startswith("https://") else "http"


def is_loopback(host: str) -> bool:
    """Does the name or address stay on this machine?"""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or parts.username or parts.path.strip("/"))
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and plain


def _is_network(text: str) -> bool:
    try:
        return ip_network(text, strict=False).prefixlen > 0  # the whole world is no name
    except ValueError:
        return False
