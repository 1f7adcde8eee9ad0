"""Commands that never run, whoever allows them: they wreck the machine (SPEC §12.3, G-17). Pure.

A list of forms, not a defence by itself: that is the sandbox. What hides from it still needs a person's word.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from agent.tools.shell.reading import Reading, Unreadable, Word, read

DEEPEST = 6  # commands within commands
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "su", "runuser"})
# What runs the command that follows it, with how many words of its own besides options.
WRAPPERS = {
    "sudo": 0, "doas": 0, "env": 0, "nice": 0, "nohup": 0, "time": 0, "timeout": 1, "exec": 0, "command": 0,
    "builtin": 0, "busybox": 0, "stdbuf": 0, "setsid": 0, "ionice": 0, "xargs": 0, "chroot": 1, "unshare": 0,
    "watch": 0, "strace": 0, "toybox": 0,
}  # fmt: skip
_WITH_VALUE = {"-n", "-u", "-g", "-s", "-k", "-I", "-P", "-L", "-d", "-i", "-o", "-e", "-C", "-h", "-p", "-t", "-c"}
_SYSTEM = frozenset(
    "/" + name
    for name in ("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "media", "mnt", "opt", "proc", "root",
                 "run", "sbin", "srv", "sys", "usr", "var", "Users", "System", "Library", "Applications")
)  # fmt: skip
_DEVICE = re.compile(
    r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|dm-|mapper/|md\d|loop|ram\d|sr\d|mem\b|kmem|port\b|rdisk|mtd|nbd)"
)
# What a function's definition begins with, what ends its body, and what starts one command beside another.
_BOMB_PARTS = re.compile(
    r"(?<![\w:.])(?P<name>[\w:.]++)(?P<empty>\(\))?[{(]++|(?P<ends>[})])|(?<![\w:.])(?P<left>[\w:.]*+)[|&]++(?=(?P<right>[\w:.]*+))"
)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ROUGH = re.compile(r"\bmkfs\b|\bof=[\"']?/dev/(?:sd|nvme|vd|hd)")
_ROOT = re.compile(r"[\"']?/(?:[\"'*]|\Z)")  # how a word begins that means it
_RM = re.compile(r"\brm\Z")
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff"})


def denied(command: str) -> str:
    """Why the command must never run; "" when it is none of those."""
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", command))
    squeezed = "".join(folded.split())
    if _is_bomb(squeezed):
        return "it would start itself without end (a fork bomb)"
    return next(_reasons(folded, 0), "")


def _reasons(command: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"it holds commands within commands more than {DEEPEST} deep"
        return
    try:
        reading = read(command)
    except Unreadable:
        if _ROUGH.search(command) or _deletes_root(command.split()):
            yield "it looks like one that deletes or overwrites the system"
        return
    yield from _of_targets(reading)
    at_root = False
    for words in reading.commands:
        texts = [word.text for word in words]
        yield from _of_command(texts, at_root=at_root, depth=depth)
        if texts[0] in ("cd", "pushd"):
            at_root = len(texts) > 1 and _is_system(texts[-1])
    for inner in reading.inner:
        yield from _reasons(inner, depth + 1)


def _is_bomb(squeezed: str) -> bool:
    """Whether a function starts itself twice at once, in its own body: `f(){f|f&};f`."""
    defined: set[str] = set()  # whose bodies have not ended
    for part in _BOMB_PARTS.finditer(squeezed):
        if part["ends"] or part["empty"]:
            defined.clear()
        if name := part["name"]:
            defined |= {name, name.removeprefix("function") or name}
        elif left := part["left"]:
            right = part["right"]
            ends = (left[-length:] for length in range(1, min(len(left), len(right)) + 1))
            if defined and any(end in defined and right.startswith(end) for end in ends):
                return True
    return False


def _deletes_root(words: Sequence[str]) -> bool:
    """Whether `rm`, options with an r among them and the root follow each other."""
    for at, word in enumerate(words):
        recursive, before = False, at - 1
        while _ROOT.match(word) and before >= 0:
            if recursive and _RM.search(words[before], max(0, len(words[before]) - 3)):
                return True
            if not words[before].startswith("-") or words[before] == "-":
                break
            recursive = recursive or "r" in words[before].lower()
            before -= 1
    return False


def _of_targets(reading: Reading) -> Iterator[str]:
    for operator, target in reading.targets:
        if ">" in operator and _DEVICE.match(_plain(target)):
            yield f"it writes to the device {target.text}"


def _of_command(texts: Sequence[str], *, at_root: bool, depth: int) -> Iterator[str]:
    words = unwrapped(texts)
    if not words:
        return
    name, rest = posixpath.basename(words[0]), words[1:]
    plain = [word for word in rest if not word.startswith("-")]
    if name == "rm" and _is_recursive(rest) and any(_is_root(one, at_root=at_root) for one in plain):
        yield "it deletes the system's files"
    elif name in ("chmod", "chown", "chgrp") and _is_recursive(rest) and any(map(_is_system, plain)):
        yield "it changes who may read and run the system's files"
    elif name == "find" and any(map(_is_system, plain[:1])) and _find_deletes(rest):
        yield "it deletes the system's files"
    elif name.startswith("mkfs") or name in ("mkswap", "wipefs", "blkdiscard", "sgdisk", "fdisk", "parted"):
        yield "it formats a disk"
    elif name == "dd" and any(one.startswith("of=") and _DEVICE.match(one[3:]) for one in rest):
        yield "it overwrites a disk"
    elif name in ("tee", "cp", "mv", "shred", "install", "truncate") and any(map(_DEVICE.match, plain[-1:])):
        yield f"it writes to the device {plain[-1]}"
    elif name in _POWER or (name in ("init", "telinit") and plain[:1] in (["0"], ["6"])):
        yield "it switches the machine off"
    elif name == "eval":
        yield from _reasons(" ".join(rest), depth + 1)
    elif name in SHELLS:
        script = _script_of(rest)
        if script is not None:
            yield from _reasons(script, depth + 1)


def unwrapped(texts: Sequence[str]) -> list[str]:
    """The command that is really run: without assignments before it and without what only runs it."""
    words = list(texts)
    while words:
        if re.fullmatch(r"[A-Za-z_]\w*\+?=.*", words[0], re.DOTALL):
            words.pop(0)
            continue
        name = posixpath.basename(words[0])
        if name not in WRAPPERS:
            break
        own, words = WRAPPERS[name], words[1:]
        while words and (words[0].startswith("-") or own):
            option = words.pop(0)
            if not option.startswith("-"):
                own -= 1
            elif option in _WITH_VALUE and words and posixpath.basename(words[0]) not in ("rm", "dd", *SHELLS):
                words.pop(0)
    return words


def _script_of(arguments: Sequence[str]) -> str | None:
    """What `sh -c` is given."""
    for at, argument in enumerate(arguments):
        if re.fullmatch(r"-[abd-z]*+c[a-z]*", argument) and at + 1 < len(arguments):
            return arguments[at + 1]
    return None


def _is_recursive(arguments: Sequence[str]) -> bool:
    return any(
        one == "--recursive" or (one.startswith("-") and not one.startswith("--") and set("rR") & set(one))
        for one in arguments
    )


def _is_root(path: str, *, at_root: bool) -> bool:
    return _is_system(path) or (at_root and path in ("*", ".", "./*", "./", "..", ".*"))


def _is_system(path: str) -> bool:
    """The root of the system, one of its folders, or everything in one of these."""
    if not path.startswith("/"):
        return False
    ends = len(path.rstrip("/*.?"))
    slash = path.find("/", ends)
    bare = posixpath.normpath((path if slash < 0 else path[:slash]) or "/")
    bare = "/" if bare == "//" else bare
    return bare == "/" or bare in _SYSTEM


def _find_deletes(arguments: Sequence[str]) -> bool:
    return "-delete" in arguments or any(
        one in ("-exec", "-execdir", "-ok") and posixpath.basename(following) in ("rm", "shred", "unlink")
        for one, following in pairwise(arguments)
    )


def _plain(word: Word) -> str:
    return posixpath.normpath(word.text) if word.text else ""
