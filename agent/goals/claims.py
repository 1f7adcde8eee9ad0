"""Whether an answer says of its work that it is finished (SPEC §10.1, Z-89, Z-90; what counts as saying it is ours).

Not where a phrase is denied, put off or asked for, nor in code, quotations and task lists. Pure. It knows English and
German, and misses claims rather than make one up: an open goal harms nobody, a wrong "Goal reached" does.
"""

import re
from collections.abc import Iterator

SIGHT = 300  # characters of a sentence that are looked at on either side of a phrase
LONGEST_CLAIM = 64_000  # characters of an answer; of a longer one nobody says that it claims anything

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_QUOTED_LINE = re.compile(r"\s*>")
_TASK = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\[[ xX]\]")
_OWN_LINE = re.compile(r"\s*(?:[-*+•]\s|\d+[.)]\s|#{1,6}\s|\|)")  # an item, a heading, a row of a table
_ASIDE = re.compile(
    r"`+[^`\n]{0,300}+`+|~~[^~\n]{0,300}+~~|“[^”\n]{0,300}+”|„[^“”\n]{0,300}+[“”]|«[^»\n]{0,300}+»|»[^«\n]{0,300}+«"
    r"|\"[^\"\n]{0,300}+\"|(?<!\w)['‘‚][^'’‘\n]{0,300}+['’‘](?!\w)"
)
_EMPHASIS = re.compile(r"\*+|(?<!\w)_+|_+(?!\w)")
_BARE = str.maketrans({"*": None, "_": " "})
_COURTESY = re.compile(r"\b(?:no (?:problem|worries)|kein(?:e)? (?:problem|sorge))\b", re.IGNORECASE)

_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++(?=[\s)\]]|$)|[。！？]|\n\n")
_TURN = re.compile(r"[;:()](?=\s|$)|\s[–—-]\s|—|\b(?:but|however|aber|sondern|jedoch)\b", re.IGNORECASE)
_PART_END = re.compile(r"[,;:()]|\s[–—-]\s|—|\b(?:but|however|aber|sondern|jedoch)\b", re.IGNORECASE)

# No commas bound what comes before: "I have not, as you wished, finished it".
_NOT_BEFORE = re.compile(
    r"n['’]t\b|\b(?:not|no|never|nothing|none|nobody|cannot|neither|nor|without|hardly|barely|unable|fail(?:s|ed)?"
    r"|nicht|nichts|nie|niemals|niemand|kein(?:e[mnrs]?)?|weder|ohne|kaum"
    # and what is still to come
    r"|if|whether|when|once|until|till|unless|before|will|would|should|must|to be|almost|nearly|half|partly|partially"
    r"|wenn|ob|falls|sobald|bis|bevor|wird|werden|würden?|sollten?|muss|müssen|fast|beinahe|halb|teilweise)\b"
    r"|['’]ll\b",
    re.IGNORECASE,
)
# Fewer: "done without errors" is done.
_NOT_AFTER = re.compile(
    r"n['’]t\b|\b(?:not|never|nothing|none|nobody|nicht|nichts|nie|niemals|niemand|kein(?:e[mnrs]?)?)\b", re.IGNORECASE
)


def claims(text: str, completion: re.Pattern[str] | None) -> bool:
    """Whether one of the phrases is said, and meant."""
    if completion is None or len(text) > LONGEST_CLAIM:
        return False
    if completion.search(text.translate(_BARE)) is None:  # as in nearly every answer
        return False
    said = own_words(text)
    return any(_is_meant(said, phrase) for phrase in completion.finditer(said))


def own_words(text: str) -> str:
    """What the answer says itself: without code, quotations, task lists; blocks are apart by an empty line."""
    return _COURTESY.sub("", _EMPHASIS.sub("", _ASIDE.sub(" ' ", "".join(_lines(text)))))


def _lines(text: str) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            yield "\n\n"
        elif fence or not line.strip() or _QUOTED_LINE.match(line) or _TASK.match(line):
            yield "\n\n"
        elif _OWN_LINE.match(line):
            yield f"\n\n{line}\n\n" if line.lstrip().startswith(("#", "|")) else f"\n\n{line} "
        else:
            yield f"{line} "


def _is_meant(said: str, phrase: re.Match[str]) -> bool:
    before = said[max(0, phrase.start() - SIGHT) : phrase.start()]
    if _NOT_BEFORE.search(_TURN.split(_SENTENCE_END.split(before)[-1])[-1]):
        return False
    if phrase[0][-1] in ".!…":
        return True  # it ends its sentence itself
    after = said[phrase.end() : phrase.end() + SIGHT]
    end = _SENTENCE_END.search(after)
    if end is not None and end[0][0] in "?？":
        return False
    sentence = after if end is None else after[: end.start()]
    return _NOT_AFTER.search(_PART_END.split(sentence)[0]) is None
