"""A tool that runs a shell command in the conversation's workspace: in the sandbox, or where the operator opened it."""

import logging
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.tools import SKILLS, Appraisal, Tool, ToolContext
from agent.core.untrusted_text import worked_on
from agent.tools.files.paths import ROOT, Readable, readable, tree_of
from agent.tools.settings import FileSettings, ShellSettings
from agent.tools.shell.policy import Judgement, judged, only_removes
from agent.tools.shell.sandbox import (
    Allowance,
    Ended,
    counted,
    enclosed,
    environment,
    limited,
    looking_only,
    run,
    tasks_of_user,
    top_of_system,
)

LONGEST = 8_000  # characters of a command
LONG = 1_000  # characters of one; to judge more may take hundreds of milliseconds, and goes to a thread
_SKILL = re.compile(rf"(?<![\w./~-]){SKILLS}/([^\s/'\"`;|&<>()$]{{1,80}})")
_SANDBOX = "a sandbox that sees the workspace and the system's programs"
WAIT_S = 60.0  # for other commands to end, where too many run
KIBIBYTE, MEBIBYTE = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Room:
    """Where commands run: what was found out at the start. `bwrap` is its program where `kind` is "sandbox"."""

    kind: Literal["sandbox", "open"]
    bwrap: str = ""


