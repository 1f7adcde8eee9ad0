"""Holds the names of the code to the field's words: `docs/glossary.md` has the terms that take their place.

`python -m tools.vocabulary` fails when a name of the private vocabulary comes back, when the prose of code, phrases
and documentation holds more of its words than `IN_PROSE_AT_MOST`, which may only fall, and when a file cites a document
that is not in the repository, and when a docstring begins with a pronoun.
"""

import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYERS = ("agent", "gateway", "adapters", "tools")
TEXTS = ("docs/*.md", "gateway/phrases/*.toml", "config/*.toml", "README.md", "CONTRIBUTING.md", "SECURITY.md")
IN_PROSE_AT_MOST = 0

# Names that stood for something else, and are not used for it again.
NAMES = frozenset(
    {
        "house", "House", "HouseTrouble", "Surroundings", "desk", "Desk", "MemoryDesk", "Waking", "Awake",
        "take_in", "take_up", "put_off", "put_down", "call_off", "Said", "Pressed", "Say", "whisper", "Hands",
        "Bell", "Rest", "Lane", "Lanes", "Hot", "Hearing", "to_us", "from_us", "SteadyDatabase", "last_joint",
        "Pulse", "Vitals", "Patience", "Traces", "rung", "Rung", "Standing", "Freed", "Load", "Fold", "Folded",
        "splice", "Trimmer", "Compactor", "through_the_gate", "gave_way", "gives_way", "unheard", "set_aside",
        "Errand", "errand", "errands", "Crew", "Fleet", "Purse", "Purses", "Bill", "standing_in", "stood_in",
        "ProviderStoodIn", "SealedHistories", "carrier", "Misfits", "Strangers", "Bystanders", "Letters",
        "Letter", "Shelf", "Talk", "Rooms", "passing", "Pen", "TellOwner", "tell_owner",
    }
)  # fmt: skip
ANY_NAME = re.compile(rf"\b(?:{'|'.join(sorted(NAMES))})\b")
# A file and a name that it has for a reason.
HONEST: frozenset[tuple[str, str]] = frozenset()
PROSE = re.compile(
    r"\b(?:(?:the|this|our) houses?|of a house|house's|house rules?|storeys?|desks?|errands?|purses?|whisper(?:s|ed)?"
    r"|misfits?|bystanders?|rungs?|bells? (?:rings|rang)|crews?|fleets?)\b",
    re.IGNORECASE,
)
# Files of the repository that people read; fixtures and recordings are not among them.
READ = (
    *(f"{layer}/**/*.py" for layer in (*LAYERS, "tests")), "docs/**/*.md", "docs/**/*.py", "docs/*.toml",
    "deploy/**/*.md", "config/*.toml", "gateway/phrases/*.toml", "tests/breakages/*.toml", "*.md", "Makefile",
    "pyproject.toml",
)  # fmt: skip
# Documents that the first sessions wrote for each other; nobody else can look anything up in them.
_DOCUMENT = "SPEC|DESIGN|PEERS|STYLE|ENGINE|DEPENDENCIES|RETRIEVAL|REDESIGN|DEFECTS"
CITED = re.compile(rf'\b(?:{_DOCUMENT})(?:\.md\b| §| \d| themes?\b| ")|(?<!RFC \d\d\d\d )§')

# Docstrings name their subject (CONTRIBUTING.md); comments and messages begin as they like.
NAMELESS = re.compile(r'[ ]*[rf]?"""(?:(?:What|Whom|Who|When|Which)ever|What|Whom|Who|Whose|Those)\b')

# Honest uses: a kind that is stored and told to consoles, a value of hooks for one version, OpenAI's model.
HONEST_WORDS = re.compile(r"""["']whisper:?["']|status \| whisper|["']rung["']|whisper-1|local whisper server""")


def names(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of each name in Python code."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def prose(source: str) -> Iterator[str]:
    """The comments and strings of Python code."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            yield token.string


def private_names(path: Path, root: Path = ROOT) -> list[str]:
    """One line for each name of the private vocabulary in a file."""
    where, source = path.relative_to(root).as_posix(), path.read_text()
    if not ANY_NAME.search(source):  # tokens take their time
        return []
    found = ((line, name) for line, name in names(source) if name in NAMES)
    return [f"{where}:{line}: {name}" for line, name in found if (where, name) not in HONEST]


def citations(path: Path, root: Path = ROOT) -> list[str]:
    """One line for each citation of a document that is not in the repository; sections of RFCs are no such."""
    where, text = path.relative_to(root).as_posix(), path.read_text()
    if not CITED.search(text):
        return []
    return [
        f"{where}:{number}: {line.strip()}" for number, line in enumerate(text.split("\n"), 1) if CITED.search(line)
    ]


def nameless(path: Path, root: Path = ROOT) -> list[str]:
    """One line for each docstring that begins with a pronoun instead of its noun."""
    where, lines = path.relative_to(root).as_posix(), path.read_text().split("\n")
    return [f"{where}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if NAMELESS.match(line)]


def private_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word of the private vocabulary stands in these texts."""
    return Counter(match.lower() for text in texts for match in PROSE.findall(HONEST_WORDS.sub("", text)))


def found(root: Path = ROOT) -> tuple[list[str], Counter[str]]:
    """The names of the private vocabulary in a tree, a line each, and its words in prose."""
    files = [path for layer in LAYERS for path in sorted((root / layer).rglob("*.py")) if path != Path(__file__)]
    texts = [text for path in files if PROSE.search(source := path.read_text()) for text in prose(source)]
    texts += [path.read_text() for pattern in TEXTS for path in sorted(root.glob(pattern))]
    return [line for path in files for line in private_names(path, root)], private_words(texts)


def main(root: Path = ROOT) -> int:
    """Print the mistakes: private names and words, citations, nameless docstrings; 1 if there is one."""
    mistakes, words = found(root)
    for line in mistakes:
        print(f"{line}: see docs/glossary.md for the word to use")
    here = {path for pattern in READ for path in root.glob(pattern)} - {Path(__file__)}
    cited = [line for path in sorted(here) for line in citations(path, root)]
    openings = [line for path in sorted(here) if path.suffix == ".py" for line in nameless(path, root)]
    for line in openings:
        print(f"{line}: begin with the noun that this is")
    for line in cited:
        print(f"{line}: cite a requirement id or a page of docs/ (CONTRIBUTING.md)")
    if words.total() > IN_PROSE_AT_MOST:
        print(f"{words.total()} private words in prose, {IN_PROSE_AT_MOST} at most: {dict(words.most_common(8))}")
    return 1 if mistakes or cited or openings or words.total() > IN_PROSE_AT_MOST else 0


if __name__ == "__main__":
    sys.exit(main())
