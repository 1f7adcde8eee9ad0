"""Finds a piece of Python in a function by its syntax tree and replaces it there; the text around it stays as it is.

A snippet is one expression or a run of statements. Line breaks, quotes and comments do not matter. A block that is only
`...` stands for any block; in the replacement the same block stands there again, the first for the first.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import cast

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Block = list[ast.stmt]
BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")  # the fields of statements, in the order of the source


class PlaceNotFound(LookupError):
    """The function does not hold the snippet exactly once."""


class PlaceAmbiguous(PlaceNotFound):
    """It holds the snippet more than once."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a snippet was found: its nodes, and the blocks that its `...` stood for."""

    nodes: tuple[ast.expr | ast.stmt, ...]
    blocks: tuple[Block, ...] = ()

    @property
    def first_line(self) -> int:
        """Decorators belong to what they decorate, though the tree lets it begin at `def` or `class`."""
        node = self.nodes[0]
        decorators = node.decorator_list if isinstance(node, Definition) else []
        return min([node.lineno, *(one.lineno for one in decorators)])


def replaced(source: str, function: str, snippet: str, replacement: str, nth: int | None = None) -> str:
    """`source` with the snippet replaced in that function (`Class.method`; a class or "" for the code outside of any).

    `nth`: which one, counted from 1, where there are several. An empty replacement becomes `pass`.
    Raises PlaceNotFound; ValueError for a snippet or replacement that is no Python or changes nothing.
    """
    tree = _tree(source)
    found = _chosen(matches(tree, function, snippet, replacement), function, nth)
    before, old, after = _parts(source, found)
    if isinstance(found.nodes[0], ast.expr):
        text = f"({replacement.strip()})"
    else:
        text = _with_blocks(replacement.strip() or "pass", found.blocks, source)
        column = found.nodes[0].col_offset
        if isinstance(found.nodes[0], ast.If) and old.startswith("elif"):
            text = f"else:\n{' ' * (column + 4)}{_indented(text, column + 4)}"
        else:
            text = _indented(text, column)
    result = before + text + after
    first, last = _margins(tree, found)
    lines, behind = result.split("\n"), source.count("\n") + 1 - last
    try:
        changed = _said("\n".join(lines[first - 1 : len(lines) - behind]))
    except SyntaxError as error:
        raise ValueError(f"the replacement is no valid Python there: {error}") from None
    if changed == _said_before(source, first, last):
        raise ValueError("the replacement changes nothing")
    return result


@lru_cache(maxsize=2)
def _tree(source: str) -> ast.Module:
    """Nobody changes it; who goes through many snippets of one source in a row has it parsed once."""
    return ast.parse(source)


def _margins(tree: ast.Module, found: Match) -> tuple[int, int]:
    """The first and the last line of what stands at the module's margin around the match: nothing else can differ."""
    first, last = found.first_line, found.nodes[-1].end_lineno or found.nodes[-1].lineno
    spans = [(Match((one,)).first_line, one.end_lineno or one.lineno) for one in tree.body]
    around = [span for span in spans if span[1] >= first and span[0] <= last]
    return around[0][0], around[-1][1]


def _said(text: str) -> str:
    """Syntax tree of the text as a text, whatever its line breaks, quotes and comments. Raises SyntaxError."""
    return ast.dump(ast.parse(text))


@lru_cache(maxsize=8)
def _said_before(source: str, first: int, last: int) -> str:
    return _said("\n".join(source.split("\n")[first - 1 : last]))


def matches(tree: ast.Module, function: str, snippet: str, replacement: str) -> list[Match]:
    """Every place in the function that equals the snippet, in the order of the source. Raises ValueError."""
    wanted, new = _parsed(snippet), _parsed(replacement)
    scopes = [tree] if not function else [node for name, node in definitions(tree) if name == function]
    if not scopes:
        raise PlaceNotFound(f"there is no function {function!r}")
    if not wanted:
        raise ValueError("the snippet is empty")
    found: list[Match] = []
    for scope in scopes:
        if len(wanted) == 1 and isinstance(wanted[0], ast.Expr) and len(new) == 1 and isinstance(new[0], ast.Expr):
            expression = wanted[0].value
            nodes = (node for node in _nodes(scope) if isinstance(node, ast.expr))
            found += [Match((node,)) for node in nodes if _equal(expression, node, [])]
        else:
            for block in _blocks(scope):
                for index in range(len(block) - len(wanted) + 1):
                    held: list[Block] = []
                    run = block[index : index + len(wanted)]
                    if all(_equal(one, other, held) for one, other in zip(wanted, run, strict=True)):
                        found.append(Match(tuple(run), tuple(held)))
    return sorted(found, key=lambda match: (match.nodes[0].lineno, match.nodes[0].col_offset))


def definitions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, Definition]]:
    """Every function and class with its qualified name in the module."""
    for child in (child for field in BLOCKS for child in getattr(node, field, ())):
        if isinstance(child, Definition):
            name = f"{outer}.{child.name}" if outer else child.name
            yield name, child
            yield from definitions(child, name)
        else:
            yield from definitions(child, outer)


