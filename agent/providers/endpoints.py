"""Addresses of model APIs. Pure."""

from urllib.parse import urlsplit

_LOCAL = ("localhost", "127.", "::1", "0.0.0.0")  # noqa: S104 - compared with, never bound


def joined(base_url: str, path: str) -> str:
    """`path` below `base_url`, unless that already ends with it."""
    base = base_url.rstrip("/")
    return base if base.endswith("/" + path) else f"{base}/{path}"


def host_of(url: str) -> str:
    """Host and port alone: an address may carry a password."""
    parts = urlsplit(url)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.hostname or 'the endpoint'}{port}"


def is_local(url: str) -> bool:
    """On this machine: never through the proxy of the environment."""
    return (urlsplit(url).hostname or "").startswith(_LOCAL)


def is_url(text: str, *schemes: str) -> bool:
    """An address with one of these schemes and a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # broken brackets, a port that is no number
        return False
