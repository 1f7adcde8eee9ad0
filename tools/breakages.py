"""The breakages of `tests/breakages/<requirement>.toml`, and the files of the product as they are after one of them.

Each has a name, a kind, and one or more changes. Tests that carry the requirement (or one of those that `breaks` names)
must notice, of all of them or of the `tests` that it names. Those of `safety.toml` break no requirement; the tests that
each names must notice, whatever they carry. A change of Python names a function and is found there by
the syntax tree (`tools.snippets`); `module` is where to look first, and the whole product is searched when the function
is there no more. A change of another file is text that occurs once.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from tools.snippets import PlaceAmbiguous, PlaceNotFound, names, replaced

SAFETY = "safety"
PRODUCT = ("agent", "gateway", "adapters")
Sources = Mapping[str, str]  # path from the root -> text
# A comparison, a limit or an order is another; the part is right and nobody calls it, or its result is dropped; the
# default is another.
Kind = Literal["condition", "wiring", "configuration"]
KINDS = get_args(Kind)
CODE, CODE_TOO = ("module", "function", "snippet", "replacement"), ("nth", "imports")  # keys of a change of Python
TEXT = ("file", "snippet", "replacement")  # and of one of another file


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """Python that is replaced in one function."""

    module: str  # dotted
    function: str  # `Class.method`; a class or "" for what is in no function
    snippet: str
    replacement: str
    nth: int | None = None  # from 1, where the function holds the snippet more than once
    imports: tuple[str, ...] = ()  # what the replacement needs besides, a statement each


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChange:
    """Text that is replaced in a file that is no Python."""

    file: str
    snippet: str
    replacement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """One way to break the product, and who must notice."""

    name: str
    breaks: tuple[str, ...]  # ids of requirements; none: those of safety
    kind: Kind
    tests: tuple[str, ...]  # files, folders or node ids; none: all tests that carry one of the ids
    changes: tuple[CodeChange | TextChange, ...]


def read(path: Path) -> list[Breakage]:
    """Raises ValueError for a file that lacks something or says what nobody knows."""
    return parsed(path.stem, path.read_text())


def parsed(requirement: str, text: str) -> list[Breakage]:
    """The breakages of one requirement; none where the text says why it is `unbreakable`. Raises ValueError."""
    said = tomllib.loads(text)
    if "unbreakable" in said:
        _only(said, ("unbreakable",), ())
        if not _text(said, "unbreakable").strip():
            raise ValueError("unbreakable must give the reason")
        return []
    _only(said, ("breakage",), ())
    return [_breakage(requirement, one) for one in _tables(said, "breakage")]


def _breakage(requirement: str, said: Mapping[str, object]) -> Breakage:
    allowed = ("breaks", "kind", "tests")
    if "change" in said:
        _only(said, ("name", "change"), allowed)
        changes = [_change(one) for one in _tables(said, "change")]
    else:
        needed, besides = (TEXT, ()) if "file" in said else (CODE, CODE_TOO)
        _only(said, ("name", *needed), (*allowed, *besides))
        changes = [_change({key: value for key, value in said.items() if key not in ("name", *allowed)})]
    if requirement == SAFETY and not said.get("tests"):
        raise ValueError("a breakage of safety names its tests")
    kind = said.get("kind", "condition")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; known: {', '.join(KINDS)}")
    return Breakage(
        name=_text(said, "name"),
        breaks=() if requirement == SAFETY else tuple(_texts(said, "breaks") or [requirement]),
        kind=cast(Kind, kind),
        tests=tuple(_texts(said, "tests")),
        changes=tuple(changes),
    )


def unknown(breakage: Breakage, requirements: Iterable[str]) -> tuple[str, ...]:
    """The ids it names that no requirement has."""
    return tuple(name for name in breakage.breaks if name not in set(requirements))


def sources(root: Path, breakages: Iterable[Breakage] = ()) -> dict[str, str]:
    """The Python of the product, and the other files that these breakages name."""
    paths = {path for package in PRODUCT for path in (root / package).rglob("*.py")}
    named = {change.file for one in breakages for change in one.changes if isinstance(change, TextChange)}
    paths |= {root / name for name in named if (root / name).is_file()}
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(paths)}


def applied(breakage: Breakage, texts: Sources) -> dict[str, str]:
    """The files that it changes, as they are then. Raises ValueError or PlaceNotFound, whose words say why."""
    changed: dict[str, str] = {}
    for change in breakage.changes:
        path, text = _applied(change, {**texts, **changed})
        changed[path] = text
    return changed


def _applied(change: CodeChange | TextChange, texts: Sources) -> tuple[str, str]:
    if isinstance(change, TextChange):
        if (count := texts.get(change.file, "").count(change.snippet)) != 1:
            raise PlaceNotFound(f"{change.file} holds the snippet {count} times")
        return change.file, texts[change.file].replace(change.snippet, change.replacement)
    hint = change.module.replace(".", "/")
    for path in (f"{hint}.py", f"{hint}/__init__.py"):
        try:
            return path, _changed(texts[path], change, texts)
        except PlaceAmbiguous:
            raise
        except LookupError:
            continue  # the module is gone, or its function is elsewhere now
    found: dict[str, str] = {}
    for path, text in texts.items():
        if path.endswith(".py") and _may_hold(text, change):
            try:
                found[path] = _changed(text, change, texts)
            except PlaceNotFound:
                continue
    if len(found) != 1:
        where = f"{change.module}:{change.function}"
        told = f"modules that hold it: {', '.join(found)}" if found else "no module of the product holds it"
        raise PlaceNotFound(f"{where} does not hold the snippet, and {told}")
    return found.popitem()


def _may_hold(text: str, change: CodeChange) -> bool:
    """A quick look at the words, which spares most modules from being parsed."""
    own = change.function.rpartition(".")[2]
    if own and not re.search(rf"\b(?:def|class) {re.escape(own)}\b", text):
        return False
    return all(word in text for word in names(change.snippet))


def _changed(text: str, change: CodeChange, texts: Sources) -> str:
    result = replaced(text, change.function, change.snippet, change.replacement, change.nth)
    if not change.imports:
        return result
    for statement in change.imports:
        _check_import(statement, texts)
    tree = ast.parse(result)
    first = next(node for node in tree.body if not _is_preamble(node)).lineno - 1
    lines = result.splitlines(keepends=True)
    return "".join([*lines[:first], *(f"{statement}\n" for statement in change.imports), *lines[first:]])


def _check_import(statement: str, texts: Sources) -> None:
    """An import of the product that leads nowhere would fail the tests for a reason that proves nothing."""
    node = ast.parse(statement).body[0]
    if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] not in PRODUCT:
        return
    base = (node.module or "").replace(".", "/")
    text = texts.get(f"{base}.py", texts.get(f"{base}/__init__.py", ""))
    for alias in node.names:
        is_module = f"{base}/{alias.name}.py" in texts or f"{base}/{alias.name}/__init__.py" in texts
        if not is_module and not re.search(rf"\b{alias.name}\b", text):
            raise ValueError(f"`{statement}` leads nowhere")


def _is_preamble(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _change(said: Mapping[str, object]) -> CodeChange | TextChange:
    if "file" in said:
        _only(said, TEXT, ())
        return TextChange(**{key: _text(said, key) for key in TEXT})
    _only(said, CODE, CODE_TOO)
    nth, imports = said.get("nth"), said.get("imports", [])
    if nth is not None and not isinstance(nth, int):
        raise ValueError("nth must be a number")
    if not isinstance(imports, list):
        raise ValueError("imports must be a list of statements")
    return CodeChange(**{key: _text(said, key) for key in CODE}, nth=nth, imports=tuple(cast(list[str], imports)))


def _tables(said: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = said[key]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"each {key} begins with [[{key}]]")
    return found


def _texts(said: Mapping[str, object], key: str) -> list[str]:
    found = said.get(key)
    if key in said and not (isinstance(found, list) and found and all(isinstance(one, str) for one in found)):
        raise ValueError(f"{key} must be a list of strings that is not empty")
    return cast(list[str], found or [])


def _text(said: Mapping[str, object], key: str) -> str:
    if not isinstance(value := said[key], str):
        raise ValueError(f"{key} must be a string")
    return value


def _only(said: Mapping[str, object], needed: Iterable[str], allowed: Iterable[str]) -> None:
    if missing := [key for key in needed if key not in said]:
        raise ValueError(f"`{missing[0]}` is missing")
    if strange := [key for key in said if key not in {*needed, *allowed}]:
        raise ValueError(f"unknown key `{strange[0]}`; known: {', '.join((*needed, *allowed))}")
