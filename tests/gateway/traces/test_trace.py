"""Which turns are kept, and how their parts are written down."""

import pytest

from agent.core.ids import RunId, random_uuid
from gateway.traces.settings import TraceSettings
from gateway.traces.trace import decode, encode, is_sampled, keeps
from tests.gateway.traces.examples import SPANS

NONE = TraceSettings(sample=0.0, always_slower_s=30.0)


def test_spans_are_read_as_they_were_written_and_say_only_what_is_not_as_usual() -> None:
    written = encode(SPANS)
    assert decode(written) == SPANS
    assert written.startswith('[{"kind":"queue","start_ms":-40,"ms":40},{')


@pytest.mark.requirement("G-64")
@pytest.mark.parametrize(
    ("settings", "outcome", "took_ms", "kept"),
    [
        pytest.param(TraceSettings(), "answered", 10, True, id="all by default"),
        pytest.param(NONE, "answered", 30_000, False, id="none, and it is not slower"),
        pytest.param(NONE, "answered", 30_001, True, id="slower"),
        pytest.param(NONE, "failed", 10, True, id="failed"),
        pytest.param(NONE, "broken", 10, True, id="broke off"),
        pytest.param(NONE, "cancelled", 10, False, id="somebody stopped it"),
    ],
)
def test_which_turns_are_kept(settings: TraceSettings, outcome: str, took_ms: int, kept: bool) -> None:
    assert keeps(settings, RunId("run"), outcome=outcome, took_ms=took_ms) is kept


@pytest.mark.requirement("G-64")
def test_a_share_of_runs_is_about_that_share_and_the_same_runs_each_time() -> None:
    runs = [RunId(random_uuid()) for _ in range(4_000)]
    sampled = [run for run in runs if is_sampled(run, 0.25)]
    assert 800 < len(sampled) < 1200
    assert [run for run in runs if is_sampled(run, 0.25)] == sampled
    assert set(sampled) <= {run for run in runs if is_sampled(run, 0.5)}
    assert all(is_sampled(run, 1.0) for run in runs)


@pytest.mark.parametrize(
    ("key", "value"), [("sample", 1.5), ("sample", -0.1), ("always_slower_s", -1), ("days", 0), ("days", 10**6),
                       ("max_mb", 0)],
)  # fmt: skip
def test_impossible_settings_are_named(key: str, value: float) -> None:
    (mistake,) = TraceSettings(**{key: value}).mistakes()  # type: ignore[arg-type]
    assert mistake.startswith(f"traces.{key}: {value} must be ")
