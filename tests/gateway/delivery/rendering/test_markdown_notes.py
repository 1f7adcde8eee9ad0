"""Formulas arrive as they were written, footnotes below the text; money and brackets stay what they are."""

import pytest

from gateway.channels.document import Block, Code, CodeBlock, Document, Paragraph, Plain, Text
from gateway.delivery.egress import Guard
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import parted


def line(*children: Text | Code) -> Block:
    return Paragraph(children)


@pytest.mark.requirement("Z-165")
@pytest.mark.parametrize(
    ("text", "document"),
    [
        pytest.param("**So** $a_1 * b_2 * c$ holds", ("$a_1 * b_2 * c$",), id="dollars"),
        pytest.param(r"Here \(x_1\) and \[y_2\] `c`", (r"\(x_1\)", r"\[y_2\]", "c"), id="brackets"),
        pytest.param(r"*a* \[citation\] and \(a\_b\)", (), id="brackets that are escaped"),
        pytest.param("*It* costs $5 and_a $6_b", (), id="money"),
        pytest.param("*set* $HOME/a=$B", (), id="a shell's variables"),
        pytest.param("Let $x^2$ be", ("$x^2$",), id="no other markup"),
        pytest.param("*Here* $f(x)$, $n - 1$, $10$ and $2n$", ("$f(x)$", "$n - 1$", "$10$", "$2n$"), id="symbols"),
        pytest.param("*For* $5 and $6, $7-$8, US$9 or 10$", (), id="more money"),
        pytest.param("*Say* '$' + '$' or $this one$", (), id="a sign and words"),
    ],
)
def test_a_formula_within_a_line_is_code(text: str, document: tuple[str, ...]) -> None:
    (paragraph,) = parse(text)
    assert isinstance(paragraph, Paragraph)
    formulas = [child for child in paragraph.children if isinstance(child, Code) and child.formula]
    assert tuple(each.text for each in formulas) == tuple(each for each in document if each != "c")


def test_money_without_markup_arrives_byte_for_byte() -> None:
    assert parse("It costs $5 and $6.") == (Plain("It costs $5 and $6."),)
    assert parse("Type `$x_1$`.")[0] == line(Text("Type "), Code("$x_1$"), Text("."))


@pytest.mark.requirement("Z-165")
def test_a_part_of_a_formula_is_code() -> None:
    code = Code("$x^2 + y$", formula=True)
    assert parted((code,), [4]) == [(Code("$x^2"),), (Code(" + y$"),)]
    assert Guard().document((line(code),)) == (line(code),)


@pytest.mark.parametrize(
    "text",
    ["$$\na_1 = b\n- c * d\n$$", "\\[\na_1 = b\n- c * d\n\\]", "$$a_1 = b\n- c * d$$"],
    ids=["dollars", "brackets", "within the lines"],
)
def test_a_formula_of_its_own_is_a_block_of_code(text: str) -> None:
    assert parse(f"So:\n{text}\n\nEnd **now**")[1] == CodeBlock("a_1 = b\n- c * d", "latex", formula=True)
    assert parse("```latex\na_1\n```") == (CodeBlock("a_1", "latex"),), "code that somebody wants to see"


def test_what_is_never_closed_stays_text() -> None:
    assert "".join(str(parse("**a**\n\n$$\nb_1\n\nc"))).count("$$") == 1


def test_footnotes_stand_below_the_text() -> None:
    text = "It is so[^why] and so[^2].\n\n[^why]: Because *I* say it.\n[^2]: See there,\nand here.\n\nThe end."
    document: Document = parse(text)
    assert document[0] == line(Text("It is so"), Text("¹", 1), Text(" and so"), Text("²", 2), Text("."))
    assert document[1] == line(Text("The end."))
    assert isinstance(document[2], Paragraph)
    assert document[2].children[:2] == (Text("¹ ", 1), Text("Because "))
    assert isinstance(document[3], Paragraph)
    assert document[3].children[:2] == (Text("² ", 2), Text("See there,"))


@pytest.mark.parametrize("text", ["*a* [^1] alone", "*a*\n\n[^1]: alone"], ids=["no words", "nothing refers to it"])
def test_half_a_footnote_is_text(text: str) -> None:
    assert "[^1]" in str(parse(text))
