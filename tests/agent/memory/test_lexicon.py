"""The words by which things are found: stems by language, pairs of signs, no stop words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.memory.lexicon import LONGEST, MOST_ASKED, MOST_KEPT, Lexicon, language_of

LEXICON = Lexicon()


def found(question: str, text: str, speaker: str = "") -> bool:
    """Whether any word of the question stands in the index for the text."""
    kept = set(LEXICON.words(text, speaker))
    return any(form in kept for term in LEXICON.terms(question) for form in term.forms)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        pytest.param("What did she paint?", "I was painting all day", id="English"),
        pytest.param("Wann wurden die Termine verschoben?", "Wir haben den Termin beim Arzt verschoben", id="German"),
        pytest.param("Welcher Zaun?", "Zäune streichen", id="German, too short to tell the language"),
        pytest.param("В каких городах?", "Мы живём в этом городе", id="Russian"),
        pytest.param("Quelles maisons avez-vous vues ?", "Nous avons vu une maison bleue", id="French"),
        pytest.param("猫叫什么名字？", "我养了一只猫，名字叫豆包", id="Chinese"),
        pytest.param("冷蔵庫はいくらでしたか", "新しい冷蔵庫を買った", id="Japanese"),
        pytest.param("부산에서 누구를 만났어?", "부산에 다녀왔어요", id="Korean"),
        pytest.param("ราคาบ้านเท่าไร", "บ้านสวยมาก", id="Thai"),
        pytest.param("Ｆｕｊｉ 12", "the fuji lens 12", id="full-width signs"),
        pytest.param("cafe in Malaga", "the café in Málaga", id="accents"),
    ],
)
def test_a_word_is_found_in_another_form(question: str, text: str) -> None:
    assert found(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        pytest.param("What did you do then?", "and what did you do", id="English"),
        pytest.param("Was war das denn?", "das war es dann", id="German"),
        pytest.param("Что это было?", "это было вот что", id="Russian"),
        pytest.param("这是什么？", "那是什么", id="Chinese"),
        pytest.param("どうでしたか", "そうですか、よかったです", id="Japanese"),
    ],
)
def test_words_that_tell_nothing_are_not_in_the_index(question: str, text: str) -> None:
    assert not found(question, text)


@pytest.mark.parametrize(("question", "speaker"), [("Where is Sabines car?", "Sabine"), ("Что купила Ольге?", "Ольга")])
def test_who_says_it_is_found_by_their_name_in_every_case(question: str, speaker: str) -> None:
    assert found(question, "ja", speaker)
    asked = {form for term in LEXICON.terms(question) for form in term.forms}
    assert asked & LEXICON.names(speaker)


def test_the_language_is_told_by_its_stop_words() -> None:
    assert language_of(["wo", "ist", "der", "hund"]) == "german"
    assert language_of(["où", "est", "le", "chien"]) == "french"
    assert language_of(["plover"]) == "english"
    assert language_of(["собака"]) == "russian"


def test_what_is_asked_to_be_done_is_no_subject() -> None:
    assert [term.word for term in LEXICON.terms("Explain photosynthesis")] == ["photosynthesis"]
    assert [term.word for term in LEXICON.terms("Explain!")] == ["explain"], "better than nothing"


@given(st.text(max_size=300), st.text(max_size=20))
def test_every_word_is_one_token_of_the_index(text: str, speaker: str) -> None:
    for word in (*LEXICON.words(text, speaker), *(form for term in LEXICON.terms(text) for form in term.forms)):
        assert word
        assert len(word) <= LONGEST
        assert not any(sign.isspace() for sign in word)
        assert not any(sign.isascii() and not sign.isalnum() for sign in word), "nothing that can be an operator"


def test_there_is_an_end_to_it() -> None:
    long = " ".join(f"word{number}" for number in range(5_000))
    assert len(LEXICON.words(long)) == MOST_KEPT
    assert len(LEXICON.terms(long)) == MOST_ASKED
