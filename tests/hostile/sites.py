"""Finds, in the syntax tree of the product, each place that makes or runs a regular expression.

A place is named `file:where`, where `where` is the name the pattern is assigned to at the top of its module or class,
else the function it stands in; several places of one name are told apart by `#2`, `#3`.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "gateway", "adapters")
LIBRARIES = frozenset({"re", "regex", "fnmatch"})
# What the libraries offer that runs or makes a pattern. `fnmatch` makes one from the wildcards it is given.
RUNS = frozenset({"search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split", "splititer"})
MAKES = frozenset({"compile", "template", "translate", "fnmatch", "fnmatchcase", "filter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """`call` is None where the function is handed on instead of called (`map(re.compile, …)`)."""

    file: str
    where: str
    line: int
    function: str
    call: ast.Call | None
    uses: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.file}:{self.where}"


def product_files(root: Path = ROOT) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def sites_of_product(root: Path = ROOT) -> list[Site]:
    """All places, with the methods that are called on the names the patterns have, in whichever module."""
    trees = {path.relative_to(root).as_posix(): ast.parse(path.read_bytes()) for path in product_files(root)}
    uses = _uses(trees)
    found = []
    for file, tree in trees.items():
        for site in sites_in(tree, file):
            methods = uses.get((file, site.where.partition("#")[0]), set())
            found.append(replace(site, uses=frozenset({site.function} if site.function in RUNS else methods)))
    return found


def sites_in(tree: ast.Module, file: str = "") -> list[Site]:
    """The places of one module."""
    visitor = _Visitor(file)
    visitor.visit(tree)
    return visitor.found


def pattern_at(site: Site, names: Mapping[str, Any] | None = None) -> "re.Pattern[str] | re.Pattern[bytes] | None":
    """The pattern as its module makes it, `names` standing for the function's own; None where these are unknown."""
    if site.call is None or site.function in MAKES - {"compile"}:
        return None
    module = import_module(site.file.removesuffix(".py").replace("/", "."))
    flags_at = {"sub": 4, "subn": 4, "split": 3}.get(site.function, 1 if site.function == "compile" else 2)
    named = {keyword.arg: keyword.value for keyword in site.call.keywords}
    pattern = site.call.args[0] if site.call.args else named.get("pattern")
    flags = site.call.args[flags_at] if len(site.call.args) > flags_at else named.get("flags")
    known = {**vars(module), **(names or {})}
    try:
        return re.compile(_evaluated(pattern, known), _evaluated(flags, known) or 0)
    except NameError:
        return None


def patterns_in(value: object) -> Iterator["re.Pattern[str]"]:
    """The entries that a table holds, at any depth."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from patterns_in(one)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from patterns_in([getattr(value, field.name) for field in fields(value)])


def _evaluated(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(names)) if node is not None else None


@dataclass(slots=True)
class _Names:
    """A module's names for the libraries and their functions."""

    libraries: set[str] = field(default_factory=set)
    functions: dict[str, str] = field(default_factory=dict)


class _Visitor(ast.NodeVisitor):
    def __init__(self, file: str) -> None:
        self.found: list[Site] = []
        self._file = file
        self._names = _Names()
        self._scope: list[str] = []
        self._assigned = ""
        self._count: Counter[str] = Counter()
        self._seen: set[int] = set()

    def visit_Module(self, node: ast.Module) -> None:
        for one in ast.walk(node):  # an import or another name within a function counts for the whole module
            self._learn(one)
        self.generic_visit(node)

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                for name in node.names:
                    if name.name.split(".")[0] in LIBRARIES:
                        self._names.libraries.add(name.asname or name.name.split(".")[0])
            case ast.ImportFrom(module=str() as module) if module.split(".")[0] in LIBRARIES:
                for name in node.names:
                    if name.name in RUNS | MAKES:
                        self._names.functions[name.asname or name.name] = name.name
            case ast.Assign(value=ast.Name(id=name)) if name in self._names.libraries:
                self._names.libraries |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            case ast.Assign(value=ast.Attribute() as value) if (function := self._function(value)) is not None:
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._names.functions[target.id] = function

    def _function(self, node: ast.AST) -> str | None:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in self._names.libraries:
                return attr if attr in RUNS | MAKES else None
            case ast.Name(id=name):
                return self._names.functions.get(name)
        return None

    def _scoped(self, node: Any) -> None:
        assigned, self._assigned = self._assigned, ""
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        self._assigned = assigned

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scoped  # noqa: N815

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assignment(node, node.targets[0])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assignment(node, node.target)

    def _assignment(self, node: ast.AST, target: ast.expr) -> None:
        before = self._assigned
        if isinstance(target, ast.Name) and not before:
            self._assigned = target.id
        self.generic_visit(node)
        self._assigned = before

    def visit_Call(self, node: ast.Call) -> None:
        if (function := self._function(node.func)) is not None:
            self._seen.add(id(node.func))
            self._add(node, function, node)
        elif isinstance(node.func, ast.Name) and node.func.id in ("getattr", "vars"):
            self._handed_on(node.args)
        self.generic_visit(node)

    def _handed_on(self, values: list[ast.expr]) -> None:
        for value in values:
            if isinstance(value, ast.Name) and value.id in self._names.libraries:
                self._add(value, "getattr", None)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._reference(node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._reference(node)

    def _reference(self, node: ast.expr) -> None:
        if id(node) not in self._seen and (function := self._function(node)) is not None:
            self._add(node, function, None)

    def _add(self, node: ast.expr, function: str, call: ast.Call | None) -> None:
        inside = any(True for _ in self._functions())
        base = ".".join(self._scope) if inside or not self._assigned else ".".join([*self._scope, self._assigned])
        self._count[base] += 1
        where = base if self._count[base] == 1 else f"{base}#{self._count[base]}"
        self.found.append(
            Site(file=self._file, where=where or "module", line=node.lineno, function=function, call=call)
        )

    def _functions(self) -> Iterator[str]:
        return (name for name in self._scope if not name.lstrip("_")[:1].isupper())


def _uses(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """(file, name) of a pattern: the methods that are called on it, in its own module and in those that import it."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file, tree in trees.items():
        imported: dict[str, tuple[str, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                home = node.module.replace(".", "/") + ".py"
                imported |= {name.asname or name.name: (home, name.name) for name in node.names if home in trees}
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=method) if method in RUNS:
                    found[imported.get(name, (file, name))].add(method)
    return found
