"""The oldest entry is forgotten first, and the map never exceeds its size."""

from hypothesis import given
from hypothesis import strategies as st

from agent.core.bounded_map import BoundedMap


def test_what_was_set_longest_ago_is_forgotten() -> None:
    kept: BoundedMap[str, int] = BoundedMap(2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3
    kept["c"] = 4
    assert dict(kept) == {"a": 3, "c": 4}


def test_what_is_in_use_can_be_kept() -> None:
    kept: BoundedMap[str, None] = BoundedMap(2)
    kept["a"] = kept["b"] = None
    kept.move_to_end("a")
    kept["c"] = None
    assert list(kept) == ["a", "c"]


@given(st.lists(st.tuples(st.sampled_from(["set", "default", "update", "drop"]), st.integers(0, 20))))
def test_it_never_grows_beyond_its_bound(steps: list[tuple[str, int]]) -> None:
    kept: BoundedMap[int, int] = BoundedMap(5)
    for how, key in steps:
        match how:
            case "set":
                kept[key] = key
            case "default":
                assert kept.setdefault(key, key) == key
            case "update":
                kept.update({key: key, key + 1: key + 1})
            case _:
                kept.pop(key, None)
        assert len(kept) <= 5
