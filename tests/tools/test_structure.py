"""The figures of the code's structure, on small trees, and the figures of the documentation as they are drawn."""

from pathlib import Path

import pytest

from tools import drawings, structure

ROOT = Path(__file__).parents[2]

CONTRACTS = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["gateway", "agent"]
[[tool.importlinter.contracts]]
type = "layers"
layers = ["agent.top", "agent.left | agent.right", "agent.core"]
"""


def tree(root: Path, **sources: str) -> Path:
    """A product of these modules; `__` in a name stands for a folder."""
    (root / "pyproject.toml").write_text(CONTRACTS)
    for name, source in sources.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return root


@pytest.mark.parametrize(
    ("sources", "figure", "value"),
    [
        pytest.param({"agent__a": "house = 1"}, "names of the private vocabulary", 1, id="a private name"),
        pytest.param({"agent__a": "# an errand"}, "words of the private vocabulary in prose", 1, id="a private word"),
        pytest.param(
            {"agent__a": "import agent.b", "agent__b": "from agent import c", "agent__c": "from agent.a import x"},
            "import circles",
            1,
            id="a circle of three",
        ),
        pytest.param({"agent__a": "import agent.b", "agent__b": ""}, "import circles", 0, id="no circle"),
        pytest.param({"agent__a": "import gateway.b", "gateway__b": ""}, "upward imports", 1, id="a layer up"),
        pytest.param({"gateway__b": "import agent.a", "agent__a": ""}, "upward imports", 0, id="a layer down"),
        pytest.param(
            {"agent__left__a": "from agent.right.b import x", "agent__right__b": ""},
            "upward imports",
            1,
            id="a package aside",
        ),
        pytest.param(
            {"agent__left__a": "from agent.left.b import x", "agent__left__b": ""},
            "upward imports",
            0,
            id="within a package",
        ),
        pytest.param({"agent__a": "x = 1\nif x:\n    y = 2\n"}, "statements", 3, id="statements"),
        pytest.param({"agent__a": "", "agent__b": "\n" * 60}, "modules under 60 lines", 1, id="a small module"),
        pytest.param(
            {"agent__a": "", "agent__b": "import agent.a", "agent__c": ""},
            "modules with a single importer",
            1,
            id="a single importer",
        ),
        pytest.param(
            {"agent__a": "class One: ...\nclass _Two: ...", "agent__b": "class One: ...\nclass _Two: ..."},
            "class names that exist twice",
            1,
            id="a class name twice",
        ),
        pytest.param({f"agent__a{number}": "" for number in range(21)}, "folders above 20 modules", 1, id="wide"),
        pytest.param({"agent__turn__a": "", "agent__turn__b": ""}, "files of agent/turn", 2, id="agent/turn"),
    ],
)
def test_a_figure_counts(tmp_path: Path, sources: dict[str, str], figure: str, value: int) -> None:
    assert structure.figures(tree(tmp_path, **sources))[figure] == value


def test_the_figures_that_bind_and_need_no_trace_are_nought() -> None:
    """docs/architecture.md shows them so."""
    found = structure.figures(ROOT)
    assert {name: value for name, value in found.items() if name in structure.BINDING} == dict.fromkeys(
        structure.BINDING, 0
    )


def test_the_figures_of_the_documentation_are_drawn_from_their_source() -> None:
    drawn = {path.name: path.read_text() for path in drawings.FOLDER.glob("*.svg")}
    assert drawn == drawings.figures(), "draw them again: python -m tools.drawings"
