"""Skills that others published, as they are: usable at once, their files read, their scripts seen in the sandbox.

Copies of public collections are not part of this repository: `TIELINE_FOREIGN_SKILLS` names a folder that holds some,
at any depth. Without it these tests are skipped.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.core.clock import SystemClock
from agent.skills.folders import Root, load
from agent.skills.skill import FILE, Skill
from agent.skills.trust import findings_in
from agent.tools.files.edit import read
from agent.tools.settings import FileSettings, ShellSettings
from agent.tools.shell.shell import Room, Shell
from tests.fakes.calls import call_in, called
from tests.fakes.sandbox import sandboxed
from tests.gateway.world import World

WHERE = "TIELINE_FOREIGN_SKILLS"
pytestmark = pytest.mark.skipif(not os.environ.get(WHERE), reason=f"{WHERE} names no folder of published skills")
SHARE = 0.95  # of all that must be usable at once
OURS = frozenset({
    "read", "list", "glob", "grep", "write", "edit", "shell", "web_fetch", "web_scrape", "web_search", "Agent",
    "task_create", "task_update", "task_list", "task_get", "load_skill", "ask_user", "send_message",
})  # fmt: skip


def folders() -> Iterator[Path]:
    """The names of all skills, each name once."""
    seen = set()
    for file in sorted(Path(os.environ[WHERE]).rglob(FILE)):
        if file.parent.name not in seen and file.parent.name != "template":
            seen.add(file.parent.name)
            yield file.parent


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with all of them, as somebody would copy them there."""
    made = tmp_path_factory.mktemp("home")
    for folder in folders():
        shutil.copytree(folder, made / "skills" / folder.name, symlinks=True)
    return made


@pytest.fixture(scope="module")
def skills(home: Path) -> dict[str, Skill]:
    return load([Root(home / "skills", "operator")])


def test_all_are_read_whole(home: Path, skills: dict[str, Skill], caplog: pytest.LogCaptureFixture) -> None:
    load([Root(home / "skills", "operator")])
    told = [record.getMessage() for record in caplog.records if "unknown keys" not in record.getMessage()]
    assert told == []
    assert len(skills) == len(list((home / "skills").iterdir()))
    assert all(len(skill.description) > 20 for skill in skills.values())


def test_nearly_all_may_be_used_at_once(skills: dict[str, Skill]) -> None:
    waiting = {name: found for name, skill in skills.items() if (found := findings_in(skill))}
    assert len(waiting) <= len(skills) * (1 - SHARE), waiting


def test_their_tools_are_known_here(skills: dict[str, Skill]) -> None:
    """Some harnesses have tools that nobody else has; what else such a skill works with is there."""
    named = [skill.tools for skill in skills.values() if skill.tools]
    known = sum(len(OURS.intersection(tools)) for tools in named)
    assert all(OURS.intersection(tools) for tools in named)
    assert known >= sum(map(len, named)) * SHARE


async def test_every_file_beside_one_can_be_read(tmp_path: Path, skills: dict[str, Skill]) -> None:
    with_files = {name: skill for name, skill in skills.items() if skill.files}
    assert with_files
    for name, skill in with_files.items():
        context = call_in(tmp_path, skills={name: skill.folder}, at_hand=(name,))
        texts = [
            one
            for one in skill.folder.rglob("*.md")
            if one.name != FILE and not one.is_symlink() and one.stat().st_size
        ]
        for file in texts[:5]:
            path = str(file.relative_to(skill.folder))
            assert await called(read, context, path=path) == await called(read, context, path=f"/skills/{name}/{path}")


@sandboxed
async def test_their_scripts_are_there_in_the_sandbox(tmp_path: Path, skills: dict[str, Skill]) -> None:
    made = ShellSettings()
    shell = Shell(Room("sandbox", shutil.which("bwrap") or ""), SystemClock(), lambda: made, FileSettings).shell_tool
    readable = {name: skill.folder for name, skill in skills.items() if skill.files}
    scripts = [
        f"/skills/{name}/{script.relative_to(folder)}"
        for name, folder in readable.items()
        for script in sorted(folder.rglob("*.py"))[:2]
    ]
    assert scripts
    context = call_in(tmp_path, skills=readable)
    for at in range(0, len(scripts), 40):
        listed = " ".join(f"'{script}'" for script in scripts[at : at + 40])
        command = f"for one in {listed}; do python3 -m tokenize $one >/dev/null || echo broken $one; done"
        said = await called(shell, context, command=command)
        assert "No such file" not in said
        assert "exit code 0" in said


async def test_one_is_used_in_a_chat(world_of: Callable[..., World], skills: dict[str, Skill]) -> None:
    """All of them in the home of a running gateway; the model of one that names a file reads that file."""
    world = world_of()
    for skill in skills.values():
        shutil.copytree(skill.folder, world.home / "skills" / skill.folder.name, symlinks=True)
    one, path = next(
        (skill, str(file.relative_to(skill.folder)))
        for skill in skills.values()
        if not findings_in(skill)
        for file in sorted(skill.folder.rglob("*.md"))
        if file.name != FILE and str(file.relative_to(skill.folder)) in skill.body
    )
    async with world.process() as world:
        read = {"type": "tool_use", "name": "read", "input": {"path": path}}
        world.script(
            {"match": {"tool_result": False}, "reply": {"blocks": [read]}},
            {"match": {"tool_result": True}, "reply": {"text": "Done with it."}},
        )
        await world.answered(f"@@skill={one.name} go", "Done with it.")
        told = str(world.llm.bodies[-1]["messages"])
        assert f"/skills/{one.name}" in told
        assert "     1\\t" in told
