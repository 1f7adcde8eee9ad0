"""Subgoals keep to their messages through everything a stage may do, by arithmetic alone."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.compaction.subgoals import Subgoal, Subgoals, Tier
from agent.compaction.window import AppliedSummaries, AppliedSummary, Change, Cleared, Clearing, Drain, Replacement
from agent.core.messages import text_message

SUMMARY = text_message("user", "what was before")


def registry(*spans: tuple[str, int, int]) -> Subgoals:
    """Subgoals one after another; the last one is active."""
    subgoals = Subgoals()
    for description, start, end in spans:
        subgoals.push_active(description, start)
        subgoals.extend_active(end)
    return subgoals


def spans_of(subgoals: Subgoals) -> list[tuple[str, str, int, int]]:
    return [(one.description, one.state, one.start, one.end) for one in subgoals.subgoals]


@pytest.mark.requirement("Z-41", "Z-49", "H-20")
def test_pushing_a_subgoal_completes_the_one_before() -> None:
    subgoals = registry(("book", 0, 4), ("pay", 6, 9))
    assert spans_of(subgoals) == [("book", "completed", 0, 6), ("pay", "active", 6, 9)]
    active = subgoals.active_subgoal()
    assert active == Subgoal(id=2, description="pay", state="active", start=6, end=9)


@pytest.mark.requirement("Z-48", "H-21")
def test_completing_closes_the_span_and_what_lies_behind_belongs_to_nobody() -> None:
    subgoals = registry(("book", 0, 8))
    subgoals.complete_active(5)
    assert spans_of(subgoals) == [("book", "completed", 0, 5)]
    assert subgoals.active_subgoal() is None
    assert [subgoals.tier(position) for position in (4, 5, 7)] == [Tier.COMPLETED, Tier.OUTDATED, Tier.OUTDATED]


@pytest.mark.requirement("Z-42", "H-21")
def test_extending_tags_what_is_new_and_nothing_else() -> None:
    subgoals = registry(("book", 0, 2), ("pay", 2, 5))
    subgoals.tag_range(3, 4, 1)  # somebody's decision that extending must not undo
    subgoals.extend_active(7)
    assert [subgoals.subgoal_state(position) for position in range(7)] == [
        "completed", "completed", "active", "completed", "active", "active", "active"
    ]  # fmt: skip
    assert list(subgoals.active(7)) == [2, 4, 5, 6]


@pytest.mark.requirement("H-21")
def test_extending_tags_also_a_single_message() -> None:
    subgoals = registry(("book", 0, 2))
    for size in range(3, 6):
        subgoals.extend_active(size)
        assert list(subgoals.active(size)) == list(range(size))


@pytest.mark.requirement("Z-38", "Z-40", "Z-46", "H-02", "H-06")
def test_a_position_has_the_tier_of_its_subgoal() -> None:
    subgoals = registry(("book", 1, 3), ("pay", 3, 5))
    assert [subgoals.tier(position).value for position in range(6)] == [0.1, 0.3, 0.3, 1.0, 1.0, 0.1]


def test_an_outgrown_subgoal_lets_its_oldest_part_go() -> None:
    subgoals = registry(("book", 0, 8))
    subgoals.release_before(5)
    assert [subgoals.tier(position) for position in (4, 5)] == [Tier.COMPLETED, Tier.ACTIVE]
    assert spans_of(subgoals) == [("book", "active", 5, 8), ("book", "completed", 0, 5)]


@pytest.mark.requirement("Z-44", "H-05", "H-08", "H-34")
def test_after_a_drain_the_active_messages_stand_behind_the_pinned_ones() -> None:
    """The summary stands first, then P pinned, then A active; the tail moves by what the drain took."""
    subgoals = registry(("book", 0, 4), ("pay", 4, 10))
    subgoals.follow(Drain(start=0, end=7, summary=SUMMARY, pinned=(1,), active=(4, 5, 6)))
    assert [subgoals.subgoal_state(position) for position in range(8)] == [
        None, "completed", "active", "active", "active", "active", "active", "active"
    ]  # fmt: skip
    assert spans_of(subgoals) == [("book", "completed", 1, 2), ("pay", "active", 2, 8)]


@pytest.mark.requirement("Z-44", "Z-52", "H-05", "H-32", "G-22")
def test_after_a_fold_everything_behind_a_pair_moves_down() -> None:
    subgoals = registry(("book", 0, 6), ("pay", 6, 8))
    subgoals.follow(AppliedSummaries(pairs=(folded(1), folded(4))))
    assert spans_of(subgoals) == [("book", "completed", 0, 4), ("pay", "active", 4, 6)]


@pytest.mark.requirement("H-05", "H-14", "H-32", "G-22")
def test_of_a_pair_that_became_one_the_active_half_counts() -> None:
    subgoals = registry(("book", 0, 2), ("pay", 2, 5))
    subgoals.follow(AppliedSummaries(pairs=(folded(1),)))
    assert [subgoals.subgoal_state(position) for position in range(4)] == ["completed", "active", "active", "active"]


def test_a_subgoal_without_messages_is_forgotten_unless_it_goes_on() -> None:
    subgoals = registry(("book", 0, 3), ("pay", 3, 5))
    subgoals.follow(Drain(start=0, end=5, summary=SUMMARY))
    assert spans_of(subgoals) == [("pay", "active", 0, 0)]
    subgoals.extend_active(3)
    assert list(subgoals.active(3)) == [0, 1, 2]


def test_a_bookmark_moves_with_its_message_or_to_the_next_that_stays() -> None:
    subgoals = registry(("book", 0, 9))
    subgoals.bookmark = 7
    subgoals.follow(Drain(start=0, end=5, summary=SUMMARY))
    assert subgoals.bookmark == 3
    subgoals.follow(Drain(start=1, end=4, summary=None))
    assert subgoals.bookmark == 1


def folded(request: int) -> AppliedSummary:
    return AppliedSummary(request=request, response=request + 1, summary=SUMMARY)


@dataclass(eq=False)
class Tagged:
    """A message of the slow reference: it carries its tag with it, wherever it goes."""

    subgoal: int | None
    active: bool


def changes(size: int) -> st.SearchStrategy[Change]:
    """Any change that a window of that size could see."""
    positions = st.integers(0, size - 1)

    @st.composite
    def drains(draw: st.DrawFn) -> Change:
        start = draw(positions)
        end = draw(st.integers(start, size))
        inside = sorted(draw(st.sets(st.integers(start, end - 1)))) if end > start else []
        pinned = draw(st.sets(st.sampled_from(inside))) if inside else set()
        return Drain(
            start=start,
            end=end,
            summary=draw(st.sampled_from((SUMMARY, None))),
            pinned=tuple(sorted(pinned)),
            active=tuple(place for place in inside if place not in pinned),
        )

    @st.composite
    def folds(draw: st.DrawFn) -> Change:
        requests = sorted(draw(st.sets(st.integers(0, size - 2), max_size=4))) if size > 1 else []
        return AppliedSummaries(pairs=tuple(folded(request) for request in _apart(requests)))

    return st.one_of(
        drains(),
        folds(),
        st.just(Clearing(results=(Cleared(position=0, call="c", text="gone"),))),
        st.builds(Replacement, position=positions, message=st.just(SUMMARY)),
    )


def _apart(requests: list[int]) -> list[int]:
    kept: list[int] = []
    for request in requests:
        if not kept or request - kept[-1] > 1:
            kept.append(request)
    return kept


def followed(messages: list[Tagged], change: Change) -> list[Tagged]:
    """The messages after the change."""
    match change:
        case Clearing() | Replacement():
            return messages
        case AppliedSummaries():
            after = list(messages)
            for pair in reversed(change.pairs):
                request, response = after[pair.request : pair.response + 1]
                stands = response if response.active or request.subgoal is None else request
                after[pair.request : pair.response + 1] = [stands]
            return after
        case Drain():
            summary = [Tagged(None, False)] if change.summary is not None else []
            again = [messages[position] for position in (*change.pinned, *change.active)]
            return [*messages[: change.start], *summary, *again, *messages[change.end :]]


@pytest.mark.requirement("Z-44", "H-05", "H-14", "G-22")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_tag_stays_with_its_message(data: st.DataObject) -> None:
    """Against a reference that tracks the messages themselves, through any life of a registry."""
    subgoals, reference = Subgoals(), [Tagged(None, False) for _ in range(data.draw(st.integers(1, 12)))]
    for _ in range(data.draw(st.integers(1, 6))):
        step = data.draw(st.sampled_from(("push", "extend", "complete", "release", "grow", "change", "change")))
        size = len(reference)
        match step:
            case "push" if size:
                start = data.draw(st.integers(0, size - 1))
                subgoals.push_active("next", start)
                subgoals.extend_active(size)
            case "extend":
                subgoals.extend_active(size)
            case "complete":
                subgoals.complete_active(size)
            case "release" if size:
                subgoals.release_before(data.draw(st.integers(0, size)))
            case "grow":
                reference += [Tagged(None, False) for _ in range(data.draw(st.integers(1, 4)))]
                continue
            case "change" if size:
                change = data.draw(changes(size))
                reference = followed(reference, change)
                subgoals.follow(change)
                _same(subgoals, reference)
                continue
        for position, message in enumerate(reference):  # what the registry decided, the messages now carry
            message.subgoal = subgoals.subgoal_at(position)
            message.active = subgoals.subgoal_state(position) == "active"
    assert sum(one.state == "active" for one in subgoals.subgoals) <= 1


def _same(subgoals: Subgoals, reference: list[Tagged]) -> None:
    assert [subgoals.subgoal_at(position) for position in range(len(reference))] == [
        message.subgoal for message in reference
    ]
    assert list(subgoals.active(len(reference))) == [
        position for position, message in enumerate(reference) if message.active
    ]
    for one in subgoals.subgoals:
        own = [position for position, message in enumerate(reference) if message.subgoal == one.id]
        if own:
            assert (one.start, one.end) == (own[0], own[-1] + 1)


@pytest.mark.requirement("H-05")
def test_a_folded_response_has_no_place_of_its_own_any_more() -> None:
    subgoals = registry(("book", 0, 3), ("pay", 3, 6))
    subgoals.complete_active(6)
    subgoals.follow(AppliedSummaries(pairs=(folded(1),)))  # 1 and 2 are one now
    assert spans_of(subgoals) == [("book", "completed", 0, 2), ("pay", "completed", 2, 5)]
