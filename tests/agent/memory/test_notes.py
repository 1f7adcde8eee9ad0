"""MEMORY.md is a file that people write too, longer than what an agent reads of it: no cut read loses any of it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.core.ids import ConversationId
from agent.memory import notes

OLD, NEW = ConversationId("telegram:1"), ConversationId("telegram:-1005")
AT = datetime(2026, 3, 1, tzinfo=UTC)
LONG = "a line of somebody\n" * 9_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    assert len(LONG) > notes.LONGEST * 2
    path = notes.path_of(tmp_path, OLD)
    path.parent.mkdir(parents=True)
    path.write_text(LONG)
    return path


def test_what_is_replaced_stays_whole_as_a_version(file: Path) -> None:
    notes.write(file, "short", at=AT)
    assert [version.read_text() for version in notes.versions_of(file)] == [LONG, "short"]


@pytest.mark.requirement("B-52")
def test_who_reads_meanwhile_never_sees_a_part(file: Path) -> None:
    with file.open() as open_before:
        notes.write(file, "short", at=AT)
        assert open_before.read() == LONG


def test_long_notes_follow_their_conversation_whole(tmp_path: Path, file: Path) -> None:
    after = notes.path_of(tmp_path, NEW)
    after.parent.mkdir(parents=True)
    after.write_text("what is new\n" * 9_000)
    notes.follow(tmp_path, OLD, NEW, at=AT)
    notes.follow(tmp_path, OLD, NEW, at=AT)
    assert after.read_text() == f"{LONG.rstrip()}\n\n{'what is new' + chr(10)}" + "what is new\n" * 8_999
    assert not file.parent.exists()


PLACES = (
    "telegram:-1005",
    "telegram:-1005:7",
    "telegram:-1005:8",
    "telegram@two:-1005",
    "web:ann:main",
    "web:ann:work",
)


@pytest.mark.requirement("G-25")
@pytest.mark.parametrize("one", PLACES)
def test_no_two_conversations_share_notes(tmp_path: Path, one: str) -> None:
    others = {notes.path_of(tmp_path, ConversationId(other)) for other in PLACES if other != one}
    assert notes.path_of(tmp_path, ConversationId(one)) not in others
