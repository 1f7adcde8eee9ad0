"""Changes of the configuration file that keep its comments and its order, and the file itself, written whole or not.

Values are changed by tomlkit. What is new is put in as lines, behind the last key that it belongs to: tomlkit would put
it behind the comments of the section that follows. Each change is read back and compared.
"""

import difflib
import errno
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import tomlkit
from tomlkit.container import Container
from tomlkit.items import AoT, Array, InlineTable, Item, Table, item

_MARK = "tieline looks for this line"
Fields = Mapping[str, object]  # by key; None: the key goes
TablePath = tuple[str, ...]


class CannotChange(Exception):
    """A change that cannot be made, or a file that cannot be written; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """The file as it was read. `text` is empty where there is none yet."""

    path: Path
    text: str
    exists: bool = True

    @property
    def digest(self) -> str:
        """Differs as soon as the file does."""
        return digest_of(self.text) if self.exists else "none"


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def read_file(path: Path) -> ConfigFile:
    """The file, or an empty one where there is none. Raises CannotChange."""
    try:
        return ConfigFile(path=path, text=path.read_bytes().decode())
    except FileNotFoundError:
        return ConfigFile(path=path, text="", exists=False)
    except UnicodeDecodeError as error:
        raise CannotChange(f"{path} is not a text file in UTF-8") from error
    except OSError as error:
        raise CannotChange(f"{path} cannot be read: {error.strerror}") from error


def why_not_writable(path: Path) -> str:
    """Why the file cannot be replaced; "" when it can."""
    target = path.resolve()
    folder = target.parent
    # The superuser may write everything; a file that was made read-only was meant to stay as it is.
    if target.exists() and not (os.access(target, os.W_OK) and target.stat().st_mode & 0o222):
        return f"{path} is read-only"
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return f"the folder {folder} is read-only, so that {path.name} cannot be replaced in it"
    return ""


def write_file(read: ConfigFile, text: str) -> None:
    """Put `text` in place of what was read; the file before it stays as `<name>.bak`. Mode and owner are kept.

    Raises CannotChange where the file has changed since, or cannot be written.
    """
    if reason := why_not_writable(read.path):
        raise CannotChange(reason)
    if read_file(read.path).digest != read.digest:
        raise CannotChange(f"{read.path} was changed meanwhile")
    target = read.path.resolve()  # behind a link, the file itself
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = target.stat() if read.exists else None
        if read.exists:  # not copied: a copy is open to everybody until its mode is set
            _replace(target.with_name(f"{target.name}.bak"), read.text, kept=kept)
        _replace(target, text, kept=kept)
    except OSError as error:
        raise CannotChange(_why(read.path, error)) from error


def write_secrets(home: Path, values: Mapping[str, str], then: Callable[[], None]) -> None:
    """Put the values into `<home>/secrets/<name>`, for their owner alone, and do what follows.

    Raises CannotChange, as `then` may: what stood there before is put back.
    """
    before: dict[str, str | None] = {}
    try:
        for name, value in values.items():
            before[name] = _secret(home, name)
            _write_secret(home, name, f"{value}\n")
        then()
    except CannotChange:
        for name, text in before.items():
            with suppress(CannotChange, OSError):
                if text is None:
                    (home / "secrets" / name).unlink(missing_ok=True)
                else:
                    _write_secret(home, name, text)
        raise


def _secret(home: Path, name: str) -> str | None:
    """The text of its file; None where there is none."""
    path = home / "secrets" / name
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CannotChange(f"{path} is not a text file in UTF-8") from error
    except OSError as error:
        raise CannotChange(f"{path} cannot be read: {error.strerror}") from error


def _write_secret(home: Path, name: str, text: str) -> None:
    folder = home / "secrets"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        _replace(folder / name, text, kept=None)
    except OSError as error:
        raise CannotChange(_why(folder / name, error)) from error


def _why(path: Path, error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return f"{path} is mounted as a single file, which cannot be replaced; mount its folder instead"
    return f"{path} cannot be written: {error.strerror}"


def _replace(target: Path, text: str, *, kept: os.stat_result | None) -> None:
    """Write a new file beside it and move it there; a reader sees the old one or the new one."""
    fresh = target.with_name(f".{target.name}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            if kept is not None:
                os.fchmod(file.fileno(), kept.st_mode & 0o7777)
                if (kept.st_uid, kept.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), kept.st_uid, kept.st_gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def difference(before: str, after: str) -> Sequence[str]:
    """The lines that change, each with a sign in front, and two around them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++"))]


