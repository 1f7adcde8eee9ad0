"""Snippets: found by the syntax tree in a function, replaced there, the rest of the file untouched."""

import ast

import pytest

from tools.snippets import PlaceAmbiguous, PlaceNotFound, replaced

SOURCE = '''\
"""A module."""

LIMIT = 3  # é


class Queue:
    size: int = 5

    async def put(self, item: str, most: int = 2) -> bool:
        """Take it."""
        # why
        if self.full(
            most,
        ) and not item:  # a comment
            text = """two
  lines"""
            self.log(text)
            return False
        elif item == "é":
            self.log('last')
        with self.lock:
            self.items.append(item)
            self.log(item)
        return True


def other():
    def put():
        return LIMIT

    first = LIMIT
    return put() + LIMIT, first
'''


def test_only_the_place_changes() -> None:
    changed = replaced(SOURCE, "Queue.put", 'self.log("last")', 'self.log("first")')
    assert changed == SOURCE.replace("self.log('last')", '(self.log("first"))')


@pytest.mark.parametrize(
    ("function", "snippet", "replacement", "wanted"),
    [
        pytest.param(
            "Queue.put",
            "self.full(most)",
            "True",
            ("if self.full(\n            most,\n        )", "if (True)"),
            id="an expression over lines",
        ),
        pytest.param(
            "Queue.put",
            "self.full(most)\nand not item",
            "item",
            ("self.full(\n            most,\n        ) and not item", "(item)"),
            id="an expression written over lines",
        ),
        pytest.param("Queue.put", "return True", "return False", ("return True", "return False"), id="a statement"),
        pytest.param("Queue.put", "return True", "", ("return True", "pass"), id="a statement taken away"),
        pytest.param("Queue.put", "2", "20", ("most: int = 2", "most: int = (20)"), id="a default"),
        pytest.param(
            "Queue.put",
            "self.items.append(item)",
            "self.items.append(item)\nself.items.append(item)",
            (
                "            self.items.append(item)\n",
                "            self.items.append(item)\n            self.items.append(item)\n",
            ),
            id="a statement put in",
        ),
        pytest.param(
            "Queue.put",
            "with self.lock: ...",
            "if True:\n    ...",
            ("with self.lock:", "if True:"),
            id="the head of a block",
        ),
        pytest.param(
            "Queue.put",
            "with self.lock: ...",
            "...",
            (
                "        with self.lock:\n            self.items.append(item)\n            self.log(item)\n",
                "        self.items.append(item)\n        self.log(item)\n",
            ),
            id="a block without its head",
        ),
        pytest.param(
            "Queue.put",
            "async def put(self, item: str, most: int = 2) -> bool: ...",
            "async def put(self, item, most): ...",
            ("(self, item: str, most: int = 2) -> bool", "(self, item, most)"),
            id="the head of a function",
        ),
        pytest.param("Queue", "size: int = 5", "size: int = 6", ("= 5", "= 6"), id="in a class"),
        pytest.param("", "LIMIT = 3", "LIMIT = 4", ("LIMIT = 3", "LIMIT = 4"), id="in the module"),
        pytest.param("other", "first = LIMIT", "first = 0", ("first = LIMIT", "first = 0"), id="in a function"),
        pytest.param(
            "other.put", "return LIMIT", "return 0", ("return LIMIT", "return 0"), id="in a function within a function"
        ),
    ],
)
def test_what_can_be_replaced(function: str, snippet: str, replacement: str, wanted: tuple[str, str]) -> None:
    assert SOURCE.count(wanted[0]) == 1
    changed = replaced(SOURCE, function, snippet, replacement)
    assert ast.dump(ast.parse(changed)) == ast.dump(ast.parse(SOURCE.replace(*wanted)))


def test_text_within_strings_keeps_its_spaces_when_a_block_moves() -> None:
    changed = replaced(
        SOURCE,
        "Queue.put",
        "if self.full(most) and not item: ...\nelif item == 'é': ...",
        "while item:\n    if item:\n        ...",
    )
    assert (
        'while item:\n            if item:\n                text = """two\n  lines"""\n                self.log(text)\n'
        in changed
    )


def test_an_elif_can_become_something_else() -> None:
    changed = replaced(SOURCE, "Queue.put", "if item == 'é': ...", "self.log(item)\nself.log(item)")
    assert "        else:\n            self.log(item)\n            self.log(item)\n        with" in changed


def test_the_code_may_be_formatted_anew() -> None:
    compact = SOURCE.replace("self.full(\n            most,\n        )", "self.full(most)").replace("# why\n", "\n")
    for source in (SOURCE, compact):
        assert "if (True):" in replaced(source, "Queue.put", "self.full(most) and not item", "True")


@pytest.mark.parametrize(
    ("function", "snippet", "replacement", "error", "words"),
    [
        pytest.param("Queue.take", "return True", "", PlaceNotFound, "no function 'Queue.take'", id="no such function"),
        pytest.param("put", "return True", "", PlaceNotFound, "no function 'put'", id="a method needs its class"),
        pytest.param("Queue.put", "return None", "", PlaceNotFound, "Queue.put does not hold", id="not there"),
        pytest.param("Queue", "return True", "", PlaceNotFound, "Queue does not hold", id="a class is not its methods"),
        pytest.param("other", "LIMIT", "4", PlaceAmbiguous, "3 times: say which by `nth`", id="several times"),
        pytest.param("Queue.put", "return (", "", ValueError, "no valid Python: 'return \\('", id="no Python"),
        pytest.param("Queue.put", "", "x = 1", ValueError, "the snippet is empty", id="nothing"),
        pytest.param("Queue.put", "return True", "return (True)", ValueError, "changes nothing", id="no change"),
        pytest.param(
            "Queue.put",
            "with self.lock: ...",
            "if 1:\n    ...\nelse:\n    ...",
            ValueError,
            "more blocks",
            id="no such block",
        ),
    ],
)
def test_what_is_refused(function: str, snippet: str, replacement: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        replaced(SOURCE, function, snippet, replacement)


def test_one_of_several_is_chosen_by_its_number() -> None:
    changed = replaced(SOURCE, "other", "LIMIT", "0", nth=2)
    assert "first = (0)" in changed
    assert changed.count("LIMIT") == SOURCE.count("LIMIT") - 1
    with pytest.raises(PlaceNotFound, match="no number 4"):
        replaced(SOURCE, "other", "LIMIT", "0", nth=4)


def test_a_replacement_must_be_valid_where_it_stands() -> None:
    with pytest.raises(ValueError, match="no valid Python there"):
        replaced("match step:\n    case Step.ONE:\n        pass\n", "", "Step.ONE", "1 or 2")