def names(snippet: str) -> set[str]:
    """The names in it. Raises ValueError."""
    nodes = [node for statement in _parsed(snippet) for node in ast.walk(statement)]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def _parsed(text: str) -> Block:
    try:
        return ast.parse(text.strip()).body
    except SyntaxError as error:
        try:  # an expression over several lines
            return ast.parse(f"({text.strip()}\n)").body
        except SyntaxError:
            raise ValueError(f"no valid Python: {text.strip().splitlines()[0]!r}: {error.msg}") from None


def _chosen(found: list[Match], function: str, nth: int | None) -> Match:
    if not found:
        raise PlaceNotFound(f"{function or 'the module'} does not hold the snippet")
    if nth is None and len(found) > 1:
        raise PlaceAmbiguous(f"{function or 'the module'} holds the snippet {len(found)} times: say which by `nth`")
    if nth is not None and not 1 <= nth <= len(found):
        raise PlaceNotFound(
            f"{function or 'the module'} holds the snippet {len(found)} times: there is no number {nth}"
        )
    return found[(nth or 1) - 1]


def _nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes that belong to it. Functions within a class or module are apart, those within a function are not.

    Nor what is within an f-string: before Python 3.12 the tree does not say where that stands.
    """
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, Definition) and isinstance(scope, ast.Module | ast.ClassDef):
            continue
        yield child
        if not isinstance(child, ast.JoinedStr):
            yield from _nodes(child)


def _blocks(scope: ast.AST) -> Iterator[Block]:
    if isinstance(scope, ast.stmt):
        yield [scope]
    for node in (scope, *_nodes(scope)):
        for field in BLOCKS:
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _is_any(block: object) -> bool:
    if not isinstance(block, list) or len(block) != 1 or not isinstance(block[0], ast.Expr):
        return False
    return isinstance(block[0].value, ast.Constant) and block[0].value.value is ...


def _equal(wanted: object, found: object, held: list[Block]) -> bool:
    """Whether two trees say the same; the blocks that `...` stood for are added to `held`."""
    if _is_any(wanted) and isinstance(found, list) and found:
        held.append(cast(Block, found))
        return True
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(
            _equal(one, other, held) for one, other in zip(wanted, found, strict=True)
        )
    if isinstance(wanted, ast.AST) and isinstance(found, ast.AST):
        return type(wanted) is type(found) and all(
            _equal(getattr(wanted, field, None), getattr(found, field, None), held) for field in wanted._fields
        )
    return type(wanted) is type(found) and wanted == found


def _parts(source: str, found: Match) -> tuple[str, str, str]:
    """The text before it, its own, and the text after it. (The tree counts bytes.)"""
    lines = source.encode().split(b"\n")
    first, last = found.nodes[0], found.nodes[-1]
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    start = starts[found.first_line - 1] + first.col_offset
    end = starts[(last.end_lineno or last.lineno) - 1] + (last.end_col_offset or 0)
    whole = source.encode()
    return whole[:start].decode(), whole[start:end].decode(), whole[end:].decode()


def _with_blocks(text: str, blocks: tuple[Block, ...], source: str) -> str:
    """The replacement with the found blocks where it says `...`."""
    places = [block[0] for block in _own_blocks(_parsed(text)) if _is_any(block)]
    if len(places) > len(blocks):
        raise ValueError("the replacement has more blocks of `...` than the snippet")
    lines = source.split("\n")
    for place, block in reversed(list(zip(places, blocks, strict=False))):
        written = text.split("\n")
        line = written[place.lineno - 1]
        head = line.encode()[: place.col_offset].decode().rstrip()
        column = len(line) - len(line.lstrip()) + (4 if head else 0)
        first, last = Match(tuple(block)).first_line, block[-1].end_lineno
        fixed = _within_strings(block)
        shift = column - block[0].col_offset
        held = [
            lines[number - 1] if number in fixed else _shifted(lines[number - 1], shift)
            for number in range(first, (last or first) + 1)
        ]
        held[0] = " " * column + lines[first - 1][block[0].col_offset :]
        written[place.lineno - 1 : place.lineno] = [*([head] if head else []), *held]
        text = "\n".join(written)
    return text


def _own_blocks(block: Block) -> Iterator[Block]:
    """The block and those within it, in the order of the source."""
    yield block
    for statement in block:
        yield from _inner(statement)


def _inner(node: ast.AST) -> Iterator[Block]:
    for field in BLOCKS:
        inner = getattr(node, field, None)
        if not isinstance(inner, list) or not inner:
            continue
        if isinstance(inner[0], ast.stmt):
            yield from _own_blocks(inner)
        else:
            for clause in inner:
                yield from _inner(clause)


def _within_strings(block: Block) -> set[int]:
    """The lines that begin within a string: their first spaces belong to it."""
    nodes = (node for statement in block for node in ast.walk(statement))
    strings = (node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr))
    return {number for node in strings for number in range(node.lineno + 1, (node.end_lineno or 0) + 1)}


def _indented(text: str, columns: int) -> str:
    """All lines but the first moved to the right."""
    fixed = _within_strings(ast.parse(text).body)
    return "\n".join(
        line if number == 1 or number in fixed else _shifted(line, columns)
        for number, line in enumerate(text.split("\n"), 1)
    )


def _shifted(line: str, columns: int) -> str:
    if not line.strip():
        return ""
    return " " * columns + line if columns >= 0 else line[min(-columns, len(line) - len(line.lstrip())) :]
