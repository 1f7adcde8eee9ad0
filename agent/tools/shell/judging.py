"""What becomes of a shell command: it runs, a person is asked, or it is refused (R-27, SPEC §12.3). Pure.

Only a single command that can do nothing but look runs unasked: known by its name, with arguments that stay in the
workspace and no option that writes or runs something. All else is asked for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.tools import Gate
from agent.tools.files.paths import ROOT
from agent.tools.shell.denied import denied
from agent.tools.shell.reading import Unreadable, Word, read

# Command lines that begin so only look; in the second group they would run what the files say, so only in the sandbox.
LOOKING = frozenset(
    (name,)
    for name in (
        "ls", "cat", "head", "tail", "wc", "pwd", "whoami", "id", "date", "uname", "echo", "printf", "grep", "egrep",
        "fgrep", "rg", "find", "tree", "file", "stat", "du", "df", "which", "sort", "cut", "tr", "diff", "cmp", "comm",
        "nl", "od", "strings", "jq", "md5sum", "sha1sum", "sha256sum", "basename", "dirname", "realpath", "readlink",
        "true", "false", "seq", "uptime", "nproc", "column", "fold", "rev", "tac",
    )
)  # fmt: skip
CHECKING = frozenset(
    tuple(line.split())
    for line in (
        "git status", "git log", "git diff", "git show", "git blame", "git ls-files", "git rev-parse", "git describe",
        "git shortlog", "cargo check", "cargo tree", "go vet", "go list", "go version", "ruff check", "mypy",
        "python --version", "python3 --version", "python -V", "python3 -V", "node --version", "node -v",
        "npm --version", "tsc --noEmit", "make -n", "make --dry-run",
    )
)  # fmt: skip
# Options with which a command of the first group writes, runs or follows something after all.
_UNSAFE = {
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls|files0-from)\b"),
    "sort": re.compile(r"-[a-zA-Z]*[oTS]|--(?:output|compress-program|temporary-directory|files0-from)"),
    "tree": re.compile(r"-[a-zA-Z]*[oR]"),
    "file": re.compile(r"-[a-zA-Z]*[CmfS]|--(?:compile|magic-file|files-from)"),
    "date": re.compile(r"-[a-zA-Z]*[sf]|--(?:set|file)|\d"),  # digits alone set the clock
    "rg": re.compile(r"--(?:pre|hostname-bin|search-zip)|-[a-zA-Z]*[zf]"),
    "jq": re.compile(r"-[a-zA-Z]*[fL]|--(?:from-file|slurpfile|rawfile|library-path)"),
    "git": re.compile(r"--(?:output|ext-diff|textconv|open-files|exec|upload-pack|git-dir|work-tree|no-index)|-[cCO]"),
    "ruff": re.compile(r"--(?:fix|config|add-noqa|unsafe)"),
    "mypy": re.compile(r"--(?:install-types|config-file|python-executable|junit-xml|[a-z-]*report)"),
    "make": re.compile(r"-[fCIE]|--(?:eval|file|directory)|.*="),
    "cargo": re.compile(r"--(?:config|manifest-path|target-dir)"),
    "go": re.compile(r"-(?:vettool|toolexec|C|exec|o)\b"),
    "tail": re.compile(r"-[a-zA-Z]*[fF]|--(?:follow|retry)"),
    "wc": re.compile(r"--files0-from"),
    "du": re.compile(r"--files0-from|-[a-zA-Z]*X|--exclude-from"),
}
_OUTSIDE = re.compile(r"^/|[=:,@]/|^-\w+/")  # an absolute path, also as the value of an option


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is a person's when the gate asks, the model's when it denies."""

    gate: Gate
    reason: str = ""


def judged(command: str, *, sandboxed: bool) -> Judgement:
    """What becomes of the command, by its words alone."""
    if why := denied(command):
        return Judgement("deny", f"this command never runs here: {why}")
    if odd := next((sign for sign in command if _is_odd(sign)), None):
        return Judgement("ask", f"it holds a character that may mislead (U+{ord(odd):04X})")
    try:
        reading = read(command)
    except Unreadable as error:
        return Judgement("ask", f"it cannot be read: {error}")
    if reading.operators:
        return Judgement("ask", f"it uses {' '.join(sorted(map(repr, reading.operators)))}")
    if len(reading.commands) != 1:
        return Judgement("ask", "it holds no command" if not reading.commands else "it holds several commands")
    return _of_words(reading.commands[0], sandboxed=sandboxed)


def _of_words(words: Sequence[Word], *, sandboxed: bool) -> Judgement:
    texts = tuple(word.text for word in words)
    known = texts[:1] in LOOKING or (sandboxed and (texts[:2] in CHECKING or texts[:1] in CHECKING))
    if not known:
        return Judgement("ask", f"{texts[0]} is not among the commands that only look")
    for word in words:
        if word.expands:
            return Judgement("ask", f"{word.text or 'a word'} stands for something else that only the shell knows")
        if _leaves(word.text):
            return Judgement("ask", f"{word.text} is not in the workspace")
    unsafe = _UNSAFE.get(texts[0])
    if unsafe is not None and (found := next((text for text in texts[1:] if unsafe.match(text)), None)):
        return Judgement("ask", f"{texts[0]} does more than look with {found}")
    return Judgement("allow")


def _leaves(text: str) -> bool:
    within = text == ROOT or text.startswith(f"{ROOT}/")
    return ".." in text.split("/") or "/.." in text or "../" in text or (not within and bool(_OUTSIDE.search(text)))


def _is_odd(sign: str) -> bool:
    """What a person may read as another sign, or not see at all; letters of any language are none."""
    if sign.isascii():
        return not (sign.isprintable() or sign in "\n\t\r")
    return not sign.isprintable() or sign.isspace() or not sign.isalnum()
