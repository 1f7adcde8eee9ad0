"""Words that count as a correction."""

import pytest

from agent.skills.signals import LONGEST_KEPT, heard, kept_as, signals_in


@pytest.mark.requirement("Z-05")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("No, that's not what I asked for.", "rejection"),
        ("That is wrong, it was 2024", "rejection"),
        ("you got it wrong again", "rejection"),
        ("Nein, das stimmt nicht.", "rejection"),
        ("Das ist falsch.", "rejection"),
        ("Don't write in capitals again", "standing"),
        ("from now on always answer in metric units", "standing"),
        ("Ab jetzt bitte nur kurze Antworten", "standing"),
        ("I meant the other Berlin", "alternative"),
        ("Ich meinte das andere Berlin", "alternative"),
        ("as I already said, the invoice", "repetition"),
        ("Wie gesagt: die Rechnung", "repetition"),
        ("What is the weather?", None),
        ("There is no train today, is there?", None),
        ("No idea what to cook tonight.", None),
        ("Is that wrong?", None),
        ("> that is wrong\nWho said this?", None),
        ("```\nreturn 'that is wrong'\n```\nexplain this", None),
        ("Danke, das ist gut so.", None),
    ],
)
def test_what_is_heard(text: str, kind: str | None) -> None:
    signal = heard(text, 0.7)
    assert (signal.kind if signal else None) == kind
    assert all(0 <= one.confidence <= 1 for one in signals_in(text))


def test_what_is_not_sure_enough_is_not_heard() -> None:
    assert heard("as I already said, the invoice", 0.75) is None


def test_a_correction_is_kept_as_one_line() -> None:
    kept = kept_as("No,\nthat is wrong. " + "x" * 1000, "How many\nfeet?")
    assert "\n" not in kept
    assert kept.startswith("Correction: No, that is wrong. x")
    assert kept.endswith('… (it had been asked: "How many feet?")')
    assert len(kept) < LONGEST_KEPT + 80
