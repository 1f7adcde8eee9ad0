"""Resolution of paths, which never leaves the workspace (B-36, B-93)."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.errors import OutOfScope, ToolError
from agent.tools.files.paths import grounded, names_of, shown

HOME = PurePosixPath("/data/workspaces/telegram%3A77")


@pytest.mark.requirement("R-30")
@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        pytest.param("a.txt", "/workspace/src/a.txt", id="relative to the working directory"),
        pytest.param("./a//b/./c", "/workspace/src/a/b/c", id="dots and empty names"),
        pytest.param("../a", "/workspace/a", id="up, but not out"),
        pytest.param(".", "/workspace/src", id="the working directory"),
        pytest.param("/workspace", "/workspace", id="the workspace"),
        pytest.param("/workspace/x/../y", "/workspace/y", id="absolute"),
        pytest.param("~/y", "/workspace/y", id="the shell's home"),
        pytest.param(f"{HOME}/y", "/workspace/y", id="where it really lies"),
        pytest.param("~root", "/workspace/src/~root", id="nobody else's home"),
        pytest.param("ä ß/日本", "/workspace/src/ä ß/日本", id="any letters"),
    ],
)
def test_a_path_becomes_canonical(path: str, canonical: str) -> None:
    assert shown(grounded(path, ("src",), HOME)) == canonical


@pytest.mark.requirement("B-36", "B-93")
@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../../etc/passwd", "/", "/workspace/../etc", "/workspaces/x", "/proc/self/environ", "~/../x",
     f"{HOME}x/y", f"{HOME}/../telegram%3A78/y", "a\x00b", "a\nb", "report\u202egnp.exe", "a\u200bb", "a/\u2028"],
)  # fmt: skip
def test_what_lies_outside_is_refused(path: str) -> None:
    with pytest.raises(OutOfScope):
        grounded(path, ("src",), HOME)


@pytest.mark.parametrize("path", ["", "  ", "x" * 256, "x/" * 3000], ids=["empty", "blank", "long name", "long"])
def test_what_is_no_path_is_told(path: str) -> None:
    with pytest.raises(ToolError):
        grounded(path, (), HOME)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b", "workspace", "~", "…"]), max_size=12), st.booleans())
def test_no_mixture_leads_out(parts: list[str], absolute: bool) -> None:
    path = ("/workspace/" if absolute else "") + "/".join(parts)
    try:
        names = grounded(path, ("src", "x"), HOME)
    except ToolError:
        return
    assert not {"..", ".", ""} & set(names)
    assert grounded(shown(names), (), HOME) == names, "canonical is canonical"


def test_a_folder_that_went_away_is_the_workspace() -> None:
    assert names_of(HOME / "a" / "b", HOME) == ("a", "b")
    assert names_of(PurePosixPath("/elsewhere"), HOME) == ()
