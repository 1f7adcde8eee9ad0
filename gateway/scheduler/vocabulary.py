"""The words for times, English and German, as the tokens that `when` reads. Data only."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Span = Literal["seconds", "minutes", "hours", "days", "weeks", "months", "years"]


def _table(**rows: str) -> Mapping[str, str]:
    """From word to token."""
    return MappingProxyType({word: token for token, words in rows.items() for word in words.split()})


UNITS = _table(
    seconds="s sec secs second seconds sek sekunde sekunden",
    minutes="m min mins minute minutes minuten",
    hours="h hr hrs hour hours std stunde stunden",
    days="d day days tag tage tagen",
    weeks="w wk wks week weeks woche wochen",
    months="month months monat monate monaten",
    years="y yr year years jahr jahre jahren",
)
SECONDS: Mapping[str, int] = MappingProxyType(
    {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}
)
NUMBERS: Mapping[str, int] = MappingProxyType(
    {
        word: number
        for number, words in enumerate(
            (
                "a an one ein eine einem einen einer eins",
                "two zwei other second zweite zweiten zweiter",
                "three drei third dritte dritten dritter",
                "four vier fourth vierte vierten vierter",
                "five fünf fifth fünfte fünften fünfter",
                "six sechs",
                "seven sieben",
                "eight acht",
                "nine neun",
                "ten zehn",
                "eleven elf",
                "twelve zwölf",
            ),
            1,
        )
        for word in words.split()
    }
)
# Places in a month, as APScheduler calls them.
PLACES = _table(
    **{
        "1st": "first 1st 1. erste ersten erster",
        "2nd": "second 2nd 2. zweite zweiten zweiter",
        "3rd": "third 3rd 3. dritte dritten dritter",
        "4th": "fourth 4th 4. vierte vierten vierter",
        "5th": "fifth 5th 5. fünfte fünften fünfter",
        "last": "last letzte letzten letzter",
    }
)
WEEKDAYS: Mapping[str, int] = MappingProxyType(
    {
        form: number
        for number, words in enumerate(
            (
                "monday mon montag mo",
                "tuesday tue tues dienstag di",
                "wednesday wed mittwoch mi",
                "thursday thu thur thurs donnerstag do",
                "friday fri freitag fr",
                "saturday sat samstag sonnabend sa",
                "sunday sun sonntag so",
            )
        )
        for word in words.split()
        for form in ((word, f"{word}s") if len(word) > 3 else (word,))
    }
)
MONTHS: Mapping[str, int] = MappingProxyType(
    {
        word: number
        for number, words in enumerate(
            (
                "january jan januar",
                "february feb februar",
                "march mar märz mär",
                "april apr",
                "may mai",
                "june jun juni",
                "july jul juli",
                "august aug",
                "september sep sept",
                "october oct oktober okt",
                "november nov",
                "december dec dezember dez",
            ),
            1,
        )
        for word in words.split()
    }
)
# Groups of weekdays.
GROUPS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        word: days
        for days, words in (
            ((0, 1, 2, 3, 4), "weekday weekdays workday workdays werktag werktags werktage wochentag wochentags"),
            ((5, 6), "weekend weekends wochenende wochenenden"),
        )
        for word in words.split()
    }
)
# Adverbs that stand for "every …".
ADVERBS = _table(
    days="daily täglich",
    weeks="weekly wöchentlich",
    months="monthly monatlich",
    years="yearly annually jährlich",
    hours="hourly stündlich",
)
# Parts of a day, and the hour that is meant by them.
PARTS: Mapping[str, int] = MappingProxyType(
    {
        word: hour
        for hour, words in (
            (0, "midnight mitternacht"),
            (9, "morning früh vormittag morgens"),
            (12, "noon midday mittag mittags"),
            (15, "afternoon nachmittag nachmittags"),
            (19, "evening abend abends"),
            (21, "night nacht nachts"),
        )
        for word in words.split()
    }
)
# The small words, by what they do; one word may do several things.
WITHIN = frozenset({"in"})
EVERY = frozenset(["every", "each", "jede", "jeden", "jeder", "jedes", "jedem", "alle"])
AT = frozenset(["at", "um", "@", "gegen"])
ON = frozenset(["on", "am", "an", "den"])
FROM = frozenset(["between", "from", "zwischen", "von"])
UP_TO = frozenset(["and", "to", "until", "till", "-", "–", "und", "bis"])
AND = frozenset(["and", "und", ",", "&"])
HALF = frozenset(["half", "halbe", "halben", "halb"])
QUARTER = frozenset(["quarter", "viertel"])
PAST = frozenset(["past", "after", "nach"])
BEFORE = frozenset(["before", "to", "vor"])
OCLOCK = frozenset(["uhr", "o'clock", "oclock"])
TODAY = frozenset(["today", "heute"])
TOMORROW = frozenset(["tomorrow", "tmr", "morgen"])
DAY_AFTER_TOMORROW = frozenset({"übermorgen"})
TONIGHT = frozenset({"tonight"})
NEXT = frozenset(["next", "this", "nächste", "nächsten", "nächster", "nächstes", "diese", "diesen"])
THE = frozenset(["the", "der", "die", "das", "dem", "des", "of"])
ME = frozenset(["me", "mich", "mir", "us", "uns"])
LINK = frozenset(["to", "that", "about", ":", "-", "–", ",", "zu", "dass", "an"])
LAST = frozenset(["last", "letzte", "letzten", "letzter"])
DAY_HOUR = 9  # when only a day was named
