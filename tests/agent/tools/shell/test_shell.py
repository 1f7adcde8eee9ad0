"""The shell tool, in a real sandbox: it sees its workspace and the system's programs, and nothing else (B-93)."""

import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.core.clock import SystemClock
from agent.core.errors import OutOfScope, ToolError
from agent.core.tools import Tool
from agent.tools.settings import FileSettings, ShellSettings
from agent.tools.shell.shell import Room, Shell, room_for, trouble_with
from tests.fakes.calls import call_in, called
from tests.fakes.sandbox import sandboxed
from tests.fakes.waiting import until


def shell(kind: Any = "sandbox", files: FileSettings | None = None, **settings: Any) -> Tool:
    made = ShellSettings(mode=kind, **settings)
    return Shell(
        Room(kind, shutil.which("bwrap") or ""), SystemClock(), lambda: made, lambda: files or FileSettings()
    ).shell_tool  # fmt: skip


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace below a data directory with secrets, and another conversation's beside it."""
    made = tmp_path / "workspaces" / "telegram%3A77"
    (made / "src").mkdir(parents=True)
    (made / "src" / "a.txt").write_text("mine\n")
    (tmp_path / "workspaces" / "telegram%3A78").mkdir()
    (tmp_path / "workspaces" / "telegram%3A78" / "key").write_text("canary")
    (tmp_path / "gateway.toml").write_text("canary")
    return made


