"""By which way a question is looked up (SPEC §16.1). Pure."""

import re

from agent.memory.records import Strategy
from agent.memory.words import words_of

_WORD = re.compile(r"\w+")

_RELATIONS = frozenset(
    _WORD.findall(
        """
        related relation relationship relative relatives connected connection between wife husband spouse partner
        married mother father parent parents sister brother sibling siblings son daughter child children cousin aunt
        uncle grandmother grandfather friend friends colleague colleagues boss manager neighbour neighbor works owns
        belongs verwandt beziehung zwischen frau mann mutter vater eltern schwester bruder geschwister sohn tochter
        kind kinder tante onkel freund freundin freunde kollege kollegin chef chefin nachbar nachbarin arbeitet
        gehört
        """
    )
)
_QUESTIONS = frozenset(
    _WORD.findall(
        """
        what when where which who whom whose why how was wann wo welche welcher welches wer wem wessen warum wie
        """
    )
)
# Whether there is any, not which: one character on either side of a sign is enough.
_CODE = re.compile(r"[\w.]\(\)|\w::\w|\w_\w|[a-z][A-Z]\w|[\w-]/[\w./-]|\w-*+\.[a-z]{1,4}\b|[{}<>=;`]")
FEW, MANY = 3, 6  # words


def route(query: str) -> Strategy:
    """Relations: the graph. Code, or a few words that ask nothing: by keyword. Questions, many words: by meaning."""
    words = words_of(query)
    if any(word in _RELATIONS for word in words):
        return "graph"
    asks = any(word in _QUESTIONS for word in words)
    if _CODE.search(query) or (len(words) <= FEW and not asks):
        return "keyword"
    return "semantic" if asks or len(words) >= MANY else "hybrid"
