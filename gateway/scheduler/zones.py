"""Time zones as people name them: IANA names, cities, offsets; and which ones a language makes likely."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from gateway.scheduler.mistakes import Mistake

LONGEST = 64
LIKE = 0.75  # 0..1, of difflib: above what any made-up name has in common with some city

# What to offer somebody of whom only the language is known: the most populous zones where it is spoken.
_LIKELY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "de": ("Europe/Berlin", "Europe/Vienna", "Europe/Zurich"),
        "en": (
            "America/New_York",
            "America/Chicago",
            "America/Los_Angeles",
            "Europe/London",
            "Asia/Kolkata",
            "Australia/Sydney",
        ),
        "es": ("America/Mexico_City", "America/Bogota", "America/Argentina/Buenos_Aires", "Europe/Madrid"),
        "fr": ("Europe/Paris", "America/Toronto", "Africa/Abidjan"),
        "it": ("Europe/Rome",),
        "ja": ("Asia/Tokyo",),
        "ko": ("Asia/Seoul",),
        "nl": ("Europe/Amsterdam", "Europe/Brussels"),
        "pl": ("Europe/Warsaw",),
        "pt": ("America/Sao_Paulo", "Europe/Lisbon"),
        "ru": ("Europe/Moscow", "Asia/Yekaterinburg", "Asia/Novosibirsk"),
        "tr": ("Europe/Istanbul",),
        "uk": ("Europe/Kyiv",),
        "zh": ("Asia/Shanghai", "Asia/Taipei", "Asia/Hong_Kong"),
    }
)


def zone_named(name: str) -> ZoneInfo:
    """The zone of this very name. Raises Mistake with the nearest names."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise _unknown(name) from error


def find_zone(text: str) -> str:
    """The IANA name that a person means by a name, a city or an offset from UTC. Raises Mistake."""
    wanted = "_".join(text.split()).lower()
    if offset := _by_offset(wanted):
        return offset
    names = available_timezones()
    for name in sorted(names, key=lambda one: (one.startswith(("Etc/", "posix", "SystemV")), one)):
        if name.lower() == wanted or name.rpartition("/")[2].lower() == wanted:
            return name
    raise _unknown(text)


def is_zone(name: str | None) -> bool:
    """Whether a platform's word for a zone can be used."""
    if not name or len(name) > LONGEST:
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def likely_zones(language: str) -> tuple[str, ...]:
    """What to offer, most likely first; never empty."""
    return _LIKELY.get(language.partition("-")[0].lower(), _LIKELY["en"])


def _by_offset(wanted: str) -> str | None:
    """Whole hours only: zones with a name know the rest. The sign of `Etc/GMT` is the other way round (POSIX)."""
    if wanted in ("utc", "gmt", "z"):
        return "UTC"
    hours = wanted.removeprefix("utc").removeprefix("gmt").replace("−", "-")
    if hours[:1] not in ("+", "-") or not hours[1:].removesuffix(":00").isdecimal():
        return None
    number = int(hours.removesuffix(":00"))
    if not -12 <= number <= 14:
        return None
    return f"Etc/GMT{-number:+d}" if number else "UTC"


def _unknown(text: str) -> Mistake:
    names = {name.rpartition("/")[2].lower(): name for name in sorted(available_timezones())}
    wanted = "_".join(text.split()).lower().rpartition("/")[2]
    close = get_close_matches(wanted, names, n=3, cutoff=LIKE)
    if not close:
        return Mistake("zone_like_none", name=text[:LONGEST])
    return Mistake("zone_unknown", name=text[:LONGEST], near=", ".join(names[name] for name in close))
