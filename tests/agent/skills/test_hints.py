"""Skill hints for the labelled requests of `tests/bench/hints`, at shipped settings."""

import time
from pathlib import Path

import pytest

from agent.skills.matching import Index, hintable
from agent.skills.settings import SkillSettings
from agent.skills.skill import Skill, parsed
from tests.bench.hints.__main__ import FOLDERS, figures, index_of

SETTINGS = SkillSettings()


def skill(name: str, **fields: object) -> Skill:
    lines = (f"---\nname: {name}", *(f"{key}: {value}" for key, value in fields.items()), "---\nBody.")
    return parsed("\n".join(lines), folder=Path(name), origin="operator").skill


@pytest.fixture(scope="module")
def index() -> Index:
    return index_of(FOLDERS)


@pytest.mark.requirement("W-05")
def test_a_skill_is_hinted_where_it_fits_and_nowhere_else() -> None:
    found = figures()
    assert len(found.cases) == 60
    assert sum(bool(case.fitting) for case in found.cases) == 30
    wrong = [case for case in found.cases if case.hinted and not case.right]
    assert found.precision >= 0.95, wrong
    assert found.recall >= 0.7, [case for case in found.cases if case.fitting and not case.right]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("hello there", (), id="a greeting"),
        pytest.param("", (), id="a picture without words"),
        pytest.param("please translate this", ("translate",), id="a trigger"),
        pytest.param(
            "Fass mir das doch bitte einmal kurz zusammen", ("summarise-thread",), id="a trigger in two parts"
        ),
        pytest.param("The translation was terrible", (), id="who tells asks for nothing"),
        pytest.param("I need a translation of this", ("translate",), id="unless they say what they need"),
        pytest.param("a summary, please", ("summarise-thread",), id="or please"),
        pytest.param('She wrote "please translate this"', (), id="what others said"),
        pytest.param("> please translate this\nwhat does she mean by that?", (), id="a quoted line"),
        pytest.param(
            "Translate this into Dutch: please write the minutes of the meeting", ("translate",), id="material"
        ),
        pytest.param(
            "translate this into Dutch:\nplease write the minutes of the meeting\nand review my code",
            ("translate",),
            id="material of several lines",
        ),
        pytest.param(
            "here are my notes:\nAnna buys the milk\n\nplease write minutes",
            ("meeting-notes",),
            id="below the material",
        ),
        pytest.param(
            "Log this decision: we move. In May.\nplease translate it", ("decision-log", "translate"), id="two things"
        ),
        pytest.param(
            "translate this into Dutch:\nWe met. All came.\nwrite the minutes of the meeting",
            ("translate",),
            id="sentences",
        ),
        pytest.param("```\n# review my code\n```\ntl;dr", ("summarise-thread",), id="code is no request"),
        pytest.param(
            "mach mir einen Bugreport, bitte als bug report", ("bug-report",), id="languages beside each other"
        ),
    ],
)
def test_who_asks_for_what(index: Index, text: str, names: tuple[str, ...]) -> None:
    assert hintable(index.scores(text), SETTINGS) == names


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        pytest.param("翻译", "请把这句话翻译成英文", id="Chinese"),
        pytest.param("要約", "この文章を要約してください", id="Japanese"),
        pytest.param("переведи", "Переведите это письмо на английский", id="Russian"),
    ],
)
def test_other_languages_have_words_too(trigger: str, text: str) -> None:
    index = Index([skill("one", description="x", triggers=trigger), skill("other", description="tide tables")])
    assert hintable(index.scores(text), SETTINGS) == ("one",)


def test_parts_of_long_german_words_are_words() -> None:
    index = Index([skill("one", description="Schreibt das Sitzungsprotokoll"), skill("other", description="Gezeiten")])
    assert hintable(index.scores("Schreib mir bitte ein Protokoll der Sitzung"), SETTINGS) == ("one",)


def test_a_search_costs_little_and_the_same_with_many_skills() -> None:
    """0.1 ms with fifty skills on a quiet machine; here what a load of others leaves of it."""
    many = [
        skill(
            f"s{n}",
            description=f"Writes the report of group {n} for the board and whoever wants it",
            triggers=f"kind{n} report",
        )
        for n in range(50)
    ]
    index = Index(many)
    texts = ["hello there", "please write the kind7 report of the group", "what shall we have for dinner tonight?"]
    assert hintable(index.scores(texts[1]), SETTINGS) == ("s7",)
    best = min(_took_us(index, text) for _ in range(20) for text in texts[1:])
    assert best < 400
    assert min(_took_us(index, texts[0]) for _ in range(20)) < 200


def _took_us(index: Index, text: str) -> float:
    began = time.perf_counter()
    index.scores(text)
    return (time.perf_counter() - began) * 1e6
