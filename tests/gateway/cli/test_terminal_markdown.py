"""Documents in a terminal: every character is shown, whatever a library would make of it."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gateway.channels.document import Document, Plain
from gateway.channels.document_json import from_json, to_json
from gateway.channels.plain_text import as_text
from gateway.cli.terminal.markdown import MarkdownRenderer
from gateway.cli.terminal.prompt import Prompt
from gateway.cli.terminal.screen import Screen
from gateway.delivery.rendering.markdown import parse
from tests.program.typist import Glass

ALL_KINDS = """# One

**b** *i* ~~s~~ `c` [docs](http://127.0.0.1/d) <http://127.0.0.1/e>
second line

> quoted
>
> - [x] done
> - [ ] open

3. three
4. four

| a | b |
|:--|--:|
| 1 | [/x] |

---

```python
x = a[0]
```
"""


def shown(document: Document, text: str, *, width: int = 80) -> str:
    """The screen of a terminal of this width, without colours."""
    out = io.StringIO()
    MarkdownRenderer(Console(file=out, width=width, color_system=None)).put(document, text)
    return out.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[/] [/x] Bo [bold]Mal[/bold] [link=http://127.0.0.1/e]x :smile: [[a.b]]", id="rich's markup"),
        pytest.param("Vec<String>, <div>, if a<b and c>d then <b>bold</b> &amp; &lt;", id="HTML"),
    ],
)  # fmt: skip
def test_plain_text_is_shown_as_it_is(text: str) -> None:
    assert " ".join(shown((Plain(text),), text).split()) == text


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        pytest.param(r"**b** \*args and \<i\>", "b *args and <i>", id="what was escaped"),
        pytest.param("[docs](http://127.0.0.1/d)", "docs (http://127.0.0.1/d)", id="a link shows its address"),
        pytest.param("<http://127.0.0.1/d>", "http://127.0.0.1/d", id="an address is shown once"),
        pytest.param("`a[/x]` and ``b`c``", "a[/x] and b`c", id="code within a line"),
        pytest.param("```\n<b>[/x]</b>\n```", "<b>[/x]</b>", id="code"),
        pytest.param("> q [/x]", "▌ q [/x]", id="a quote"),
        pytest.param("9. a\n10. b", " 9. a\n10. b", id="a numbered list"),
        pytest.param("- [x] a\n- b", "• [x] a\n• b", id="tasks"),
    ],
)
def test_how_each_thing_looks(source: str, seen: str) -> None:
    assert "\n".join(line.rstrip() for line in shown(parse(source), source).strip("\n").splitlines()).strip("\n") in (
        seen, f" {seen}",
    )  # fmt: skip


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            "|" + "head |" * 30 + "\n|" + " --- |" * 30 + "\n|" + " cell |" * 30, id="a table of many columns"
        ),
        pytest.param("| name | text |\n|---|---|\n| " + "x" * 50 + " | " + "y" * 90 + " |", id="a table of long words"),
        pytest.param("\n".join("  " * depth + f"- x{depth}y" for depth in range(25)), id="a deep list"),
        pytest.param("> " * 30 + "deep [/x]", id="a deep quote"),
    ],
)
def test_nothing_is_lost_where_there_is_no_room(source: str, width: int) -> None:
    drawn = re.sub(r"[\s▌•━]", "", shown(parse(source), source, width=width))
    for word in re.findall(r"\w+(?:\[/x\])?", source):
        assert word in drawn or len(word) > width // 3
    for letter in "xy":
        assert drawn.count(letter) >= source.count(letter)


WORDS = st.text(st.sampled_from("ab[]/<>*_`#|-:&\\ \n(){}=!1."), max_size=60)


@given(WORDS)
def test_no_text_fails_and_no_letter_of_it_vanishes(text: str) -> None:
    document = parse(text)
    assert from_json(to_json(document)) == document
    drawn = shown(document, text)
    for letter in "ab/{}=":
        assert drawn.count(letter) >= as_text(document).count(letter) or "```" in text or "~~~" in text


def test_every_kind_of_block_survives_the_way_to_the_terminal() -> None:
    document = parse(ALL_KINDS)
    assert from_json(to_json(document)) == document


@pytest.mark.parametrize(
    "broken", [{}, "x", [{"kind": "Nothing"}], [{"kind": "Code"}], [{"kind": "Text", "text": "x"}]]
)
def test_what_is_no_document_is_refused(broken: object) -> None:
    with pytest.raises(ValueError, match=r"kind|blocks|Code"):
        from_json(broken)


@pytest.fixture
def fancy(capsys: pytest.CaptureFixture[str]) -> Screen:
    def echo(text: str) -> None:
        print(text, end="")

    return Screen(fancy=True, prompt=Prompt(interactive=False, echo=echo), echo=echo)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([{"kind": "Diagram", "text": "x"}], id="of a version that knows more"),
        pytest.param([{"kind": "Paragraph", "children": ["x"]}], id="that cannot be drawn"),
    ],
)
def test_a_document_that_cannot_be_drawn_is_shown_as_its_text(
    fancy: Screen, capsys: pytest.CaptureFixture[str], document: object
) -> None:
    event = {"id": "1", "text": "[/x] **plain** words", "markdown": True, "document": document}
    fancy.show({"type": "message", **event})
    fancy.show({"type": "draft", **event, "id": "2"})
    fancy.show({"type": "message", **event, "id": "3", "replaces": "2"})
    fancy.show({"type": "message", "id": "4", "text": "and on", "markdown": False})
    assert capsys.readouterr().out.count("[/x] **plain** words") == 2
    assert fancy.messages == 3


def test_an_edit_is_drawn_and_not_shown_as_its_source(fancy: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    source = "**May I do this?** [/x]\n\n```sh\nrm -r x\n```"
    for document in (to_json(parse(source)), None):  # null: as an earlier version has kept it
        fancy.show({"type": "edit", "id": "1", "text": source, "markdown": True, "document": document})
        out = capsys.readouterr().out
        assert out.startswith("(edited) May I do this? [/x]\n")
        assert "rm -r x" in out
        assert "```" not in out


class Growing:
    """An answer that grows on a terminal of 40 columns."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self.renderer = MarkdownRenderer(Console(file=self._out, width=40, force_terminal=True, color_system=None))

    def draw(self, text: str) -> None:
        self.renderer.draw(parse(text), text)

    def types(self, line: str) -> None:
        self.renderer.hold()
        self._out.write(f"› {line}\n")

    def finish(self, text: str) -> list[str]:
        """The lines that stand there then."""
        self.renderer.finish(parse(text), text)
        glass = Glass(40)
        glass.take(self._out.getvalue().replace("\n", "\r\n"))  # as a terminal does
        return str(glass).splitlines()


def test_an_answer_goes_on_below_what_was_typed_with_the_line_that_was_not_whole() -> None:
    growing = Growing()
    growing.draw("one\n\ntwo\n\nth")
    growing.types("first")
    growing.types("second")
    growing.draw("one\n\ntwo\n\nthree\n\nfo")
    growing.types("third")
    assert growing.finish("one\n\ntwo\n\nthree\n\nfour") == [
        "one", "", "two", "", "› first", "› second", "three", "", "› third", "four",
    ]  # fmt: skip


def test_of_an_answer_that_ends_while_somebody_types_the_rest_is_shown() -> None:
    growing = Growing()
    growing.draw("one\n\ntw")
    growing.types("first")
    assert growing.finish("one\n\ntwo") == ["one", "", "› first", "two"]


def test_no_word_is_lost_where_markdown_changes_what_stands_already() -> None:
    growing = Growing()
    growing.draw("one\n\n**two\n\nth")
    growing.types("first")
    assert growing.finish("one\n\n# TWO\n\nthree") == ["one", "", "**two", "", "› first", "TWO", "", "three"]


def test_a_status_stands_below_what_grows_and_goes() -> None:
    growing = Growing()
    growing.draw("one")
    growing.renderer.note("Waiting: 1")
    growing.renderer.note("")
    growing.renderer.note("Waiting: 2")
    assert growing.finish("one two") == ["one two"]


def test_an_answer_that_is_taken_away_while_it_grows_is_gone() -> None:
    out: list[str] = []
    screen = Screen(fancy=True, prompt=Prompt(interactive=False, echo=out.append), echo=out.append)
    screen.show({"type": "draft", "id": "1", "text": "half an ans", "markdown": False})
    assert screen.is_growing
    screen.show({"type": "gone", "id": "1"})
    assert not screen.is_drawing
    assert not screen.is_growing
