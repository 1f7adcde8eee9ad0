"""Addresses that the configuration names. Pure."""

from urllib.parse import SplitResult, urlsplit


def web_address(text: str) -> SplitResult | None:
    """The parts of an address of the web; None for what is none."""
    try:
        parts = urlsplit(text)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if known and not any(character.isspace() for character in text) else None
