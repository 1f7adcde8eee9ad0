"""Scopes, look-up routes and ranking of the memory: tables and properties."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.ids import ConversationId, PersonId
from agent.memory import notes
from agent.memory.lexicon import code_in, coverage, is_about_something, telling, text_pieces, without_code
from agent.memory.notes import path_of
from agent.memory.ranking import diverse, faded, route, summed
from agent.memory.recall_block import edge_line, fitting, line_of
from agent.memory.records import ChatType, Edge, Item, Places, scope_of, word_of

NOW = datetime(2026, 11, 20, tzinfo=UTC)
GROUP, THREAD = ConversationId("discord:9"), ConversationId("discord:10")
ANN = PersonId("telegram:77")
persons = st.sampled_from([None, ANN, PersonId("telegram:78"), PersonId("place:telegram:1")])
conversations = st.sampled_from([ConversationId(f"telegram:{n}") for n in ("1", "2", "1:7", "77")])


@pytest.mark.requirement("G-25")
@given(persons, conversations, conversations, st.sampled_from(["group", "channel"]))
def test_what_is_private_and_what_is_not_never_meet(
    person: PersonId | None, one: ConversationId, other: ConversationId, kind: ChatType
) -> None:
    direct = scope_of(one, "direct", person, Places(home=one))
    group = scope_of(other, kind, person, Places(home=other, around=(ConversationId("telegram:9"),)))
    if person is not None:
        assert not set(direct.visible) & set(group.visible)
        assert direct.visible == (f"person:{person}",)
    assert group.own == f"place:{other}"
    assert not group.is_private


def test_a_thread_knows_what_its_channel_knows_and_keeps_its_own() -> None:
    scope = scope_of(THREAD, "group", ANN, Places(home=THREAD, around=(GROUP,)))
    assert scope.visible == ("place:discord:10", "place:discord:9")
    assert scope.own == "place:discord:10"
    assert word_of(scope.visible[0]) != word_of(scope.visible[1])


@pytest.mark.parametrize(
    ("query", "strategy"),
    [
        pytest.param("who is Ida's sister", "graph", id="a relation"),
        pytest.param("mit wem arbeitet Bob", "graph", id="a relation in German"),
        pytest.param("parse_config()", "keyword", id="code"),
        pytest.param("plover island", "keyword", id="few words that ask nothing"),
        pytest.param("where was it", "semantic", id="few words that ask"),
        pytest.param("please write down the long list of our plans again", "semantic", id="many words"),
        pytest.param("the blue heron café", "hybrid", id="the rest"),
    ],
)
def test_route(query: str, strategy: str) -> None:
    assert route(query) == strategy


def test_what_words_and_meaning_find_is_weighed_by_how_well_each_finds_it() -> None:
    scores = summed({"a": 8.0, "b": 2.0}, {"c": 0.86, "b": 0.84, "a": 0.80})
    assert scores == pytest.approx({"a": 1.0, "b": 0.25 + 0.04 / 0.06, "c": 1.0})
    assert summed({}, {}) == {}
    assert summed({"a": 3.0}, {}) == {"a": 1.0}
    assert summed({}, {"a": 0.8}) == {"a": 1.0}


def test_age_and_repetition_count_only_when_asked_to() -> None:
    month_old = NOW - timedelta(days=30)
    assert faded(1.0, month_old, NOW, 0) == 1.0
    assert faded(1.0, month_old, NOW, 30) == pytest.approx(0.5)
    texts = ["tea at four", "tea at four!", "boats"]

    def alike(one: str, other: str) -> float:
        return float(one[:3] == other[:3])

    def score(text: str) -> float:
        return {"tea at four": 1.0, "tea at four!": 0.9, "boats": 0.5}[text]

    assert diverse(texts, score, alike, keep=1.0, most=3) == texts
    assert diverse(texts, score, alike, keep=0.5, most=2) == ["tea at four", "boats"]


def test_the_words_that_tell() -> None:
    assert telling("What is the name of my plover?") == ("name", "plover")
    assert telling("was ist das") == ("was", "ist", "das"), "better than none"
    assert not is_about_something("Hello, how are you? Ok, danke!")
    assert is_about_something("the plover")
    assert coverage(("plovers", "oslo"), "a plover was seen") == 0.5
    assert coverage((), "anything") == 0.0


def test_code_is_taken_out_of_a_message() -> None:
    text = "See:\n```python\nprint(1)\n```\nthat prints."
    assert code_in(text) == ("print(1)",)
    assert "print(1)" not in without_code(text)
    assert "that prints." in without_code(text)


@given(st.text(min_size=1, max_size=400), st.integers(min_value=10, max_value=60))
def test_pieces_lose_nothing_but_spaces(text: str, longest: int) -> None:
    cut = text_pieces(text, longest)
    assert all(len(piece) <= longest for piece in cut)
    assert "".join("".join(cut).split()) == "".join(text.split())


def item(text: str, **more: object) -> Item:
    values: dict[str, object] = {
        "id": 3, "audience": "a", "kind": "fact", "conversation": "c", "person": "telegram:77", "speaker": "Ann",
        "text": text, "source": "tool", "confidence": 1.0, "session": None, "message_id": None, "inbox_id": None,
        "at": NOW,
    }  # fmt: skip
    return Item(**values | more)  # type: ignore[arg-type]


def test_what_a_model_reads_of_it() -> None:
    assert line_of(item("Ann has\n a boat")) == "- fact 3 (2026-11-20): Ann has a boat"
    assert "not sure" in line_of(item("x", confidence=0.4))
    assert line_of(item("hi", kind="said")) == "- 2026-11-20, Ann: hi"
    assert line_of(item("hi", kind="said", person=None, speaker="")) == "- 2026-11-20, you: hi"
    assert "```\nprint(1)\n```" in line_of(item("print(1)", kind="code"))
    edge = Edge(subject="Ann", word="owns", object="a boat", confidence=0.5, memory_id=1)
    assert edge_line(edge) == "- Ann owns a boat (not sure)"
    assert fitting(["12345", "12345", "1"], 6) == ["12345"]
    assert fitting(["123456789"], 3) == ["123456789"], "at least one"


def test_notes_follow_a_place_that_is_renamed(tmp_path: Path) -> None:
    at, old, new = datetime(2026, 11, 22, tzinfo=UTC), ConversationId("telegram:-5"), ConversationId("telegram:-1005")
    notes.follow(tmp_path, old, new, at=at)
    assert not path_of(tmp_path, new).exists(), "nothing is there to follow"
    notes.write(path_of(tmp_path, old), "- old\n", at=at)
    notes.write(path_of(tmp_path, new), "- new\n", at=at + timedelta(hours=1))
    for _ in range(2):  # the platform may tell it twice
        notes.follow(tmp_path, old, new, at=at + timedelta(hours=2))
        assert path_of(tmp_path, new).read_text() == "- old\n\n- new\n"
    assert not path_of(tmp_path, old).parent.exists()
    versions = [file.read_text() for file in notes.versions_of(path_of(tmp_path, new))]
    assert versions == ["- old\n", "- new\n", "- old\n\n- new\n"], "every wording is kept"
