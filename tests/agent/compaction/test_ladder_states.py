"""The small state machines: cooldown, breaker, pins, gauge, badge."""

import pytest

from agent.compaction.excerpts import MOST_RULES, deserves_pin, scrubbed, states_rule
from agent.compaction.stages import Breaker, Cooldown, advanced, badge_of, colour_of, compacted, exhausted


def test_after_a_hard_compaction_two_turns_rest() -> None:
    state = compacted(2)
    phases = []
    for _ in range(4):
        state = advanced(state)
        phases.append(state.phase)
    assert phases == ["cooling", "cooling", "ready", "ready"]


def test_without_rest_the_next_turn_is_ready() -> None:
    assert advanced(compacted(0)).is_ready


def test_exhausted_stays_until_something_else_ends_it() -> None:
    state = exhausted(Cooldown(), warned=True)
    assert advanced(advanced(state)) == state
    assert exhausted(state).warned


@pytest.mark.requirement("R-43", "G-20")
def test_the_third_failure_trips_and_ten_turns_later_one_try_is_allowed() -> None:
    breaker = Breaker()
    for turn in (1, 2):
        breaker = breaker.failed(turn)
        assert breaker.allows(turn)
    breaker = breaker.failed(3)
    assert [breaker.allows(turn) for turn in (3, 4, 12, 13, 14)] == [False, False, False, True, True]
    again = breaker.failed(13)
    assert [again.allows(turn) for turn in (13, 22, 23)] == [False, False, True], "a failed try closes it again"
    assert breaker.half_opened(4).allows(4), "/compact and another provider try at once"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("From now on answer in French", True),
        ("please always use metric units", True),
        ("Never book a middle seat", True),
        ("Remember that I am allergic to nuts", True),
        ("Ab jetzt bitte auf Deutsch", True),
        ("I have always been fond of trains", False),
        ("I never knew that", False),
        ("what is the weather", False),
        ("always " + "word " * 200, False),
    ],
)
def test_rules_are_known_by_their_words(text: str, rule: bool) -> None:
    assert states_rule(text) is rule


@pytest.mark.parametrize(
    ("text", "is_first", "rules", "pinned"),
    [
        pytest.param("plan my trip", True, 0, True, id="the first request"),
        pytest.param("", True, 0, False, id="a first message without words"),
        pytest.param("x" * 9_000, True, 0, False, id="a document is no request"),
        pytest.param("never do that: never use tabs", False, 0, True, id="a rule"),
        pytest.param("never use tabs", False, MOST_RULES, False, id="one rule too many"),
        pytest.param("and then?", False, 0, False, id="anything else"),
    ],
)
def test_pins(text: str, is_first: bool, rules: int, pinned: bool) -> None:
    assert deserves_pin(text, is_first=is_first, pinned_rules=rules) is pinned


@pytest.mark.requirement("Z-76")
@pytest.mark.parametrize(
    ("used", "window", "colour"),
    [(699, 1000, "green"), (700, 1000, "yellow"), (900, 1000, "yellow"), (901, 1000, "red"), (5, 0, None)],
)
def test_gauge(used: int, window: int, colour: str | None) -> None:
    assert colour_of(used, window) == colour


@pytest.mark.requirement("Z-77")
@pytest.mark.parametrize(
    ("before", "after", "ago_s", "badge"),
    [
        (120_000, 40_000, 5, "120k→40k (-80k) 5s"),
        (9_500, 1_240, 120, "9.5k→1.2k (-8.3k) 2m"),
        (50_000, 20_000, 7_200, "50k→20k (-30k) 2h"),
        (50_000, 20_000, 200_000, "50k→20k (-30k) 2d"),
    ],
)
def test_badge(before: int, after: int, ago_s: int, badge: str) -> None:
    assert badge_of(before, after, 1_000, 1_000 + ago_s * 1000) == badge


@pytest.mark.requirement("Z-77")
def test_before_the_first_compaction_there_is_no_badge() -> None:
    assert badge_of(0, 0, 0, 99) == ""


@pytest.mark.parametrize(
    "secret",
    ["sk-abcdefghijklmnop1234", "ghp_abcdefghijklmnop1234", "AKIA1234567890ABCDEF", "Bearer abcdefghijklmnop1234"],
)
def test_secrets_do_not_get_into_summaries(secret: str) -> None:
    assert secret not in scrubbed(f"the key is {secret}, use it")
    assert scrubbed("password: hunter2hunter2 and more") == "password: [redacted] and more"
    assert scrubbed("task-based and risk-averse-behaviour") == "task-based and risk-averse-behaviour"
