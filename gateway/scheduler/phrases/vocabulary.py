"""The words for times, English and German, as the tokens that `when` reads. Data only."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Span = Literal["seconds", "minutes", "hours", "days", "weeks", "months", "years"]


def _table(**rows: str) -> Mapping[str, str]:
    """From word to token."""
    return MappingProxyType({word: token for token, words in rows.items() for word in words.split()})


def _words(row: str) -> frozenset[str]:
    return frozenset(row.split())


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
# Hours as words: none of these is an article.
HOURS: Mapping[str, int] = MappingProxyType(
    {
        word: number
        for number, words in enumerate(
            (
                "one eins",
                "two zwei",
                "three drei",
                "four vier",
                "five fünf",
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
_MORE_NUMBERS = {
    1: "a an ein eine einem einen einer",
    2: "other second 2nd 2. zweite zweiten zweiter",
    3: "third 3rd 3. dritte dritten dritter",
    4: "fourth 4th 4. vierte vierten vierter",
    5: "fifth 5th 5. fünfte fünften fünfter",
}
# The same, articles, and what stands before a unit: "every other day", "jede zweite Woche".
NUMBERS: Mapping[str, int] = MappingProxyType(
    {**HOURS, **{word: number for number, words in _MORE_NUMBERS.items() for word in words.split()}}
)
# Days of a month as words.
ORDINALS: Mapping[str, int] = MappingProxyType(
    {
        form: number
        for words in (
            "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
            " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third"
            " twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first",
            "erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte dreizehnte vierzehnte"
            " fünfzehnte sechzehnte siebzehnte achtzehnte neunzehnte zwanzigste einundzwanzigste zweiundzwanzigste"
            " dreiundzwanzigste vierundzwanzigste fünfundzwanzigste sechsundzwanzigste siebenundzwanzigste"
            " achtundzwanzigste neunundzwanzigste dreißigste einunddreißigste",
        )
        for number, word in enumerate(words.split(), 1)
        for form in (word, f"{word}n", f"{word}r")
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
        word: number
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
    }
)
# Words of other meanings besides: a weekday only behind "on", "next", "every", or right before a time of the day.
GERMAN_SHORT = frozenset(["mo", "di", "mi", "do", "fr", "sa", "so"])
AMBIGUOUS = GERMAN_SHORT | {"sat", "sun"}
BEHIND_GERMAN_AM = _words(
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag morgen vormittag mittag nachmittag abend"
)
# Mondays, montags: every one of them.
PLURALS: Mapping[str, int] = MappingProxyType(
    {f"{word}s": day for word, day in WEEKDAYS.items() if word.endswith(("day", "tag", "abend", "woch"))}
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
SINGLE_GROUPS = _words("weekday workday werktag wochentag weekend wochenende")  # of those, not every one
# Adverbs that stand for "every …".
ADVERBS = _table(
    days="daily täglich",
    weeks="weekly wöchentlich",
    months="monthly monatlich",
    years="yearly annually jährlich",
    hours="hourly stündlich",
)


class Part(NamedTuple):
    """A part of a day: the hour that is meant by it alone, and those it holds; from 24 on they are the next day's."""

    usual: int
    first: int
    last: int


MORNING = Part(9, 0, 11)
TONIGHT_PART = Part(20, 16, 29)
PARTS: Mapping[str, Part] = MappingProxyType(
    {
        word: part
        for part, words in (
            (MORNING, "morning früh morgens"),
            (Part(9, 6, 12), "vormittag vormittags"),
            (Part(12, 11, 14), "noon midday mittag mittags"),
            (Part(15, 12, 18), "afternoon nachmittag nachmittags"),
            (Part(19, 16, 24), "evening abend abends"),
            (Part(21, 18, 29), "night"),
            (Part(21, 20, 29), "nacht nachts"),
            (Part(24, 24, 24), "midnight mitternacht"),
        )
        for word in words.split()
    }
)
# They need no preposition to say when; the nouns may belong to the text: "night shift".
PART_ADVERBS = _words("früh morgens vormittags mittags nachmittags abends nachts noon midnight mitternacht")
MOMENTS: Mapping[str, int] = MappingProxyType({"noon": 12, "midday": 12, "midnight": 24, "mitternacht": 24})
# The small words, by what they do; one word may do several things.
WITHIN = frozenset({"in"})
EVERY = frozenset(["every", "each", "jede", "jeden", "jeder", "jedes", "jedem", "alle"])
AT = frozenset(["at", "um", "@", "gegen"])
ON = frozenset(["on", "am", "an", "den"])
SURELY_ON = frozenset(["on", "am"])
IN_A_PART = frozenset(["in", "at", "am", "gegen"])
FROM = frozenset(["between", "from", "zwischen", "von"])
UP_TO = frozenset(["and", "to", "until", "till", "-", "–", "und", "bis"])
THROUGH = frozenset(["to", "through", "thru", "until", "till", "-", "–", "bis"])
BOUNDS = frozenset(["until", "till", "bis", "from", "starting", "since", "except", "von", "ab", "seit", "außer"])
FOR = frozenset(["for", "für"])
IN_MONTH = frozenset(["in", "im"])
AND = frozenset(["and", "und", ",", "&"])
COMMA = frozenset({","})
HALF = frozenset(["half", "halbe", "halben", "halb"])
QUARTER = frozenset(["quarter", "viertel"])
PAST = frozenset(["past", "after", "nach"])
BEFORE = frozenset(["before", "to", "vor"])
OCLOCK = frozenset(["uhr", "o'clock", "oclock"])
TODAY = frozenset(["today", "heute"])
TOMORROW = frozenset(["tomorrow", "tmr", "morgen"])
DAY_AFTER_TOMORROW = frozenset({"übermorgen"})
TONIGHT = frozenset({"tonight"})
THIS = frozenset(["this", "diese", "diesen"])
NEXT = frozenset(["next", "nächste", "nächsten", "nächster", "nächstes"]) | THIS
THE = frozenset(["the", "der", "die", "das", "dem", "des", "of"])
MONTH = frozenset(["month", "monat", "monats", "monates"])
DAY = frozenset(["day", "tag"])
ME = frozenset(["me", "mich", "mir", "us", "uns"])
LINK = frozenset(["to", "that", "about", ":", "-", "–", ",", "zu", "dass", "an"])
LAST = frozenset(["last", "letzte", "letzten", "letzter"])
# Behind one of these a time belongs to the text: "a table for friday". No particles of verbs: "ruf an um 9".
HANGING = _words(
    "of des the am at next every each jede jeden jedes and und for für from since until till starting bis von vom seit"
    " about before after except außer zum than"
)
# Any piece of a time begins with one of these, a number, or a range such as mo-fr.
BEGINNINGS = frozenset().union(
    *(EVERY, ADVERBS, ON, THE, PLACES, ORDINALS, WITHIN, FROM, AT, HALF, QUARTER, HOURS, MOMENTS, IN_A_PART, PARTS),
    *(TODAY, TOMORROW, DAY_AFTER_TOMORROW, TONIGHT, NEXT, MONTHS, WEEKDAYS, PLURALS, GROUPS, BOUNDS, FOR, IN_MONTH),
    {"day"},  # after tomorrow
)
DAY_HOUR = 9  # when only a day was named
