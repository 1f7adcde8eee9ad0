"""`[memory.style] backend`: who keeps what is known of people is built in, or comes from an installed package."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.memory.settings import StyleSettings
from gateway.config.errors import ConfigError
from gateway.config.read import load
from gateway.running.memory import NoUserModel, UserModels, open_user_model
from tests.gateway.world import World

CODE = """
from agent.style.detector import StyleDetector
from agent.style.user_model import Preferences

SEEN = []


class Tiny:
    backend_tag = "tiny"

    def __init__(self):
        self.kept = {}

    def brief(self, conn, user, audience):
        return self.kept.get((user, audience), StyleDetector())

    def preferences(self, conn, user):
        return Preferences()

    def observe(self, conn, user, audience, observation):
        SEEN.append((user, audience))
        self.kept[(user, audience)] = observation.style


class Half:
    backend_tag = "half"


def broken():
    raise RuntimeError("no key")
"""
ENTRIES = "[gateway.user_models]\ntiny = tieline_tiny:Tiny\nhalf = tieline_tiny:Half\nbroken = tieline_tiny:broken\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of somebody else, installed in a folder of the test's own."""
    folder = tmp_path / "installed"
    about = folder / "tieline_tiny-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "tieline_tiny.py").write_text(CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tieline-tiny\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop("tieline_tiny", None)


@pytest.mark.usefixtures("package")
async def test_a_package_keeps_how_people_write(world_of: Callable[..., World]) -> None:
    async with world_of(config='[memory.style]\nbackend = "tiny"\n').process() as world:
        for number in range(6):
            await world.answered(f"ok do it {number}")
        assert sys.modules["tieline_tiny"].SEEN == [("telegram:77", "person:telegram:77")] * 6
        assert "short messages" in str(world.llm.bodies[-1]["messages"]), "and the model is told of it"
        assert "last 6 messages" in await world.asks("/style", "How you write here")


@pytest.mark.usefixtures("package")
def test_a_name_that_nobody_bears_is_told_with_those_there_are(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text('[memory.style]\nbackend = "tinny"\n')
    with pytest.raises(ConfigError) as raised:
        load(config, {"TIELINE_HOME": str(tmp_path)})
    there = "broken, half, tiny"
    assert f"memory.style.backend: no user model called 'tinny' is installed; there are: database, {there}" in str(
        raised.value
    )


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "the user model 'broken' cannot be opened: RuntimeError: no key"),
        ("half", "the user model 'half' has no brief, preferences, observe"),
        ("none", "no user model called 'none' is installed"),
    ],
)
def test_what_cannot_be_used_says_why(name: str, why: str) -> None:
    with pytest.raises(NoUserModel, match=why):
        open_user_model(name)


@pytest.mark.usefixtures("package")
def test_one_that_cannot_be_opened_later_leaves_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    now = StyleSettings(backend="tiny")
    models = UserModels(lambda: now)
    first = models.current()
    now = StyleSettings(backend="broken")
    assert models.current() is first is not None
    assert models.current() is first
    assert caplog.text.count("no key; tiny stays in use") == 1, "said once"
    now = StyleSettings(enabled=False)
    assert models.current() is None
