"""Time zones as people name them: IANA names, cities, offsets; and which ones a language makes likely."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from gateway.phrases.catalogue import UsageError

LONGEST = 64
LIKE = 0.75  # 0..1, of difflib: above what any made-up name has in common with some city

# Zones to offer a person of whom only the language is known: the most populous where it is spoken.
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
# Letters that people read off their clocks, for the zone that has them now or in half a year; the database has some of
# the same names for clocks that never change (EST). Cities that it has not.
_MEANT: Mapping[str, str] = MappingProxyType(
    {
        word: zone
        for zone, words in (
            ("America/New_York", "est edt et eastern boston washington miami atlanta philadelphia"),
            ("America/Chicago", "cst cdt ct central houston dallas austin"),
            ("America/Denver", "mst mdt mt mountain"),
            ("America/Los_Angeles", "pst pdt pt pacific san_francisco seattle san_diego"),
            ("America/Toronto", "montreal ottawa"),
            ("Europe/London", "bst uk england manchester edinburgh"),
            ("Europe/Berlin", "cet cest mez mesz munich münchen hamburg köln cologne frankfurt germany deutschland"),
            ("Europe/Zurich", "zürich geneva genf bern"),
            ("Europe/Vienna", "wien austria österreich"),
            ("Europe/Rome", "milan milano mailand"),
            ("Asia/Kolkata", "delhi new_delhi mumbai bangalore bengaluru chennai hyderabad india"),
            ("Asia/Shanghai", "beijing peking shenzhen china"),
            ("Asia/Tokyo", "jst japan osaka"),
            ("Asia/Seoul", "kst"),
            ("Europe/Moscow", "msk moskau"),
            ("Australia/Sydney", "aedt canberra"),
            ("Pacific/Auckland", "nzst nzdt wellington"),
            ("America/Sao_Paulo", "rio rio_de_janeiro brasilia"),
        )
        for word in words.split()
    }
)
_SEVERAL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gmt": ("Europe/London", "Africa/Accra", "UTC"),
        "ist": ("Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"),
        "aest": ("Australia/Sydney", "Australia/Brisbane"),
    }
)
_OFFSET = re.compile(r"(?:utc|gmt)?([+-])(\d{1,2})(?::?(\d{2}))?")
# Offsets that are no whole hours, where clocks never change.
_BROKEN_OFFSETS: Mapping[str, str] = MappingProxyType(
    {
        "-9:30": "Pacific/Marquesas",
        "+3:30": "Asia/Tehran",
        "+4:30": "Asia/Kabul",
        "+5:30": "Asia/Kolkata",
        "+5:45": "Asia/Kathmandu",
        "+6:30": "Asia/Yangon",
        "+8:45": "Australia/Eucla",
        "+9:30": "Australia/Darwin",
    }
)


def zone_named(name: str) -> ZoneInfo:
    """The zone of this very name. Raises UsageError with the nearest names."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise _unknown(name) from error


def all_zones(language: str) -> tuple[str, ...]:
    """The names of all zones that a place has, those where the language is spoken first."""
    named = (name for name in sorted(available_timezones()) if "/" in name and not name.startswith(("Etc/", "posix/")))
    return tuple(dict.fromkeys((*_LIKELY.get(language, ()), *named)))


def find_zone(text: str) -> str:
    """The IANA name that a person means by a name, a city, letters (EST) or an offset from UTC. Raises UsageError."""
    wanted = "_".join(text.split()).lower()
    if likely := _SEVERAL.get(wanted):
        raise UsageError("zone_which", name=text[:LONGEST], near=", ".join(likely))
    if known := _MEANT.get(wanted) or _by_offset(wanted):
        return known
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
    """Zones to offer, most likely first; never empty."""
    return _LIKELY.get(language.partition("-")[0].lower(), _LIKELY["en"])


def _by_offset(wanted: str) -> str | None:
    """A zone whose clocks always show that offset. The sign of `Etc/GMT` is the other way round (POSIX)."""
    if wanted in ("utc", "z"):
        return "UTC"
    found = _OFFSET.fullmatch(wanted.replace("−", "-"))
    if found is None:
        return None
    hours, minutes = int(found[2]), int(found[3] or 0)
    if minutes:
        return _BROKEN_OFFSETS.get(f"{found[1]}{hours}:{minutes:02}")
    hours = -hours if found[1] == "-" else hours
    if not -12 <= hours <= 14:
        return None
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def _unknown(text: str) -> UsageError:
    names = {name.rpartition("/")[2].lower(): name for name in sorted(available_timezones())}
    wanted = "_".join(text.split()).lower().rpartition("/")[2]
    close = get_close_matches(wanted, names, n=3, cutoff=LIKE)
    if not close:
        return UsageError("zone_like_none", name=text[:LONGEST])
    return UsageError("zone_unknown", name=text[:LONGEST], near=", ".join(names[name] for name in close))
