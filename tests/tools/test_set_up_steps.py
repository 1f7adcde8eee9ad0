"""Step pictures of docs/platforms.md: as they are drawn, shown and described, and in the words of the page."""

import re

import pytest

from tools.set_up_steps import FOLDER, PLATFORMS, Step, set_ups

PAGE = FOLDER.parent.parent / "platforms.md"
NAMED = {"button", "on", "off", "code"}  # rows whose text is a name, as the platform or the page writes it
SHORTEST_ALT = 40  # characters, in which one can tell what is seen

WORDS = " ".join(re.sub(r"[*`<>]", "", PAGE.read_text()).split())


def test_they_are_drawn_from_their_source() -> None:
    drawn = {path.name: path.read_text() for path in FOLDER.glob("*")}
    assert drawn == set_ups(), "draw them again: python -m tools.set_up_steps"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_page_shows_each_below_its_heading_and_describes_it(platform: str) -> None:
    section = PAGE.read_text().partition(f"\n## {platform.capitalize()}\n")[2].partition("\n## ")[0]
    ((alt, path),) = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", section)
    assert path == f"figures/set-up/{platform}.svg"
    assert len(" ".join(alt.split())) >= SHORTEST_ALT


@pytest.mark.parametrize(("platform", "step"), [(name, step) for name, steps in PLATFORMS.items() for step in steps])
def test_a_step_uses_the_names_of_the_page(platform: str, step: Step) -> None:
    names = [row.text for row in step.rows if row.kind in NAMED] + [row.goes for row in step.rows if row.goes]
    for name in (*step.menu, *names, step.where.removeprefix("Telegram: ")):
        assert name in WORDS, platform