def values_at(text: str, path: TablePath, index: int | None = None) -> Mapping[str, object]:
    """The keys of a table of the file, or of one of a list of tables; none where it is not there."""
    found: object = tomllib.loads(text)
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    if index is not None:
        found = found[index] if isinstance(found, list) and index < len(found) else None
    return found if isinstance(found, dict) else {}


def entries_at(text: str, path: TablePath) -> Sequence[Mapping[str, object]]:
    """A list of tables of the file."""
    found: object = tomllib.loads(text)
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def changed(text: str, path: TablePath, fields: Fields, index: int | None = None) -> str:
    """`text` with keys of a table changed; with `index`, of that one of a list of tables. Raises CannotChange."""
    expected = tomllib.loads(text)
    _apply(expected, path, fields, index)
    document = tomlkit.parse(text)
    table = _entry(document, path, index) if index is not None else _table(document, path)
    new: dict[str, object] = {}
    for key, value in fields.items():
        if table is not None and key in table:
            if value is None:
                table.remove(key)
            else:
                _set(table, key, value)
        elif value is not None:
            new[key] = value
    if isinstance(table, InlineTable):
        table.update(new)
        new = {}
    result = tomlkit.dumps(document)
    if new:
        lines = "".join(f"{_line(key, value)}\n" for key, value in new.items())
        result = _with_keys(result, path, index, lines)
    return _as_expected(result, expected)


def added(text: str, path: TablePath, fields: Fields) -> str:
    """`text` with one more in a list of tables. Raises CannotChange."""
    values = {key: value for key, value in fields.items() if value is not None}
    expected = tomllib.loads(text)
    parent = expected
    for step in path[:-1]:
        parent = parent.setdefault(step, {})
    parent.setdefault(path[-1], []).append(values)
    document = tomlkit.parse(text)
    block = f"[[{'.'.join(path)}]]\n" + "".join(f"{_line(key, value)}\n" for key, value in values.items())
    inline = next((one for one in _found(document, path) if isinstance(one, Array)), None)
    tables = [one for one in _found(document, path) if isinstance(one, AoT) and len(one)]
    if inline is not None and len(inline):
        entry = tomlkit.inline_table()
        entry.update(values)
        inline.append(entry)
        return _as_expected(tomlkit.dumps(document), expected)
    if inline is not None:  # `hooks = []` stands in the way of [[hooks]]
        (_table(document, path[:-1]) or document).remove(path[-1])
        text = tomlkit.dumps(document)
    elif tables:
        _mark_end(tables[-1].body[-1])
        at = _marked(document)
        lines = text.splitlines(keepends=True)
        before = lines[: at + 1]
        return _as_expected("".join([*_closed(before), "\n", block, *lines[at + 1 :]]), expected)
    return _as_expected(_appended(text, block), expected)


def removed(text: str, path: TablePath, index: int) -> str:
    """`text` without one of a list of tables. Raises CannotChange."""
    expected = tomllib.loads(text)
    parent = expected
    for step in path[:-1]:
        parent = parent[step]
    del parent[path[-1]][index]
    if not parent[path[-1]]:
        del parent[path[-1]]
    document = tomlkit.parse(text)
    entry = _entry(document, path, index)
    if entry is None:
        raise CannotChange(f"there is no {'.'.join(path)}[{index}] in the file")
    if isinstance(entry, InlineTable):
        array = next(one for one in _found(document, path) if isinstance(one, Array))
        del array[index]
        if not len(array):
            (_table(document, path[:-1]) or document).remove(path[-1])
        return _as_expected(tomlkit.dumps(document), expected)
    assert isinstance(entry, Table)
    entry.comment(_MARK)
    first = _marked(document)
    document = tomlkit.parse(text)
    entry = _entry(document, path, index)
    assert isinstance(entry, Table)
    _mark_end(entry)
    last = _marked(document)
    lines = text.splitlines(keepends=True)
    while last + 1 < len(lines) and lines[last + 1].lstrip().startswith("#"):
        last += 1  # comments right below its keys are its own
    rest = lines[last + 1 :]
    if rest and not rest[0].strip() and (not first or not lines[first - 1].strip()):
        rest = rest[1:]
    return _as_expected("".join([*lines[:first], *rest]), expected, emptied=path)


