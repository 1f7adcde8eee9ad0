"""Notes in Markdown as facts."""

import pytest

from gateway.importers.notes import notes_in, pieces


def _facts(text: str, *, when: str = "", is_form: bool = False) -> list[str]:
    return [note.text for note in notes_in(text, "MEMORY.md", when=when, is_form=is_form)]


def test_each_item_and_paragraph_is_a_fact_under_its_heading() -> None:
    home = "## Home\n\n- The key is **under** the pot.\n- Bins: Tuesday\n  evening."
    text = f"# Long-term memory\n\nfirst\n\n{home}\n\n## Work\n1. Payments."
    assert _facts(text) == [
        "first",
        "Home: The key is under the pot.",
        "Home: Bins: Tuesday evening.",
        "Work: Payments.",
    ]


def test_a_daily_note_has_its_day() -> None:
    assert _facts("# 2026-11-20\n\n- Booked the train.", when="2026-11-20") == ["2026-11-20: Booked the train."]


def test_what_is_to_be_filled_in_is_none() -> None:
    form = "- **Name**: (your name)\n- **Zone:**\n- \n(Things to remember)\n\n_italics_\n\n- Prefer ..."
    text = f"{form}\n---\n- **Town**: Rome"
    assert _facts(text) == ["Town: Rome"]


def test_a_box_says_no_in_a_form_and_is_a_task_elsewhere() -> None:
    text = "- [ ] Casual\n- [x] Technical"
    assert _facts(text, is_form=True) == ["Technical"]
    assert _facts(text) == ["Casual", "Technical"]


def test_what_was_superseded_and_what_is_hidden_stays() -> None:
    text = (
        "<!-- observed: 2026-01-01 | status: superseded -->\n\n- Prefer tea.\n\n"
        "<!-- observed: 2026-02-02 | status: active -->\n\n- Prefer coffee.\n<!-- hidden\n- and this\n-->\n"
    )
    assert _facts(text) == ["Prefer coffee."]
    assert _facts(text.replace("- Prefer tea.", "- Prefer tea\n  with milk.\n- Rise late.")) == [
        "Rise late.",
        "Prefer coffee.",
    ]


def test_long_ones_are_cut_between_sentences_or_words() -> None:
    cut = list(pieces("One two. " * 200, 100))
    assert all(len(piece) <= 100 and piece.endswith("two.") for piece in cut)
    assert " ".join(cut) == ("One two. " * 200).strip()
    assert [len(piece) for piece in pieces("x" * 250, 100)] == [100, 100, 50]


@pytest.mark.requirement("G-157")
def test_what_is_no_note_is_handed_back() -> None:
    rest: list[str] = []
    text = (
        "<!-- observed: 2026-01-01 | status: superseded -->\n- Prefer tea\n  with milk.\n"
        "<!-- observed: 2026-02-02 | status: active -->\n- Prefer coffee.\n"
        "<!-- the code is 4711 -->\n- (ask Ben)\n- Zone:\n\n_soon_\n"
    )
    assert [note.text for note in notes_in(text, "USER.md", rest=rest)] == ["Prefer coffee."]
    assert rest == ["- Prefer tea with milk.", "the code is 4711", "(ask Ben)", "Zone:", "_soon_"]


@pytest.mark.requirement("G-157")
def test_words_of_a_person_are_taken() -> None:
    text = (
        "- I like long walks...\n- Allergies:\n  - nuts\n  - milk\n- Born in May\n\n"
        "## Related\n- Ben is my brother.\n- [Workspace](/concepts/agent-workspace)\n\n"
        "<!-- never closed\n- The last one."
    )
    assert _facts(text) == [
        "I like long walks...",
        "Allergies: nuts",
        "Allergies: milk",
        "Born in May",
        "Related: Ben is my brother.",
        "Related: <!-- never closed",
        "Related: The last one.",
    ]
