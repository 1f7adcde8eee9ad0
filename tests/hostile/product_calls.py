"""Uses of names in functions of the product, found in the syntax trees, to be compared with a register."""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PRODUCT = ("agent", "gateway", "adapters")


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a name. `dotted` is what it resolves to by the imports ("os.unlink"), or ".unlink" for a method.

    `call` is None where the name is handed on, as to a thread; `awaited` says that the call's result is.
    """

    dotted: str
    call: ast.Call | None
    awaited: bool


FOR_TESTS = "gateway/testing/"  # in the package for the tests of adapters, loaded by nothing that runs

Wanted = Callable[[Use], bool]


def uses_in(source: str, wanted: Wanted) -> Mapping[str, tuple[str, ...]]:
    """By function ("Class.method", "" for the module's own lines) the names that are wanted, sorted."""
    tree = ast.parse(source)
    imported = dict(_imported(tree))
    found: dict[str, list[str]] = defaultdict(list)
    for where, use in _uses(tree, imported, ()):
        if wanted(use):
            found[where].append(use.dotted)
    return {where: tuple(sorted(names)) for where, names in found.items()}


def uses_of_product(wanted: Wanted) -> Mapping[str, tuple[str, ...]]:
    """As `uses_in` for all modules: "agent/memory/notes.py write" to the names."""
    found = {}
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            module = path.relative_to(ROOT).as_posix()
            if module.startswith(FOR_TESTS):
                continue
            for where, names in uses_in(path.read_text("utf-8"), wanted).items():
                found[f"{module} {where}".rstrip()] = names
    return found


def differences(found: Mapping[str, Sequence[str]], register: Mapping[str, tuple[str, object]]) -> list[str]:
    """The differences between the two, as lines for a reader."""
    listed = {where: tuple(sorted(names.split())) for where, (names, _) in register.items()}
    lines = [
        f"not registered: {where}: {' '.join(names)} (registered: {' '.join(listed.get(where, ())) or 'nothing'})"
        for where, names in found.items()
        if listed.get(where) != tuple(names)
    ]
    return lines + [f"registered and gone: {where}" for where in listed if where not in found]


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _uses(
    node: ast.AST, imported: Mapping[str, str], within: tuple[str, ...], *, awaited: bool = False
) -> Iterator[tuple[str, Use]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        within = (*within, node.name)
    if isinstance(node, ast.Call):
        if (name := _dotted(node.func, imported)) is not None:
            yield ".".join(within), Use(name, node, awaited)
            if isinstance(node.func, ast.Attribute):
                yield from _uses(node.func.value, imported, within)
        else:
            yield from _uses(node.func, imported, within)
        for child in (*node.args, *node.keywords):
            yield from _uses(child, imported, within)
        return
    if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
        if (name := _dotted(node, imported)) is not None:
            yield ".".join(within), Use(name, None, awaited)
        if isinstance(node, ast.Attribute):
            yield from _uses(node.value, imported, within)
        return
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, imported, within, awaited=isinstance(node, ast.Await))


def _dotted(node: ast.expr, imported: Mapping[str, str]) -> str | None:
    """ "os.path.join" by the imports, a builtin's own name, ".unlink" for an attribute of anything else."""
    parts: list[str] = []
    at = node
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if isinstance(at, ast.Name) and (at.id in imported or not parts):
        return ".".join((imported.get(at.id, at.id), *reversed(parts)))
    return f".{parts[0]}" if parts else None
