"""Which words of a text tell what it is about, and its pieces. Pure."""

import re
from collections.abc import Sequence

MOST_WORDS = 24  # of a query
_ENDINGS = ("ing", "ed", "es", "en", "em", "s", "n", "e")  # the longest first
_WORD = re.compile(r"[^\W_]+")
# Signs that make another thing of a word: C++, -18, $5. Not the marks between sentences and within words.
_SIGNED = re.compile(r"[^\W_]+|(?<!\w)-(?=\w)|[^\w\s.,;:!?'\"()\[\]{}…–—„“”‚‘’«»`*-]")
# Where a fence is never closed, none behind it is either: the second form takes the rest, so that nobody looks again.
_FENCE = re.compile(r"^(?:```|~~~)[^\n]*+\n(?:(.*?)^(?:```|~~~)\s*$|.*+)", re.MULTILINE | re.DOTALL)

# Words that nearly every message holds; English and German.
STOP = frozenset(
    _WORD.findall(
        """
        hello hi hey morning evening night bye good great nice cool fine sure well maybe
        hallo moin servus danke tschüss guten morgen abend nacht gut super schön klar vielleicht
        a about after all also am an and any are as at be because been before but by can cannot could did do does
        doing done don down during each few for from further get give go got had has have having he her here hers
        him his how i if in into is it its itself just know let like ll me more most my myself no nor not now of off
        ok okay on once only or other our ours out over own please re s same say said says she should so some still
        such t tell than thank thanks that the their theirs them then there these they this those through to too
        under until up us ve very was we were what when where which while who whom whose why will with would yes you
        your yours aber als am an auch auf aus bei bin bist bitte da dann das dass dein deine dem den der des dich
        die dir doch du ein eine einem einen einer eines er es euch euer für hab habe haben hast hat hatte ich ihm
        ihn ihr ihre im in ist ja jetzt kann kannst man mein meine meinem meinen meiner mich mir mit nach nein nicht
        noch nun nur oder schon sein seine sich sie sind so über um und uns unser von vor war waren warum was weil
        welche welcher welches wenn wer wie wieder wir wird wo zu zum zur
        """
    )
)


def words_of(text: str) -> tuple[str, ...]:
    """Every word, in lower case, in order."""
    return tuple(_WORD.findall(text.lower()))


def signed_words_of(text: str) -> tuple[str, ...]:
    """The same with the signs that make another thing of a word."""
    return tuple(_SIGNED.findall(text.lower()))


def telling(text: str) -> tuple[str, ...]:
    """The words that say what it is about, each once; all of them where that would leave nothing."""
    every = tuple(dict.fromkeys(words_of(text)))
    return tuple(word for word in every if word not in STOP)[:MOST_WORDS] or every[:MOST_WORDS]


def is_about_something(text: str) -> bool:
    """Whether it holds a word that a memory can be asked for; a greeting does not."""
    return any(len(word) > 2 and word not in STOP for word in words_of(text))


def coverage(words: Sequence[str], text: str) -> float:
    """The share (0..1) of `words` that stand in the text, in whatever form."""
    if not words:
        return 0.0
    stems = {stem(word) for word in words_of(text)}
    return sum(stem(word) in stems for word in words) / len(words)


def stem(word: str) -> str:
    """The word without the ending of a plural, a case or a tense, in English and German; roughly."""
    if not word.endswith(_ENDINGS) or any(map(str.isdigit, word)):
        return word
    ending = next((one for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= 3), "")
    return word.removesuffix(ending)


def code_in(text: str) -> tuple[str, ...]:
    """The fenced blocks of a text."""
    return tuple(found.strip("\n") for found in _FENCE.findall(text) if found.strip())


def without_code(text: str) -> str:
    """The text with an ellipsis in place of each fenced block."""
    if "```" not in text and "~~~" not in text:
        return text
    return _FENCE.sub(lambda fence: fence[0] if fence[1] is None else "…", text)


def text_pieces(text: str, longest: int) -> tuple[str, ...]:
    """The text in pieces of at most so many characters, cut at the end of a line, a sentence or a word."""
    found = []
    text, at = text.strip(), 0
    while len(text) - at > longest:
        cut = max(text.rfind(mark, at + longest // 2, at + longest) for mark in ("\n", ". ", " "))
        cut = cut + 1 if cut > at else at + longest
        found.append(text[at:cut].strip())
        at = cut
        while text[at].isspace():  # the text ends with something else
            at += 1
    return tuple(piece for piece in (*found, text[at:]) if piece)