class Shell:
    """The shell, and the tool that runs a command in it."""

    def __init__(
        self,
        room: Room,
        clock: Clock,
        settings: Callable[[], ShellSettings],
        files: Callable[[], FileSettings],
        *,
        wait_s: float = WAIT_S,
    ) -> None:
        self._room = room
        self._clock = clock
        self._settings = settings
        self._files = files
        self._wait_s = wait_s
        self._running = anyio.CapacityLimiter(settings().at_once)
        self._program = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"

    @property
    def shell_tool(self) -> Tool:
        """The tool, described as what it is on this machine."""
        return self.shell.described(where=_SANDBOX if self._room.kind == "sandbox" else "the system")

    @tool(
        category="exec",
        risk="write",
        touches="outside",
        effects=["write", "run"],
        concurrency_safe=False,
        untrusted=True,
    )
    async def shell(
        self,
        context: ToolContext,
        *,
        command: Annotated[
            str, Field(min_length=1, max_length=LONGEST, description="What /bin/bash (or sh) is given.")
        ],
        cwd: Annotated[str, Field(min_length=1, description="A folder of the workspace, or one below /skills.")] = ".",
        timeout_s: Annotated[
            float | None,
            Field(gt=0, description="Seconds it may take. Else, and at most, the operator's limit: 590 as shipped."),
        ] = None,
    ) -> str:
        """Runs a shell command in {where}. Single commands that only look (ls, cat, git status …) run at once and
        change nothing; for others a person is asked. It gets no input; what it leaves running is ended."""
        settings = context.execution.section(ShellSettings, self._settings)
        if "off" in (settings.mode, self._settings().mode):  # switched off within a turn, it is off at once
            raise ToolError("the operator has switched the shell off")
        place, tree = await anyio.to_thread.run_sync(readable, cwd, context), tree_of(context)
        workspace = context.execution.workspace
        await anyio.to_thread.run_sync(lambda: workspace.mkdir(parents=True, exist_ok=True, mode=0o700))
        if not await anyio.to_thread.run_sync(place.tree.is_folder, place.names):
            raise ToolError(f"there is no folder {place.path}")
        size, count = await anyio.to_thread.run_sync(tree.used)
        limits = context.execution.section(FileSettings, self._files)
        full = size > limits.workspace_mb * MEBIBYTE or count > limits.workspace_files
        if full and not only_removes(command):
            raise ToolError(
                f"the workspace is full ({size} bytes, {count} files); remove something with rm alone first"
            )
        allowance = _allowance(settings, timeout_s)
        async with self._turn(settings.at_once):
            return await self._ran(command, place, allowance, settings, context)

    @shell.appraised_by
    async def _appraise(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        """By the command's own words; how long it may take and where it runs is filled in, so that it is approved."""
        settings = context.execution.section(ShellSettings, self._settings)
        command = str(arguments["command"]).strip()
        if self._room.kind == "open":
            command = with_real_folders(command, context.execution.skills)
        verdict = await self._judged(command, settings)
        cwd = (await anyio.to_thread.run_sync(readable, arguments.get("cwd", "."), context)).path
        seconds = min(float(arguments.get("timeout_s") or settings.timeout_s), settings.timeout_s)
        return Appraisal(
            arguments={"command": command, "cwd": cwd, "timeout_s": seconds},
            gate=verdict.gate,
            reason=verdict.reason,
            shown=f"{command}\n(in {cwd}, {seconds:g} s at most)",
        )

    async def _judged(self, command: str, settings: ShellSettings) -> Judgement:
        closed = self._room.kind == "sandbox"
        judge = partial(judged, sandboxed=closed and not settings.network, root=ROOT if closed else "")
        return await worked_on(command, judge, long=LONG)

    @asynccontextmanager
    async def _turn(self, most: int) -> AsyncIterator[None]:
        """Commands of all conversations share the machine. Raises ToolError where none of them ends for a minute."""
        self._running.total_tokens = most
        mine = object()
        with anyio.move_on_after(self._wait_s) as waiting:
            await self._running.acquire_on_behalf_of(mine)
        if waiting.cancelled_caught:
            raise ToolError(f"{most} commands run already, as many as may at once ([tools.shell] at_once); try later")
        try:
            yield
        finally:
            self._running.release_on_behalf_of(mine)

    async def _ran(
        self,
        command: str,
        place: Readable,
        allowance: Allowance,
        settings: ShellSettings,
        context: ToolContext,
    ) -> str:
        workspace, began = context.execution.workspace, self._clock.monotonic()
        program = [self._program, "-c", command]
        if self._room.kind == "sandbox":
            unasked = (await self._judged(command, settings)).gate == "allow"
            words = enclosed(
                counted(program, settings.processes),
                bwrap=self._room.bwrap,
                top=await anyio.to_thread.run_sync(top_of_system),
                workspace=workspace,
                cwd=PurePosixPath(place.path),
                env=environment({**(looking_only() if unasked else {}), **context.execution.env}, home=ROOT),
                network=settings.network and not unasked,
                read_only=settings.read_only,
                writable=not unasked,
                skills=context.execution.skills,
            )
            ended = await run(limited(words, allowance), cwd=workspace, env={}, allowance=allowance)
        else:
            others = await anyio.to_thread.run_sync(tasks_of_user)
            words = program if others is None else counted(program, others + settings.processes)
            env = environment(context.execution.env, home=str(workspace))
            ended = await run(limited(words, allowance), cwd=place.folder, env=env, allowance=allowance)
        return told(ended, self._clock.monotonic() - began, settings)


def with_real_folders(command: str, skills: Mapping[str, Path]) -> str:
    """The command with the skills' folders as they are on this system, where nothing stands in their place."""

    def real(found: "re.Match[str]") -> str:
        folder = skills.get(found[1])
        return str(folder) if folder is not None and shlex.quote(str(folder)) == str(folder) else found[0]

    return _SKILL.sub(real, command) if skills else command


def told(ended: Ended, took_s: float, settings: ShellSettings) -> str:
    """The result of an ended command for the model."""
    text = ended.head.decode("utf-8", "replace")
    if ended.left_out > 0:
        text += f"\n[{ended.left_out} bytes are left out here]\n"
    text = (text + ended.tail.decode("utf-8", "replace")).rstrip("\n")
    return f"{text}\n{_how(ended, took_s, settings)}" if text else _how(ended, took_s, settings)


def _how(ended: Ended, took_s: float, settings: ShellSettings) -> str:
    status = ended.status - 256 if ended.status > 255 else ended.status
    number = -status if status < 0 else status - 128 if 128 < status < 160 else 0
    if ended.why:
        how = f"stopped: {ended.why}"
    elif number == signal.SIGXCPU:
        how = f"stopped: it has used its {settings.cpu_s} s of processor time"
    elif number == signal.SIGXFSZ:
        how = f"stopped: a file grew beyond {settings.file_mb} MiB"
    elif number == signal.SIGKILL:
        how = "killed"
    else:
        how = f"exit code {ended.status}"
    return f"[{how}, after {took_s:.1f} s]"


def _allowance(settings: ShellSettings, wall_s: float | None) -> Allowance:
    return Allowance(
        wall_s=min(wall_s or settings.timeout_s, settings.timeout_s),
        cpu_s=settings.cpu_s,
        memory_mb=settings.memory_mb,
        processes=settings.processes,
        file_mb=settings.file_mb,
        output_bytes=settings.output_kb * KIBIBYTE,
        grace_s=settings.grace_s,
    )


# Check at the start whether commands can be run on this machine, and how.

WITHIN_S = 10.0

log = logging.getLogger("tieline.tools")


def room_for(settings: ShellSettings, program: str = "bwrap") -> Room | None:
    """Where commands run under these settings; None: nowhere, and the log says why. Starts a process; blocks."""
    match settings.mode:
        case "off":
            return None
        case "open":
            log.warning("shell commands run without a sandbox ([tools.shell] mode is open)")
            return Room("open")
        case "sandbox":
            trouble, found = trouble_with(program)
            if trouble:
                log.warning("there is no shell tool: %s", trouble)
                return None
            return Room("sandbox", found)


def trouble_with(program: str = "bwrap") -> tuple[str, str]:
    """Why the sandbox cannot be used, with the fix ("": it can), and where its program is."""
    found = shutil.which(program)
    if found is None:
        return "bubblewrap is not installed; install it (Debian: apt install bubblewrap)", ""
    try:
        with tempfile.TemporaryDirectory(prefix="tieline-") as folder:
            words = enclosed(
                ["/bin/sh", "-c", "test ! -e /root && echo shut"],
                bwrap=found,
                top=top_of_system(),
                workspace=Path(folder),
                cwd=PurePosixPath(ROOT),
                env=environment({}, home=ROOT),
                network=False,
            )
            tried = subprocess.run(words, capture_output=True, timeout=WITHIN_S, check=False, env={})  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run here: {error}", found
    if tried.stdout.strip() == b"shut":
        return "", found
    why = tried.stderr.decode("utf-8", "replace").strip() or f"it ended with {tried.returncode}"
    return f"bubblewrap does not work here ({why}); it needs user namespaces, and mounts in them", found
