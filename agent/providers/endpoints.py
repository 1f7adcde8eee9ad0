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


def without_login(url: str) -> str:
    """The address without user, password and query, for places where no secret may stand."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")


def is_local(url: str) -> bool:
    """On this machine: never through the proxy of the environment."""
    return (urlsplit(url).hostname or "").startswith(_LOCAL)


def is_url(text: str, *schemes: str) -> bool:
    """An address with one of these schemes and a host that can be looked up."""
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and _is_host(parts.hostname or "") and parts.port != 0
    except ValueError:  # broken brackets, a port that is no number
        return False


def _is_host(name: str) -> bool:
    """Whether HTTP clients take it; they end with errors of their own at one that is not."""
    if name.isascii():
        return bool(name) and name.isprintable() and " " not in name
    import idna  # only here: a start without such a name does not wait for it

    try:
        idna.encode(name, uts46=True)
    except idna.IDNAError:
        return False
    return True
