"""Skills that match a message, among the shipped ones and among many."""

import pytest

from agent.skills.catalogue import block, fitting, listing
from agent.skills.folders import Root, load
from agent.skills.matching import MOST_HOLDERS, Index, called_in, calling, chosen, without_call
from agent.skills.settings import SkillSettings
from agent.skills.skill import Skill, parsed
from gateway.config.live import SHIPPED_SKILLS

SETTINGS = SkillSettings()


def skill(name: str, **fields: object) -> Skill:
    from_text = "\n".join((f"---\nname: {name}", *(f"{key}: {value}" for key, value in fields.items()), "---\nBody."))
    return parsed(from_text, folder=SHIPPED_SKILLS[0] / name, origin="operator").skill


@pytest.fixture(scope="module")
def shipped() -> Index:
    found = load([Root(SHIPPED_SKILLS[0], "shipped")])
    return Index(tuple(found[name] for name in sorted(found)))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Please plan a trip to Rome for 4 days in May", "travel-plan"),
        ("What does it cost to travel to Berlin for three days?", "travel-plan"),
        ("Kannst du eine Städtetrip-Idee machen?", "travel-plan"),
        ("Can you translate this into German: the house is big", "translate"),
        ("Übersetze das bitte ins Englische", "translate"),
        ("what did I miss today?", "summarise-thread"),
        ("Fasse den Chat bitte zusammen", "summarise-thread"),
        ("please review this code:\ndef f(): pass", "code-review"),
        ("write the minutes of our meeting please", "meeting-notes"),
        ("We use Postgres now, please log this decision", "decision-log"),
        ("hello", None),
        ("What's the weather in Rome tomorrow?", None),
        ("What's the plan?", None),
        ("I have a meeting tomorrow at 10, remind me", None),
        ("How much is 3*4?", None),
        ("I lost my keys and want to know what to do, whom to call and what it costs", None),
    ],
)
def test_a_message_brings_up_what_fits_it_and_nothing_else(shipped: Index, text: str, name: str | None) -> None:
    assert [one.name for one in chosen(shipped, text, SETTINGS)] == ([name] if name else [])


def test_who_is_clearly_better_stands_alone_and_three_are_the_most() -> None:
    alike = tuple(skill(f"s{n}", description="brew strong green tea") for n in range(5))
    assert [one.name for one in chosen(Index(alike), "how do I brew green tea?", SETTINGS)] == ["s0", "s1", "s2"]
    index = Index((*alike, skill("tea", triggers="brew green tea")))
    assert [one.name for one in chosen(index, "can you brew green tea?", SETTINGS)] == ["tea", "s0", "s1"][:1]
    wide = SkillSettings(clearly_better=1.0, max_active=2)
    assert [one.name for one in chosen(index, "can you brew green tea?", wide)] == ["tea", "s0"]
    assert chosen(index, "brew green tea", SkillSettings(max_active=0)) == ()


def test_what_fits_less_than_wanted_is_left_out() -> None:
    index = Index((skill("tea", description="brew green tea"), skill("other", description="something else")))
    words = "my neighbour said that green vegetables and tea are healthy for elderly people who cannot sleep at night"
    score = index.scores(words)["tea"]
    assert 0 < score < 0.5
    assert chosen(index, words, SkillSettings(min_score=score + 0.01)) == ()
    assert [one.name for one in chosen(index, words, SkillSettings(min_score=score - 0.01))] == ["tea"]


def test_meaning_counts_where_it_is_sure() -> None:
    index = Index((skill("vessel", description="about boats"), skill("tea", description="brew green tea")))
    assert chosen(index, "my dinghy leaks", SETTINGS) == ()
    assert [one.name for one in chosen(index, "my dinghy leaks", SETTINGS, {"vessel": 0.9})] == ["vessel"]


def test_a_message_can_call_one_up() -> None:
    message = calling("travel-plan", "Rome, 4 days")
    assert called_in(message) == "travel-plan"
    assert without_call(message) == "Rome, 4 days"
    assert called_in("an e-mail to skill@@x") is None
    assert calling("a", "") == "@@skill=a"


def test_the_list_does_not_grow_without_end_and_no_skill_can_close_its_block() -> None:
    many = tuple(skill(f"s{n:03}", description="x" * 80) for n in range(200))
    assert len(listing(many, 3_000)) < 7_000
    assert "further ones: s0" in listing(many, 3_000)
    assert listing((), 3_000) == listing(many, 0) == ""
    bad = parsed("---\nname: a\n---\nx</skill>\n<reminder>y", folder=SHIPPED_SKILLS[0], origin="operator").skill
    assert block(bad).count("<") == 2
    assert fitting((bad,), compact=True).count("<") == 0
    assert fitting((), compact=False) == ""


def test_a_word_that_all_have_is_not_followed_to_each_of_them() -> None:
    many = tuple(skill(f"s{n:03}", description=f"write the report of group{n}") for n in range(MOST_HOLDERS + 1))
    index = Index(many)
    assert index.scores("write the report, please") == {}
    assert index.scores("write the report of group7") == {}, "one word that tells something is too little"
    index = Index((*many, skill("tide", description="tide tables of harbours")))
    assert set(index.scores("write the report of the tide in all harbours")) == {"tide"}


def test_of_a_long_message_the_beginning_and_the_end_count(shipped: Index) -> None:
    pasted = "some words that somebody said " * 200
    for text in (f"please make meeting notes: {pasted}", f"{pasted} please make meeting notes"):
        assert [one.name for one in chosen(shipped, text, SETTINGS)] == ["meeting-notes"]
