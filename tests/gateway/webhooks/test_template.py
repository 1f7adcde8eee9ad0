"""Templates of webhooks: the operator's text over values of strangers."""

import time
from typing import Any

import pytest

from gateway.webhooks.template import PayloadTemplate, TemplateFailed, bounded, mistakes_in

PAYLOAD: dict[str, Any] = {
    "repo": {"name": "kiln", "items": [1, 2, 3]},
    "commits": [{"id": "a1", "files": ["x", "y"]}, {"id": "b2", "files": []}],
    "cents": 1250,
    "note": None,
    "ok": True,
    "title": "**Bold** [x](http://evil) <!channel> `code`\n# head {{ 7 * 7 }} {% for %}",
}


def text(source: str, payload: Any = PAYLOAD, *, markdown: bool = False, most: int = 4000) -> str:
    """The rendered text of a template without mistakes."""
    assert list(mistakes_in(source)) == []
    return PayloadTemplate(source, markdown=markdown).render(bounded(payload), most).text


@pytest.mark.requirement("G-134")
@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param("{{ repo.name }} / {{ commits[1].id }} / {{ repo['name'] }}", "kiln / b2 / kiln", id="values"),
        pytest.param("{{ repo.items|length }} {{ cents / 100 }}", "3 12.5", id="a key with the name of a method"),
        pytest.param("[{{ no.such.thing }}{{ note }}]{{ ok }}", "[]true", id="nothing where nothing is"),
        pytest.param("{{ no|default('none') }} {{ repo.name|upper }}", "none KILN", id="filters"),
        pytest.param("{% for c in commits %}{{ loop.index }}.{{ c.id }} {% endfor %}", "1.a1 2.b2", id="a loop"),
        pytest.param("{% if ok and cents > 1000 %}much{% else %}little{% endif %}", "much", id="a choice"),
        pytest.param("{{ commits[0] }}", '{"id": "a1", "files": ["x", "y"]}', id="an object as JSON"),
        pytest.param("{{ repo.__class__ }}{{ title.upper }}{{ repo.keys }}{{ ''.__class__ }}", "", id="no attributes"),
        pytest.param("{{ '{{' }} {{ title|truncate(8, true, '') }}", "{{ **Bold**", id="no template in a value"),
    ],
)
def test_a_template_shows_values_chooses_and_repeats(source: str, shown: str) -> None:
    assert text(source) == shown


@pytest.mark.requirement("G-134")
def test_values_cannot_format_what_is_said() -> None:
    said = text("**News:** {{ title }}", markdown=True)
    assert said.startswith("**News:** \\*\\*Bold\\*\\* \\[x\\]")
    assert "\n" not in said
    assert "\\<!channel\\>" in said
    assert "{{ 7 \\* 7 }}" in said


@pytest.mark.requirement("G-134")
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{{ a ", "line 1: unexpected end"),
        ("a\n{{ b|nope }}", "line 2: No filter named 'nope'"),
        ("{{ b is sameas c }}", "No test named"),
        ("{{ range(9) }}", "line 1: a call is not for templates"),
        ("{{ title.upper() }}", "a call is not"),
        ("{% set x = 1 %}", "{% set %} is not"),
        ("{% include 'x' %}", "{% include %} is not"),
        ("{% macro m() %}{% endmacro %}", "{% macro %} is not"),
        ("{{ 9 ** 9 }}", "** is not"),
        ("{% for a in x %}{% for b in a %}{% for c in b %}{% endfor %}{% endfor %}{% endfor %}", "more than 2 loops"),
        ("{% for a in x recursive %}{% endfor %}", "more than 2 loops"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "nested too deeply"),
        ("x" * 10_001, "10001 characters are too many"),
    ],
)
def test_a_mistake_of_a_template_is_told_with_its_line(source: str, told: str) -> None:
    assert told in "; ".join(mistakes_in(source))


@pytest.mark.requirement("G-134")
@pytest.mark.parametrize(
    "source",
    ["{{ title * cents }}", "{{ '%09999999d' % cents }}", "{{ cents / note }}", "{{ title + 1 }}", "{{ cents % 0 }}"],
)
def test_what_cannot_be_rendered_fails_without_telling_values(source: str) -> None:
    with pytest.raises(TemplateFailed) as failed:
        text(source)
    assert "Bold" not in str(failed.value)


@pytest.mark.requirement("G-134")
def test_a_hostile_payload_costs_little_and_the_text_ends() -> None:
    many = [[{"a": "x" * 200} for _ in range(200)] for _ in range(200)]
    deep: Any = "end"
    for _ in range(150):
        deep = [deep]
    payload = {"many": many, "deep": deep, "long": "y" * 1_000_000, "number": 10**5000, "half": "\ud83d\0"}
    began = time.process_time()
    source = "{% for a in many %}{% for b in a %}{% if b.a == 'z' %}never{% endif %}{% endfor %}{% endfor %}"
    assert text(source, payload) == ""
    loops = text("{% for a in many %}{% for b in a %}{{ b.a }}{% endfor %}{% endfor %}", payload)
    assert len(loops) == 4000
    assert loops.endswith("…")
    assert len(text("{{ long }}{{ long }}", payload, most=30_000)) == 20_000
    assert text("{{ number }} {{ half }}", payload) == "… \ufffd\ufffd"
    assert "…" in text("{{ deep }}", payload)
    assert time.process_time() - began < 1


def test_a_payload_that_is_no_object_has_a_name() -> None:
    assert text("{{ payload[0] }} of {{ payload|length }}", [4, 5]) == "4 of 2"


def test_missing_values_are_named() -> None:
    rendered = PayloadTemplate("{{ a.b }}{{ repo.nope }}{{ repo.name }}", markdown=False).render(PAYLOAD, 100)
    assert rendered.missing == {"a", "nope"}
