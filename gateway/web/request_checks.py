"""Checks of requests to a web server on somebody's machine. Pure.

A page of another site can make a browser ask us (cross-site request), or make its own name resolve to us (DNS
rebinding). Host and Origin tell both.
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from gateway.config.sections import WebSettings, is_loopback

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "media-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)

SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
}


def own_hosts(settings: WebSettings, port: int) -> frozenset[str]:
    """The `Host` values that mean us, in lower case, with and without the port where that is the usual one."""
    names = {"localhost", "127.0.0.1", "[::1]", _bracketed(settings.host)}
    hosts = {f"{name}:{port}" for name in names}
    if port == 80:
        hosts |= names
    if settings.public_url:
        hosts |= _both_forms(urlsplit(settings.public_url).netloc)
    for name in settings.allowed_hosts:
        hosts |= {name.lower(), f"{name.lower()}:{port}"}
    return frozenset(host.lower() for host in hosts)


def host_allowed(host: str, settings: WebSettings, hosts: Collection[str]) -> bool:
    """Is the request meant for us? A bare address cannot be rebound, so it is fine where other machines may connect."""
    host = host.lower()
    if host in hosts:
        return True
    return settings.allow_remote and not is_loopback(settings.host) and _is_address(host)


def origin_allowed(*, origin: str | None, fetch_site: str | None, host: str, hosts: Collection[str]) -> bool:
    """Did a page of ours send it? Every browser sends `Origin` with a POST; without one, `Sec-Fetch-Site` must say so.

    A request with neither comes from no browser and has no cookie to abuse; the token is asked for all the same.
    """
    if origin is not None:
        return urlsplit(origin).netloc.lower() in {*hosts, host.lower()}
    return fetch_site in {None, "same-origin"}


def directly_local(client: str | None, headers: Mapping[str, str], settings: WebSettings) -> bool:
    """Does it come from this machine itself, and not through a proxy here that speaks for somebody else?

    Not every proxy says that it is one, and some write our own address into `Host`: whoever has configured a public
    address has a proxy, and then nothing that comes from this machine is known to be of this machine.
    """
    forwarded = any(name in headers for name in ("x-forwarded-for", "forwarded", "x-real-ip", "via"))
    host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    return client is not None and is_loopback(client) and is_loopback(host) and not forwarded and not settings.is_public


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _both_forms(netloc: str) -> set[str]:
    """`chat.example.org` and `chat.example.org:443` are the same place."""
    return {netloc.lower(), netloc.lower().removesuffix(":443").removesuffix(":80")}


def _is_address(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
