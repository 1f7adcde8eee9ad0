"""Programs of the operator that are run at fixed points of a turn.

Values reach them as environment variables and are never written into a command. They get no secret of ours. Only what
the configuration names is run: there are no hooks in workspaces.
"""

import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from agent.core.untrusted_text import whole
from agent.tools.settings import HookPoint, HookSettings

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")  # of our own environment
LONGEST_VALUE = 100_000  # bytes: a kernel takes 128 KiB for one variable
LONGEST_OUTPUT = 16_384
LONGEST_REASON = 300
BLOCKING: frozenset[HookPoint] = frozenset({"on_turn_start", "pre_tool_use"})
FAILS_CLOSED: frozenset[HookPoint] = frozenset({"pre_tool_use"})

log = logging.getLogger("tieline.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """The result of a point's hooks. `blocked` says why nothing goes on; "" where all may.

    `output` is what each wrote, by its name, in order: words of a program, never of the gateway.
    """

    blocked: str = ""
    output: Mapping[str, str] = field(default_factory=dict)


NOTHING = Fired()


@dataclass(frozen=True, slots=True)
class _Ran:
    code: int | None  # None: it did not end in time, or could not be started
    output: str
    reason: str


@dataclass(frozen=True, slots=True)
class Hooks:
    """Asks for the settings each time; `renewed` ones keep those of that moment, as a turn must (Z-21)."""

    settings: Callable[[], tuple[HookSettings, ...]]
    home: Path
    taken: tuple[HookSettings, ...] | None = None

    def renewed(self) -> "Hooks":
        """The same with the settings as they are now, whatever is changed later."""
        return replace(self, taken=self.settings())

    @property
    def any(self) -> bool:
        """Whether there is one at all."""
        return bool(self.settings() if self.taken is None else self.taken)

    def wants(self, point: HookPoint) -> bool:
        """Whether there is any for that point: what would be handed over need not be made otherwise."""
        hooks = self.settings() if self.taken is None else self.taken
        return any(hook.on == point for hook in hooks)

    async def fire(self, point: HookPoint, values: Mapping[str, str], *, tool: str = "", file: str = "") -> Fired:
        """Run what matches, one after another; the first that blocks ends it. Never raises for a hook's sake."""
        output: dict[str, str] = {}
        for hook in self.settings() if self.taken is None else self.taken:
            if hook.on != point or not _matches(hook.tools, tool) or not _matches(hook.files, file):
                continue
            told = {**values, "point": point, "hook": hook.name, "tool": tool, "file": file}
            cut = sorted(name for name, value in told.items() if _is_cut(value))
            if cut and point in BLOCKING and not hook.stdin:
                why = f"{', '.join(cut)} is longer than {LONGEST_VALUE} bytes, so that this hook cannot see all of it"
                log.warning("hook %s at %s: %s; stdin = true hands over the whole", hook.name, point, why)
                return Fired(blocked=f"hook {hook.name}: {why}", output=output)
            ran = await self._run(hook, told, cut)
            if ran.code == 0:
                if ran.output.strip():
                    output[hook.name] = ran.output
                continue
            log.warning("hook %s at %s: %s", hook.name, point, ran.reason)
            if point in FAILS_CLOSED or (point in BLOCKING and ran.code is not None):
                return Fired(blocked=f"hook {hook.name}: {ran.reason}", output=output)
        return Fired(output=output)

    async def _run(self, hook: HookSettings, values: Mapping[str, str], cut: Sequence[str]) -> _Ran:
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= {f"TIELINE_{name.upper()}": _safe(value) for name, value in values.items()}
        if cut:
            environment["TIELINE_CUT"] = " ".join(cut)
        given = json.dumps(dict(values)).encode() if hook.stdin else None
        process: Process | None = None
        try:
            process = await anyio.open_process(
                ["/bin/sh", "-c", hook.command],
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                env=environment,
                cwd=self.home,
                start_new_session=True,
            )
            with anyio.fail_after(hook.timeout_ms / 1000):
                return await _finished(process, given)
        except TimeoutError:
            return _Ran(None, "", f"not done after {hook.timeout_ms / 1000:g} s")
        except OSError as error:
            return _Ran(None, "", f"could not be started: {error.strerror}")
        finally:
            if process is not None:
                with anyio.CancelScope(shield=True):
                    await _end(process)


async def _finished(process: Process, given: bytes | None) -> _Ran:
    said: dict[str, str] = {"out": "", "err": ""}

    async def read(name: str, stream: ByteReceiveStream | None) -> None:
        kept = b""
        if stream is not None:
            async for piece in stream:
                kept += piece[: max(0, LONGEST_OUTPUT - len(kept))]
        said[name] = whole(kept.decode("utf-8", "replace"))

    async def write(words: bytes) -> None:
        if process.stdin is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it need not read to the end
                await process.stdin.send(words)
            with suppress(anyio.BrokenResourceError, OSError):
                await process.stdin.aclose()

    async with anyio.create_task_group() as group:
        if given is not None:
            group.start_soon(write, given)
        group.start_soon(read, "out", process.stdout)
        group.start_soon(read, "err", process.stderr)
    code = await process.wait()
    words = " ".join((said["err"] or said["out"]).split())[:LONGEST_REASON]
    return _Ran(code, said["out"], words or f"it ended with {code}")


async def _end(process: Process) -> None:
    """Nothing it has started outlives it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.aclose()


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_cut(value: str) -> bool:
    return len(value) > LONGEST_VALUE // 4 and len(value.encode("utf-8", "replace")) > LONGEST_VALUE


def _safe(value: str) -> str:
    """The value in a form that the kernel takes: without NUL, and not too long."""
    return value.replace("\0", "").encode("utf-8", "replace")[:LONGEST_VALUE].decode("utf-8", "ignore")