@sandboxed
class TestSandbox:
    async def test_it_works_in_the_workspace(self, ws: Path) -> None:
        said = await called(shell(), call_in(ws, cwd="src"), command="cat a.txt; pwd; echo new > b.txt; id -u")
        assert said.startswith("mine\n/workspace/src\n1000\n[exit code 0, after ")
        assert (ws / "src" / "b.txt").read_text() == "new\n"
        assert (ws / "src" / "b.txt").stat().st_mode & 0o077 == 0

    @pytest.mark.requirement("B-93", "Z-143")
    async def test_nothing_else_is_there(self, ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One look at everything a program could reach: files, environment, processes, network, writing."""
        monkeypatch.setenv("OPENAI_API_KEY", "canary")
        looks = [
            f"cat {ws.parent}/telegram%3A78/key {ws.parent.parent}/gateway.toml",
            "ls /root /home /srv /mnt /media /opt",
            "env; cat /proc/*/environ | tr '\\0' '\\n'",
            "cat /etc/shadow /etc/passwd /etc/hostname",
            "touch /usr/x /etc/x /x && echo wrote",
            "ls /proc | grep -c '^[0-9]'",
            "cat /proc/net/dev | grep -v lo: | tail -n +3",
            "ls /sys /dev/sda /dev/mem /run/docker.sock",
            "unshare -r true && echo more rights",
            "mount -t tmpfs x /tmp && echo mounted",
        ]
        context = call_in(ws, env={"FROM_HOOK": "yes"})
        said = await called(shell(), context, command="; ".join(f"({look}) 2>&1" for look in looks))
        assert "canary" not in said
        assert "FROM_HOOK=yes" in said
        assert not {"wrote", "mounted", "eth0", "/root:"} & set(said.split())
        count = next(int(line) for line in said.splitlines() if line.isdigit())
        assert count < 10, "it sees its own processes only"

    @pytest.mark.requirement("Z-143")
    async def test_commands_at_the_same_time_have_each_their_own_environment(self, ws: Path) -> None:
        tool, said = shell(), dict[str, str]()

        async def run(name: str) -> None:
            arguments = {"command": "echo $WHOSE", "cwd": ".", "timeout_s": 60}
            said[name] = await tool.run(arguments, call_in(ws, env={"WHOSE": name}))

        async with anyio.create_task_group() as group:
            for name in ("ann", "ben"):
                group.start_soon(run, name)
        assert {name: text.partition("\n")[0] for name, text in said.items()} == {"ann": "ann", "ben": "ben"}

    @pytest.mark.requirement("R-27", "B-93")
    async def test_what_nobody_was_asked_about_can_change_nothing_and_reach_nobody(self, ws: Path) -> None:
        """A makefile runs what it likes even in a dry run: in a room where that does no harm, open network or not."""
        (ws / "Makefile").write_text("$(shell id > changed; id > src/changed)\nall:\n\techo built\n")
        said = await called(shell(), call_in(ws), command="make -n")
        assert "echo built" in said
        assert "Read-only file system" in said
        assert not (ws / "changed").exists()
        assert not (ws / "src" / "changed").exists()
        (ws / "devices").symlink_to("/proc/net/dev")
        said = await called(shell(network=True), call_in(ws), command="cat devices")
        assert re.findall(r"(\w+):", said) == ["lo"]
        await called(shell(), call_in(ws), command="make -n; true")
        assert (ws / "changed").exists(), "what was allowed works as ever"

    async def test_a_link_out_leads_nowhere(self, ws: Path) -> None:
        (ws / "way").symlink_to(ws.parent)
        said = await called(shell(), call_in(ws), command="cat way/telegram%3A78/key")
        assert "canary" not in said
        assert "No such file" in said

    @pytest.mark.requirement("B-35")
    async def test_time_and_processes_are_bounded(self, ws: Path) -> None:
        for limit in (1, 5, 20):  # a busy machine may need longer to begin at all
            said = await called(shell(timeout_s=limit, grace_s=0.2), call_in(ws), command="echo begun; sleep 100")
            if said.startswith("begun"):
                break
        assert said.startswith(f"begun\n[stopped: its {limit} s were over, after ")
        many = "i=0; while [ $i -lt 40 ]; do sleep 30 & i=$((i+1)); done; wait"
        said = await called(shell(processes=16, timeout_s=20), call_in(ws), command=many)
        assert "it had more than 16 processes" in said or "fork" in said

    def test_the_probe_says_so(self) -> None:
        assert trouble_with() == ("", shutil.which("bwrap"))
        assert room_for(ShellSettings()) == Room("sandbox", shutil.which("bwrap") or "")


async def test_only_so_many_commands_run_at_once_in_the_process(ws: Path) -> None:
    settings = ShellSettings(mode="open", at_once=1)
    one = Shell(Room("open"), SystemClock(), lambda: settings, FileSettings, wait_s=0.2).shell_tool
    async with anyio.create_task_group() as group:
        group.start_soon(partial(called, one, call_in(ws), command="touch began; sleep 30"))
        await until((ws / "began").exists)
        with pytest.raises(ToolError, match=r"1 commands run already.*at_once"):
            await called(one, call_in(ws), command="echo too many")
        group.cancel_scope.cancel()
    assert "free again" in await called(one, call_in(ws), command="echo free again")


@sandboxed
def test_where_nothing_temporary_can_be_written_the_probe_says_so() -> None:
    """As in a container with a read-only root and no /tmp."""
    asks = "from agent.tools.shell.shell import trouble_with; print(trouble_with('true')[0])"
    read_only = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--remount-ro", "/dev"]
    ran = subprocess.run([*read_only, sys.executable, "-c", asks], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("bubblewrap does not run here: [Errno 2] No usable temporary directory"), ran


def test_without_a_sandbox_there_is_no_shell() -> None:
    trouble, _ = trouble_with("no-such-program")
    assert "bubblewrap is not installed" in trouble
    assert room_for(ShellSettings(), "no-such-program") is None
    assert room_for(ShellSettings(), "false") is None, "one that does not work is none"
    assert room_for(ShellSettings(mode="off")) is None
    assert room_for(ShellSettings(mode="open")) == Room("open"), "but the operator may open it"


async def test_opened_it_has_the_limits_and_no_environment(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    said = await called(shell("open"), call_in(ws, cwd="src"), command="cat a.txt; env; exit 4")
    assert said.startswith("mine\n")
    assert "canary" not in said
    assert f"HOME={ws}" in said
    assert "[exit code 4, after" in said


@pytest.mark.requirement("R-28", "R-30")
async def test_an_appraisal_fixes_folder_and_time(ws: Path) -> None:
    tool = shell()
    assert tool.spec.appraise is not None
    asked = await tool.spec.appraise({"command": " rm a.txt ", "timeout_s": 700}, call_in(ws, cwd="src"))
    assert asked.arguments == {"command": "rm a.txt", "cwd": "/workspace/src", "timeout_s": 590.0}
    assert (asked.gate, asked.shown) == ("ask", "rm a.txt\n(in /workspace/src, 590 s at most)")
    assert (await tool.spec.appraise({"command": "rm -rf /"}, call_in(ws))).gate == "deny"
    assert (await tool.spec.appraise({"command": "ls"}, call_in(ws))).gate == "allow"
    with pytest.raises(OutOfScope):
        await tool.spec.appraise({"command": "ls", "cwd": "/etc"}, call_in(ws))


async def test_a_full_workspace_is_told(ws: Path) -> None:
    full = FileSettings(workspace_files=1)
    (ws / "one").touch()
    for command in ("ls", "rm nothing; dd if=/dev/zero of=two count=1"):
        with pytest.raises(ToolError, match="workspace is full"):
            await called(shell("open", full), call_in(ws), command=command)
    assert not (ws / "two").exists()
    assert "exit code 0" in await called(shell("open", full), call_in(ws), command="rm one")


@pytest.mark.parametrize("given", [{"timeout_s": 0}, {"memory_mb": 1}, {"processes": 1}, {"read_only": ("opt",)}])
def test_impossible_settings_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        ShellSettings(**given)
