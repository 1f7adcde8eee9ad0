"""Signals for a draft: what requests share, and how turns end. Pure."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.ids import ConversationId
from agent.skills.bandit import Outcome, outcome_of
from agent.skills.signals import MOST_BUCKETS, Buckets, DraftTrigger, Observed, name_of, signature_of

HERE, THERE = ConversationId("telegram:77"), ConversationId("telegram:-1005")


@pytest.mark.requirement("W-56")
@pytest.mark.parametrize(
    ("text", "signature"),
    [
        pytest.param(
            "Please refactor the billing code module", "billing-module-refactor", id="the specification's own"
        ),
        pytest.param("REFACTOR, refactor!  Billing", "billing-refactor", id="each word once, in lower case"),
        pytest.param("ab cd ef gh", "ab-cd-ef", id="of equals the first three"),
        pytest.param("x y z", "", id="single letters say nothing"),
        pytest.param("can you do this for me, please?", "", id="nor do words that all requests have"),
        pytest.param("build_report(2026-11)", "2026-build-report", id="split at whatever is no letter and no digit"),
        pytest.param("Übersetze die Größe bitte", "größe-übersetze", id="letters of other alphabets are letters"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_signatures(text: str, signature: str) -> None:
    assert signature_of(text) == signature


@given(st.text(max_size=400))
def test_a_name_is_always_a_directory(text: str) -> None:
    signature = signature_of(text)
    if signature:
        assert re.fullmatch(r"[a-z0-9-]{1,80}", name_of(signature))
        assert name_of(signature).strip("-")


def test_names_stay_apart() -> None:
    assert name_of("billing-module-refactor") == "billing-module-refactor"
    assert name_of("größe-übersetze") == "grosse-ubersetze"
    assert name_of("東京") != name_of("京都")
    assert len({name_of("a" * 90 + letter) for letter in "bcd"}) == 3


@pytest.mark.requirement("W-54")
@pytest.mark.parametrize(
    ("verdict", "told", "outcome"),
    [
        pytest.param("answered", {}, "success", id="the model ended its turn"),
        pytest.param("waiting", {}, "success", id="it asked by a tool"),
        pytest.param("failed", {}, "failure", id="too many calls, or an error"),
        pytest.param("cancelled", {"stopped": True}, "failure", id="a person stopped it"),
        pytest.param("cancelled", {}, "neutral", id="it waits for an approval"),
        pytest.param("refused", {}, "neutral", id="the model was never asked"),
        pytest.param("suspended", {"stopped": True}, "neutral", id="it goes on after the restart"),
        pytest.param("answered", {"preempted": True}, "neutral", id="it made room for a person"),
        pytest.param("answered", {"declined": True}, "neutral", id="the model did not want to"),
    ],
)
def test_how_turns_end(verdict: str, told: dict[str, bool], outcome: Outcome) -> None:
    assert outcome_of(verdict, **({"stopped": False} | told)) == outcome


def observe(
    buckets: Buckets, outcomes: str, signature: str = "billing", place: ConversationId = HERE
) -> list[DraftTrigger | None]:
    """`+`, `-` and `0`, one turn after the other."""
    kinds: dict[str, Outcome] = {"+": "success", "-": "failure", "0": "neutral"}
    return [
        buckets.observe(
            Observed(
                conversation=place,
                signature=signature,
                text=f"refactor  billing, the {number}. time {'x' * 100}",
                outcome=kinds[mark],
                tools=("read_file", "edit_file")[: number + 1],
            )
        )
        for number, mark in enumerate(outcomes)
    ]


@pytest.mark.requirement("W-57")
def test_three_successes_of_one_kind_are_worth_a_draft() -> None:
    buckets = Buckets()
    first, second, trigger, fourth = observe(buckets, "+++" + "+")
    assert (first, second, fourth) == (None, None, None), "and then it is counted anew"
    assert trigger is not None
    assert (trigger.signature, trigger.evidence, trigger.tools) == ("billing", 3, ("read_file", "edit_file"))
    assert len(trigger.examples) == 3
    assert all(len(example) <= 80 for example in trigger.examples)
    assert trigger.examples[0].startswith("refactor billing, the 0. time")


def test_what_was_taken_back_counts_no_longer() -> None:
    buckets = Buckets()
    observe(buckets, "++")
    for conversation in (THERE, HERE, HERE, HERE):  # elsewhere, and more often than it was counted
        buckets.take_back(conversation, "billing")
    assert len(buckets) == 0
    observe(buckets, "++")
    buckets.take_back(HERE, "billing")
    assert observe(buckets, "+") == [None]
    assert observe(buckets, "+")[0] is not None


@pytest.mark.requirement("W-58")
@pytest.mark.parametrize(
    ("outcomes", "drafts"),
    [
        pytest.param("++-++", 0, id="a failure begins anew"),
        pytest.param("++-+++", 1, id="then three count"),
        pytest.param("++0+", 1, id="what says nothing breaks nothing"),
        pytest.param("++++++", 2, id="and again"),
    ],
)
def test_streaks(outcomes: str, drafts: int) -> None:
    assert sum(trigger is not None for trigger in observe(Buckets(), outcomes)) == drafts


@pytest.mark.requirement("W-57")
def test_kinds_and_conversations_are_counted_apart() -> None:
    buckets = Buckets()
    assert observe(buckets, "++") == [None, None]
    assert observe(buckets, "+-", "travel") == [None, None], "a failure of another kind is none of this one"
    assert observe(buckets, "++", place=THERE) == [None, None], "what two chats said is never quoted together"
    assert observe(buckets, "+")[0] is not None
    assert observe(buckets, "+++", "") == [None, None, None]


def test_buckets_are_bounded_and_forgotten() -> None:
    buckets = Buckets()
    for number in range(MOST_BUCKETS + 50):
        observe(buckets, "+", f"kind{number}")
    assert len(buckets) == MOST_BUCKETS
    buckets.forget(HERE, lambda text: "kind2049" in text)
    assert len(buckets) == MOST_BUCKETS - 1
    observe(buckets, "+", place=THERE)
    buckets.forget(HERE, None)
    assert len(buckets) == 1
