"""Links, pipes and swaps lead nowhere: files are opened name by name from the workspace (B-36, B-93)."""

import os
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from agent.core.errors import OutOfScope, ToolError
from agent.core.files import safe as tree
from agent.tools.files.paths import shown

Tree = partial(tree.Tree, shown=shown)
SECRET = b"secret of the house"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside something that is none of its business."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_bytes(SECRET)
    made = tmp_path / "ws"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "a.txt").write_text("hello")
    return made


@pytest.mark.requirement("B-36", "B-93")
class TestLinks:
    def test_a_file_that_is_a_link_is_not_read(self, root: Path) -> None:
        (root / "link").symlink_to(root.parent / "outside" / "key")
        with pytest.raises(OutOfScope, match="symbolic link"):
            Tree(root).read(("link",))

    def test_nor_one_behind_a_link(self, root: Path) -> None:
        (root / "way").symlink_to(root.parent / "outside")
        with pytest.raises(OutOfScope, match="symbolic link"):
            Tree(root).read(("way", "key"))

    def test_nothing_is_written_through_one(self, root: Path) -> None:
        (root / "link").symlink_to(root.parent / "outside" / "key")
        (root / "way").symlink_to(root.parent / "outside")
        for names in (("link",), ("way", "key"), ("way", "new", "file")):
            with pytest.raises(OutOfScope):
                Tree(root).write(names, b"theirs")
        assert (root.parent / "outside" / "key").read_bytes() == SECRET
        assert [path.name for path in (root.parent / "outside").iterdir()] == ["key"]

    def test_nor_listed_or_walked(self, root: Path) -> None:
        (root / "way").symlink_to(root.parent / "outside")
        with pytest.raises(OutOfScope):
            Tree(root).folder(("way",))
        assert [entry.names for entry in Tree(root).walk(())] == [("sub",), ("way",), ("sub", "a.txt")]

    def test_a_workspace_that_is_a_link_is_none(self, root: Path) -> None:
        (root.parent / "other").symlink_to(root)
        with pytest.raises(ToolError, match="/workspace cannot be opened: Not a directory"):
            Tree(root.parent / "other").read(("sub", "a.txt"))

    def test_a_folder_swapped_for_a_link_meanwhile_leads_nowhere(self, root: Path) -> None:
        """Reading while somebody exchanges a folder and a link for each other never gives what lies outside."""
        (root / "sub" / "key").write_bytes(b"mine")
        (root / "evil").symlink_to(root.parent / "outside")
        over = threading.Event()

        def swap() -> None:
            while not over.is_set():
                for one, other in (("sub", "kept"), ("evil", "sub"), ("sub", "evil"), ("kept", "sub")):
                    with suppress(OSError):
                        os.rename(root / one, root / other)

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            seen = set()
            for _ in range(300):
                with suppress(ToolError):
                    seen.add(Tree(root).read(("sub", "key")))
        finally:
            over.set()
            thread.join()
        assert SECRET not in seen


def test_a_pipe_holds_up_nobody(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(ToolError, match="no regular file"):
        Tree(root).read(("pipe",))


def test_a_file_is_replaced_whole_and_keeps_its_mode(root: Path) -> None:
    tree = Tree(root)
    tree.write(("new", "run.sh"), b"one")
    assert (root / "new" / "run.sh").stat().st_mode & 0o777 == 0o600
    (root / "new" / "run.sh").chmod(0o755)
    tree.write(("new", "run.sh"), b"two")
    assert (root / "new" / "run.sh").read_bytes() == b"two"
    assert (root / "new" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in (root / "new").iterdir()] == ["run.sh"], "nothing is left behind"


def test_an_empty_workspace_is_empty(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "absent")
    assert (tree.folder(()), list(tree.walk(())), tree.used(), tree.is_folder(())) == ([], [], (0, 0), True)
    assert tree.look(("a", "b")) is None
    with pytest.raises(ToolError, match="empty"):
        tree.read(("a",))
    tree.write(("a",), b"1")
    assert (tmp_path / "absent").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("sub", "b.txt"), "there is no /workspace/sub/b.txt; there is a.txt"),
        (("sub",), "is a folder"),
        ((), "/workspace is a folder"),
        (("sub", "a.txt", "x"), "/workspace/sub/a.txt is no folder"),
    ],
)
def test_what_cannot_be_read_is_told(root: Path, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        Tree(root).read(names)


def test_a_file_beyond_reason_is_not_read(root: Path) -> None:
    with pytest.raises(ToolError, match="has 5 bytes; 4 are the most"):
        Tree(root).read(("sub", "a.txt"), 4)
