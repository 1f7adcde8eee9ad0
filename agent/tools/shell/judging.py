"""What becomes of a shell command: it runs, a person is asked, or it is refused (R-27, SPEC §12.3). Pure.

Only a single command that can do nothing but look runs unasked: known by its name, with options that are known to look
(`looking`) and arguments that stay in the workspace. All else is asked for. In the sandbox such a command also gets a
room in which nothing can be changed and nobody reached (`sandbox`): that is where a hole in this fence leads.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agent.core.tools import SKILLS, Gate
from agent.tools.files.paths import ROOT
from agent.tools.shell.denied import denied
from agent.tools.shell.looking import CHECKING, LOOKING, beyond, options_of, values_in
from agent.tools.shell.reading import Reading, Unreadable, Word, read

# A file may be named like an option. With these no option does any harm; others get no names that nobody has read.
_TAME = frozenset({"ls", "cat", "head", "stat", "grep", "egrep", "fgrep", "echo", "basename", "dirname"})
_OUTSIDE = re.compile(r"^/|[=:,@]/|^-\w+/")  # an absolute path, also as the value of an option
_UPWARDS = re.compile(r"(?<![\w.])\.\.(?=/|$)|/\.\.(?![\w.])")


# What a person should read first of a command, by its program: the lower the number, the graver.
HARM: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        **dict.fromkeys(("rm", "rmdir", "unlink", "shred"), (0, "deletes files")),
        **dict.fromkeys(("dd", "mkfs", "truncate"), (1, "overwrites data")),
        **dict.fromkeys(("kill", "pkill", "killall"), (2, "ends programs")),
        **dict.fromkeys(("chmod", "chown", "chgrp"), (3, "changes who may read or write")),
        **dict.fromkeys(("curl", "wget", "nc", "ssh", "scp", "rsync", "ftp"), (4, "reaches other machines")),
        **dict.fromkeys(
            ("pip", "pip3", "npm", "apt", "apt-get", "cargo", "gem"), (5, "installs or runs other people's programs")
        ),
        **dict.fromkeys(("mv", "ln"), (6, "moves or replaces files")),
    }
)
_BEFORE = frozenset(
    {"env", "nice", "nohup", "time", "command", "exec", "sudo", "xargs"}
)  # what they run comes behind them
LONGEST_PART = 120  # characters of the part that is shown


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is a person's when the gate asks, the model's when it denies."""

    gate: Gate
    reason: str = ""


def judged(command: str, *, sandboxed: bool, root: str = ROOT) -> Judgement:
    """What becomes of the command, by its words alone. `root`: the workspace's path as commands see it; "": none is."""
    if why := denied(command):
        return Judgement("deny", f"this command never runs here: {why}")
    if odd := next((sign for sign in command if _is_odd(sign)), None):
        return Judgement("ask", f"it holds a character that may mislead (U+{ord(odd):04X})")
    try:
        reading = read(command)
    except Unreadable as error:
        return Judgement("ask", f"it cannot be read: {error}")
    worst = _worst(reading)
    if reading.operators:
        uses = f"it uses {' '.join(sorted(map(repr, reading.operators)))}"
        return Judgement("ask", f"{worst}; {uses}" if worst else uses)
    if worst:
        return Judgement("ask", worst)
    if len(reading.commands) != 1:
        return Judgement("ask", "it holds no command" if not reading.commands else "it holds several commands")
    return _of_words(reading.commands[0], sandboxed=sandboxed, root=root)


def only_removes(command: str) -> bool:
    """Whether all that the command does is `rm`: nothing else runs, and nothing is written anywhere."""
    try:
        reading = read(command)
    except Unreadable:
        return False
    if reading.targets or reading.inner or not reading.operators <= {"&&", ";", "\n"}:
        return False
    return bool(reading.commands) and all(words and words[0].text == "rm" for words in reading.commands)


def _worst(reading: Reading) -> str:
    """What of it does the most harm, in a person's words and with its own; "" where nothing known does any."""
    found = []
    for words in reading.commands:
        texts = [word.text for word in words]
        while texts and (texts[0].rpartition("/")[2] in _BEFORE or texts[0].startswith("-")):
            texts = texts[1:]
        if texts and (harm := HARM.get(texts[0].rpartition("/")[2])):
            found.append((harm, " ".join(texts)))
    if not found:
        return ""
    (_, does), part = min(found)
    return f"it {does}: {part if len(part) <= LONGEST_PART else part[: LONGEST_PART - 1] + '…'}"


def _of_words(words: Sequence[Word], *, sandboxed: bool, root: str) -> Judgement:
    texts = tuple(word.text for word in words)
    known = options_of(texts, LOOKING) or (options_of(texts, CHECKING) if sandboxed else None)
    if known is None:
        return Judgement("ask", f"{texts[0]} is not among the commands that only look")
    options, rest = known
    for word in words:
        if word.expands or _hides(word) or (not sandboxed and 0 in word.globs and texts[0] not in _TAME):
            return Judgement("ask", f"{word.text or 'a word'} stands for something else that only the shell knows")
        if any(_leaves(text, root) for text in (word.text, *values_in(word.text, options))):
            return Judgement("ask", f"{word.text} is not in the workspace")
    if found := beyond(options, rest):
        return Judgement("ask", f"{texts[0]} may do more than look with {found}")
    return Judgement("allow")


def _hides(word: Word) -> bool:
    """Whether names of files may make it `..` (some shells take `.[.]` for it, and `.*`), or the value of an option."""
    starts = (word.text.rfind("/", 0, at) + 1 for at in word.globs)
    hidden = any(word.text.startswith(".", start) for start in starts)
    return hidden or (bool(word.globs) and word.text.startswith("-") and "/" in word.text)


def _leaves(text: str, root: str) -> bool:
    within = bool(root) and any(text == one or text.startswith(f"{one}/") for one in (root, SKILLS))
    return _UPWARDS.search(text) is not None or (not within and _OUTSIDE.search(text) is not None)


def _is_odd(sign: str) -> bool:
    """What a person may read as another sign, or not see at all; letters of any language are none."""
    if sign.isascii():
        return not (sign.isprintable() or sign in "\n\t")  # \r is no blank to a shell
    return not sign.isprintable() or sign.isspace() or not sign.isalnum()
