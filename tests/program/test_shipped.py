"""The default install, as the suites that run the real program are held to it."""

from pathlib import Path

import pytest

from tests.program import configs
from tests.program.doubles import all_doubles
from tests.program.running import Program
from tests.program.shipped import UNDER_TEST, NotAsShipped, as_shipped, beyond


async def test_addresses_tokens_and_flood_limits_belong_to_it() -> None:
    async with all_doubles() as doubles:
        accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
        flood = "messages_per_minute = 6000\n[queue]\nmax_depth = 100\n"
        assert beyond(configs.ACCESS + flood + configs.models(doubles, "a", "b") + accounts) == set()


@pytest.mark.parametrize(
    ("config", "about", "complaint"),
    [
        pytest.param("[memory.semantic]\nengine = 'auto'", set(), "memory.semantic.engine", id="a section"),
        pytest.param("[queue]\nmerge_ms = 0", set(), "queue.merge_ms", id="beside a setting that belongs to it"),
        pytest.param('[[channels]]\ntype = "slack"\nreactions = false', set(), "channels.reactions", id="in a list"),
        pytest.param("[retry]\nmax_retries = 1\n[mcp]\nx = 1", {"retry"}, "'mcp.x'", id="beside what a test is about"),
        pytest.param("", {"retry"}, "does not set", id="said and not set"),
        pytest.param("[delivery]\nstream = false", {"delivery"}, "does not say why", id="without a reason"),
    ],
)
def test_anything_else_is_refused(config: str, about: set[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(NotAsShipped, match=complaint.replace(".", r"\.")):
        Program(tmp_path, config, about=about)


def test_what_a_test_is_about_may_be_set() -> None:
    assert as_shipped("[retry]\nmax_retries = 1", {"retry"})
    assert all(reason for reason in UNDER_TEST.values())


def test_the_surroundings_set_nothing(tmp_path: Path) -> None:
    """Settings come as TIELINE__… too; none is set for the program, nor left over from who runs the tests."""
    assert not [name for name in Program(tmp_path, "").environ if name.startswith("TIELINE__")]
