"""Prints how the product is cut: the figures that bind, and those that show where to look.

`python -m tools.structure` reads the sources alone; with `--trace` it also runs the program and traces one turn
(`tools/turn_trace.py`). Of the figures, docs/architecture.md shows those that bind.
"""

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import anyio

from tools import vocabulary
from tools.turn_trace import LAYERS, ROOT, trace

GOAL = "130 files, 350 functions, 600 changes of file at most"
BINDING = (
    "names of the private vocabulary",
    "words of the private vocabulary in prose",
    "import circles",
    "upward imports",
)
SMALL, WIDE = 60, 20  # lines of a module, modules of a folder


@dataclass(frozen=True)
class Module:
    """One source file. `imports` holds the names that its import statements may mean."""

    name: str
    lines: int
    tree: ast.Module

    @cached_property
    def imports(self) -> frozenset[str]:
        return frozenset(_imported(self.tree))

    @property
    def statements(self) -> int:
        return sum(isinstance(node, ast.stmt) for node in ast.walk(self.tree))

    @property
    def classes(self) -> list[str]:
        """Public ones at module level."""
        return [node.name for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read(root: Path) -> dict[str, Module]:
    """The modules of the product by name; empty `__init__` files do not count."""
    found = {}
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.py")):
            text = path.read_text()
            if path.name != "__init__.py" or text.strip():
                name = ".".join(path.relative_to(root).with_suffix("").parts)
                found[name] = Module(name, len(text.splitlines()), ast.parse(text))
    return found


def imports_of(modules: Mapping[str, Module]) -> dict[str, Set[str]]:
    """The modules of the product that each one imports."""
    return {name: (module.imports & modules.keys()) - {name} for name, module in modules.items()}


def circles(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, by way of others or directly (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def upward(graph: Mapping[str, Set[str]], contracts: list[dict[str, Any]]) -> list[str]:
    """The imports that go up, or aside, in a contract of layers (`pyproject.toml`)."""
    found = []
    for contract in contracts:
        if contract["type"] != "layers":
            continue
        height = {
            package: (level, package)
            for level, names in enumerate(reversed(contract["layers"]))
            for package in names.split(" | ")
        }
        for name, others in sorted(graph.items()):
            here = _level(name, height)
            for other in sorted(others):
                there = _level(other, height)
                if here and there and here != there and there[0] >= here[0]:
                    found.append(f"{name} imports {other}")
    return found


def _level(name: str, height: Mapping[str, tuple[int, str]]) -> tuple[int, str] | None:
    parts = name.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((height[one] for one in names if one in height), None)


def figures(root: Path) -> dict[str, int]:
    """Each figure that the sources give, by its name: first those that bind."""
    modules = read(root)
    graph = imports_of(modules)
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    importers: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        for other in others:
            importers[other].add(name)
    folders = Counter(name.rpartition(".")[0] for name in modules)
    classes = Counter(name for module in modules.values() for name in module.classes)
    names, words = vocabulary.found(root)
    return {
        **dict(
            zip(BINDING, (len(names), words.total(), len(circles(graph)), len(upward(graph, contracts))), strict=True)
        ),
        "modules": len(modules),
        "statements": sum(module.statements for module in modules.values()),
        f"folders above {WIDE} modules": sum(count > WIDE for count in folders.values()),
        f"modules under {SMALL} lines": sum(module.lines < SMALL for module in modules.values()),
        "modules with a single importer": sum(len(importers[name]) == 1 for name in modules),
        "class names that exist twice": sum(count > 1 for count in classes.values()),
        "files of agent/turn": folders["agent.turn"],
    }


def main() -> int:
    """Print the figures, a line each."""
    for name, value in figures(ROOT).items():
        print(f"{value:7,} {name}")
    if "--trace" in sys.argv:
        passed = anyio.run(trace)
        print(f"{passed.files:7,} files that a plain turn passes")
        print(f"{passed.functions:7,} functions that it passes")
        print(f"{passed.changes:7,} changes of file on its way (goal: {GOAL})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