def _apply(whole: dict[str, object], path: TablePath, fields: Fields, index: int | None) -> None:
    """The same change of the plain values."""
    table: object = whole
    for step in path:
        assert isinstance(table, dict)
        table = table.setdefault(step, {})
    if index is not None:
        assert isinstance(table, list)
        table = table[index]
    assert isinstance(table, dict)
    for key, value in fields.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def _as_expected(text: str, expected: Mapping[str, object], emptied: TablePath = ()) -> str:
    """`text`, if it says that. A table that has become empty may be left out."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotChange("the file is laid out in a way that only an editor can change") from error
    if _without_empty(found) != _without_empty(expected):
        raise CannotChange("the file is laid out in a way that only an editor can change")
    return text


def _without_empty(value: object) -> object:
    if isinstance(value, dict):
        kept = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner != {}}
    return value


def _found(container: Container, path: TablePath) -> Iterator[Item]:
    """Everything of that name, in the order of the file: parts of one table may stand apart."""
    for key, inner in container.body:
        if key is None or key.key != path[0]:
            continue
        if len(path) == 1:
            yield inner
        elif isinstance(inner, Table | InlineTable):
            yield from _found(inner.value, path[1:])


def _table(document: Container, path: TablePath) -> Table | InlineTable | None:
    """The table under a header of its own, or one in braces."""
    for one in _found(document, path) if path else ():
        if isinstance(one, InlineTable) or (isinstance(one, Table) and not one.is_super_table()):
            return one
    return None


def _entry(document: Container, path: TablePath, index: int) -> Table | InlineTable | None:
    entries: list[Table | InlineTable] = []
    for one in _found(document, path):
        if isinstance(one, AoT):
            entries += one.body
        elif isinstance(one, Array):
            entries += [inner for inner in one if isinstance(inner, InlineTable)]
    return entries[index] if index < len(entries) else None


def _set(table: Table | InlineTable, key: str, value: object) -> None:
    """A list keeps what stays of it, and the comments there."""
    old = table[key]
    if not isinstance(old, Array) or not isinstance(value, list):
        table[key] = _item(value)
        return
    before = old.unwrap()
    kept = [one for one in before if one in value]
    if value[: len(kept)] == kept and len(set(map(str, value))) == len(value):
        for one in [one for one in before if one not in value]:
            old.remove(one)
        for one in value[len(kept) :]:
            old.append(one)
        return
    fresh = tomlkit.array()
    fresh.extend(value)
    fresh.multiline("\n" in old.as_string())
    table[key] = fresh


def _item(value: object) -> Item:
    if isinstance(value, str) and "\n" in value and '"""' not in value and "\\" not in value:
        return tomlkit.string(f"\n{value}" if value.startswith("\n") else value, multiline=True)
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        table.update(value)
        return table
    return item(value)


def _line(key: str, value: object) -> str:
    table = tomlkit.document()
    table.add(key, _item(value))
    return tomlkit.dumps(table).rstrip("\n")


def _with_keys(text: str, path: TablePath, index: int | None, lines: str) -> str:
    """New keys at the end of a table, or in a new table at the end of the file."""
    document = tomlkit.parse(text)
    table = _entry(document, path, index) if index is not None else _table(document, path)
    if not isinstance(table, Table):
        return _appended(text, f"[{'.'.join(path)}]\n{lines}")
    own = [
        inner
        for key, inner in table.value.body
        if key is not None and not isinstance(inner, AoT) and not isinstance(inner, Table)
    ]
    (own[-1] if own else table).comment(_MARK)
    at = _marked(document)
    before = text.splitlines(keepends=True)
    return "".join([*_closed(before[: at + 1]), lines, *before[at + 1 :]])


def _appended(text: str, block: str) -> str:
    kept = text.rstrip("\n")
    return f"{kept}\n\n{block}" if kept else block


def _closed(lines: Sequence[str]) -> Sequence[str]:
    """The lines, the last with its end."""
    return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else f"{lines[-1]}\n"] if lines else lines


def _mark_end(table: Table) -> None:
    """Mark the last line of a table and of all that is in it."""
    inner = [one for key, one in table.value.body if key is not None]
    if not inner:
        table.comment(_MARK)
    elif isinstance(inner[-1], Table):
        _mark_end(inner[-1])
    elif isinstance(inner[-1], AoT):
        _mark_end(inner[-1].body[-1])
    else:
        inner[-1].comment(_MARK)


def _marked(document: tomlkit.TOMLDocument) -> int:
    """The number of the line that is marked; the document is of no use any more."""
    return next(at for at, line in enumerate(tomlkit.dumps(document).splitlines()) if line.endswith(_MARK))
