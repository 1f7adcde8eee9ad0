"""Recall in the chats of this tree, at shipped settings: the goals of docs/memory-measured.md."""

from pathlib import Path

import pytest

from agent.memory.settings import RecallSettings
from tests.bench.memory import histories
from tests.bench.memory.feeding import Feed
from tests.bench.memory.figures import Figure, figures

SETS = ("family", "work", "german", "russian", "chinese", "japanese")
ENGLISH = 0.85  # in the block, of the English sets together


async def measured(name: str, home: Path) -> Figure:
    (history,) = histories.read(Path(histories.__file__).parent / "sets" / f"{name}.json")
    async with Feed.of(history, home / name) as feed:
        found = await feed.asked("words")
        assert max(one.chars for one in found) <= RecallSettings().max_chars
    (figure,) = figures(found, by_kind=False)
    return figure


@pytest.mark.parametrize("name", SETS)
async def test_what_was_said_is_shown_and_unrelated_questions_are_left_alone(name: str, tmp_path: Path) -> None:
    figure = await measured(name, tmp_path)
    assert figure.hit10 >= 0.80
    assert figure.any_shown >= max(0.80, ENGLISH - 0.08)
    assert figure.unrelated == 20
    assert figure.bothered <= 2
