"""The lines of a configuration file with a mark in place of each secret, and the file again out of such lines. Pure.

Secrets are found by their values, by the keys that hold them and by their shape, in comments too. Of a file that is no
TOML nothing but tables and keys is shown. A line with a mark stands for that of the file and is kept or removed whole.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

import tomlkit

from gateway.config.forms import REFERENCES

MARK = re.compile(r"\(secret [0-9a-f]{8}\)")
REDACTED = "[redacted]"  # in what `redact` gives
LEAST = 6  # characters of a value that is found outside of quotes
_HEADER = re.compile(r"\s*\[{1,2}([^\[\]]+)\]")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|' r"'[^'\n]*'")
_KEY = re.compile(r"""\s*([\w.-]+|"[^"\\]*"|'[^']*')\s*=""")
_NAMED_TEXT = re.compile(rf"(?:[\w.-]+\s*=\s*)?(?:{_QUOTED.pattern})")
_PUNCTUATION = re.compile(r"[\s#,\[\]{}]+")
# Signs of a comment, words, and all from the end of a text of several lines on.
_HIDDEN_LINE = re.compile(r"""([ \t#]*)(.*?)((?:"{3}|'{3}).*)?""")
_LONG = ('"""', "'''")
_PARTIAL_HEADER = re.compile(r"\s*\[{1,2}([^\[\]]+)\]{0,2}\s*")
_WORDS = r"(?:token|secret|passw|passphrase|credential|authori[sz]ation|bearer|key)"
_OPTION = re.compile(rf"(?i)-.*{_WORDS}[^=:]*")
_ASSIGNED = re.compile(rf"(?i)[^=:]*{_WORDS}[^=:]*[=:]\s*(.+)")
_RUN = re.compile(r"[A-Za-z0-9_+=-]{20,}")
LEAST_DIGITS = 3  # of a run that is taken for a secret: names of programs have one or two


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKeys:
    """Names of keys that hold one secret, and of those that hold several: a list or a table of them.

    `plain_in` are tables by the name of a key that holds a secret in another table and none in these.
    """

    single: frozenset[str]
    several: frozenset[str]
    plain_in: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def is_plain(self, name: str, table: str) -> bool:
        """Whether the key of that table, such as `mcp.servers`, holds no secret, though others of its name do."""
        return table in self.plain_in.get(as_declared(name), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The file as it is shown. `originals` are the lines of the file by the lines with a mark that stand for them."""

    lines: Sequence[str]
    originals: Mapping[str, str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """How to mask. `mark` gives the mark of a line, `redact` takes what has the shape of a secret out of a text.

    `names` are all keys and tables that a configuration has.
    """

    keys: SecretKeys
    mark: Callable[[str], str]
    redact: Callable[[str], str]
    names: frozenset[str] = frozenset()

    def masked(self, text: str, values: Collection[str]) -> Masked:
        """The lines of `text`, without their ends. `values` are secrets that stand in it."""
        shown, originals = [], {}
        region = _Region(self.keys, self._is_known)
        for line in text.replace("\r\n", "\n").split("\n"):
            mark = self.mark(line)
            found = self._line(region.of(line, mark), values, mark)
            if found != line:
                originals[found] = line
            shown.append(found)
        return Masked(lines=shown, originals=originals)

    def structure(self, text: str) -> Masked:
        """The tables and keys of a text that may be no TOML: nobody knows where a value of it begins and ends.

        All else is hidden, comments too, and keys that no configuration has: they may be a piece of a secret.
        """
        shown, originals = [], {}
        for line in text.replace("\r\n", "\n").split("\n"):
            found = self._structure_of(line)
            if found != line:
                originals[found] = line
            shown.append(found)
        return Masked(lines=shown, originals=originals)

    def _structure_of(self, line: str) -> str:
        if not line.strip() or (self._is_known(line) and "=" not in line):
            return line
        key = _KEY.match(line)
        return f'{key[0]} "{self.mark(line)}"' if key is not None and self._is_known(line) else self.mark(line)

    def _is_known(self, line: str) -> bool:
        """Whether it begins with a table or a key that a configuration has."""
        header, key = _PARTIAL_HEADER.fullmatch(line), _KEY.match(line)
        if header is not None:
            return all(step.strip(" \t\"'") in self.names for step in header[1].split("."))
        return key is not None and key[1].strip("\"'") in self.names

    def _line(self, line: str, values: Collection[str], mark: str) -> str:
        for value in sorted(values, key=len, reverse=True):
            for written in (tomlkit.item(value).as_string(), f"'{value}'"):
                line = line.replace(written, f'"{mark}"')
            if len(value) >= LEAST:
                line = line.replace(value, mark)
        # In one piece, or a shape that ends at a blank is found in half a mark.
        piece = mark.replace(" ", "_")
        return self.redact(line.replace(mark, piece)).replace(REDACTED, mark).replace(piece, mark)


class _Region:
    """Masks by keys: whether the next line is still within the value of one that holds secrets."""

    def __init__(self, keys: SecretKeys, is_known: Callable[[str], bool]) -> None:
        self._keys = keys
        self._is_known = is_known
        every = sorted(map(re.escape, keys.single | keys.several), key=len, reverse=True)
        names = "|".join(every).replace("_", "[_-]")
        # In any case and with dashes: a key that is written wrong holds a secret all the same.
        self._named = re.compile(rf"""(?i)(?<![\w-])({names})["']?[ \t]*=[ \t]*""") if names else None
        self._table = ""  # of the last header
        self._is_table = False
        self._open = 0  # brackets
        self._until = ""  # the end of a text of several lines
        self._is_awaited = False  # the value of a key that the line before ended with
        self._is_comment = False  # what is open or awaited stands in comments

    def of(self, line: str, mark: str) -> str:
        """The line, masked."""
        if self._until:
            inside, end, after = line.partition(self._until)
            self._until = "" if end else self._until
            return (mark if inside.strip() else inside) + end + self._further(after, mark)
        if self._is_awaited and line.strip(" \t#"):
            self._is_awaited = False
            if line.lstrip().startswith("#") == self._is_comment and not self._is_known(line.lstrip(" \t#")):
                found = _HIDDEN_LINE.fullmatch(line)
                assert found is not None  # it may be empty
                return found[1] + (mark if found[2] else "") + self._further(found[3] or "", mark)
        if self._open > 0 and (line.lstrip().startswith("#") or not self._is_comment):
            self._open += _depth(line.lstrip(" \t#") if self._is_comment else line)
            return _without_texts(line, mark, is_comment=self._is_comment)
        self._open = 0
        if (header := _HEADER.match(line.lstrip(" \t#"))) is not None:
            is_comment = line.lstrip().startswith("#")  # may begin such a table, and ends none: it may be no header
            is_table = any(self._is_several(step.strip(" \t\"'")) for step in header[1].split("."))
            self._is_table = is_table or (is_comment and self._is_table)
            if not is_comment:
                self._table = ".".join(step.strip(" \t\"'") for step in header[1].split("."))
            if is_table or not is_comment:
                return line
        if self._is_table:
            return self._value(line, line.find("=") + 1, mark) if "=" in line else line
        if (found := self._found(line)) is None:
            return line
        if self._is_several(found[1]) and line[found.end() :].startswith(("[", "{")):
            self._open, self._is_comment = _depth(line[found.end() :]), _is_comment(line[: found.end()])
            return line[: found.end()] + _without_texts(line[found.end() :], mark, is_comment=self._is_comment)
        return self._value(line, found.end(), mark)

    def _value(self, line: str, at: int, mark: str) -> str:
        """Masks the value that begins there; what is no whole text is masked as far as the line goes."""
        rest = line[at:].lstrip(" \t")
        before = line[: len(line) - len(rest)]
        if not rest or rest.startswith("#"):  # no TOML, so that it stands in a comment or in a text of several lines
            self._is_awaited, self._is_comment = True, _is_comment(before)
        if rest.startswith(_LONG):
            if rest[:3] in rest[3:]:
                return f'{before}"{mark}"'
            self._until = rest[:3]
            return f"{before}{rest[:3]}{mark}" if rest[3:].strip() else line
        text = _QUOTED.match(rest)
        if text is None:
            return f'{before}"{mark}"' if rest else line
        shown = text[0] if _is_plain(text[0]) else f'"{mark}"'
        return before + shown + self._further(rest[text.end() :], mark)

    def _further(self, after: str, mark: str) -> str:
        """The rest of a line behind a value, in which further keys may hold secrets."""
        found = self._found(after)
        return self._value(after, found.end(), mark) if found is not None else after

    def _found(self, text: str) -> re.Match[str] | None:
        """The first key in it that holds a secret."""
        found = self._named.finditer(text) if self._named is not None else ()
        return next((one for one in found if not self._keys.is_plain(one[1], self._table)), None)

    def _is_several(self, name: str) -> bool:
        return as_declared(name) in self._keys.several


def as_declared(name: str) -> str:
    """The key that is meant by one in another case or with dashes."""
    return name.casefold().replace("-", "_")


def secret_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments of a program, or their parts, that are secrets by the words before them or look like one."""
    before = ""
    for argument in arguments:
        if assigned := _ASSIGNED.fullmatch(argument):
            yield assigned[1]
        elif _OPTION.fullmatch(before) and not argument.startswith("-"):
            yield argument
        else:
            yield from (run for run in _RUN.findall(argument) if sum(map(str.isdigit, run)) >= LEAST_DIGITS)
        before = argument


def _is_plain(quoted: str) -> bool:
    return len(quoted) == 2 or quoted[1:-1].startswith(REFERENCES)


def _is_comment(before: str) -> bool:
    """Whether what follows these characters of a line stands in a comment."""
    return "#" in _QUOTED.sub("", before)


def _without_texts(line: str, mark: str, *, is_comment: bool) -> str:
    """The line without its texts; one of a comment with more than texts and their names, a remark aside, is hidden."""
    if is_comment and _PUNCTUATION.sub("", _NAMED_TEXT.sub("", line).lstrip(" \t#").partition("#")[0]):
        return line[: len(line) - len(line.lstrip(" \t#"))] + mark
    return _QUOTED.sub(lambda found: found[0] if _is_plain(found[0]) else f'"{mark}"', line)


def _depth(text: str) -> int:
    """The brackets that it opens, less those that it closes."""
    bare = _QUOTED.sub("", text).partition("#")[0]
    return sum(bare.count(sign) for sign in "[{") - sum(bare.count(sign) for sign in "]}")


def restored(typed: str, masked: Masked) -> tuple[str, Sequence[str]]:
    """The typed text with the lines of the file in place of those that stand for them, and its mistakes."""
    plain = {line for line in masked.lines if line not in masked.originals and MARK.search(line)}
    lines, mistakes = [], []
    for number, line in enumerate(typed.split("\n"), 1):
        if MARK.search(line) and line not in plain and line not in masked.originals:
            mistakes.append(
                f"Line {number} stands for one with a secret that is not in the file. Keep such a line as it was or "
                "remove it; to change it, write all of it anew."
            )
        lines.append(masked.originals.get(line, line))
    return "\n".join(lines), mistakes


def with_ends_of(before: str, text: str) -> str:
    """`text`, whose lines end with \\n, with the ends that the lines of the file have; new ones end as most do."""
    old = before.split("\n")[:-1]
    windows = sum(line.endswith("\r") for line in old)
    if not windows:
        return text
    if windows == len(old):
        return text.replace("\n", "\r\n")
    lines = text.split("\n")
    common = "\r" if windows * 2 > len(old) else ""
    ends = [common] * len(lines)
    for block in SequenceMatcher(
        None, [line.rstrip("\r") for line in old], lines, autojunk=False
    ).get_matching_blocks():
        for offset in range(block.size):
            ends[block.b + offset] = "\r" if old[block.a + offset].endswith("\r") else ""
    ends[-1] = ""
    return "\n".join(line + end for line, end in zip(lines, ends, strict=True))


def still_there(masked: str, secrets: Callable[[str], Iterable[str]]) -> bool:
    """Whether a secret stands in a masked text of valid TOML all the same; so it is, where it is no TOML any more."""
    try:
        tomllib.loads(masked)
    except tomllib.TOMLDecodeError:
        return True
    # Each line: a text of several may have a mark in one of them and the secret in another.
    lines = (line for value in secrets(masked) for line in value.split("\n"))
    return any(line.strip() and not MARK.search(line) for line in lines)


# Lines that mistakes are of.


def with_lines(text: str, mistakes: Sequence[str]) -> Sequence[str]:
    """The mistakes, each with the line of its key in front, where the file has that key."""
    places = _places(text)
    told = []
    for mistake in mistakes:
        where = mistake.partition(": ")[0]
        line = None if "(set by the environment" in mistake else _nearest(where, places)
        told.append(f"Line {line}: {mistake}" if line is not None else mistake)
    return told


def _nearest(where: str, places: Mapping[str, int]) -> int | None:
    """The line of the key, else of the entry or table that it is missing in."""
    while where:
        if where in places:
            return places[where]
        shorter = re.sub(r"(?:\.[^.\[\]()]*|\[\d*\]|\s*\([^()]*\))$", "", where)
        where = shorter if shorter != where else ""
    return None


def _places(text: str) -> Mapping[str, int]:
    """The number of the line of each key and table, as mistakes call them."""
    places: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, entry, until = "", "", ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if until:
            until = "" if until in line else until
            continue
        if (header := _HEADER.match(line)) is not None:
            name, entry = header[1].strip(), ""
            if line.lstrip().startswith("[["):
                counts[name] = counts.get(name, 0) + 1
                entry = name
                places.setdefault(name, number)
            steps = name.split(".")
            paths = (".".join(steps[: place + 1]) for place in range(len(steps)))
            table = ".".join(
                f"{step}[{counts[path] - 1}]" if path in counts else step
                for step, path in zip(steps, paths, strict=True)
            )
            places[table] = number
        elif (key := _KEY.match(line)) is not None:
            name = key[1].strip("\"'")
            path = f"{table}.{name}" if table else name
            places.setdefault(path, number)
            value = _QUOTED.match(line[key.end() :].lstrip())
            if entry and value is not None:
                places.setdefault(f"{entry} ({value[0][1:-1]})", places[table])
            for sign in _LONG:
                if line.count(sign) % 2:
                    until = sign
    return places
