"""The operator's hooks in a turn: the moments, and what each hook is told."""

import re
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import PurePath

import anyio

from agent.core.ids import SessionId
from agent.core.messages import ToolUse
from agent.core.untrusted_text import framed
from agent.run.run import Run
from agent.tools.approvals import canonical
from agent.tools.hooks import NOTHING, Fired
from agent.tools.settings import HookPoint
from agent.turn.states import States

DEBOUNCE_S = 0.2  # several changes of one file are one
_ASSIGNMENT = re.compile(r"(?m)^([A-Za-z_][A-Za-z0-9_]{0,63})=([^\n]{0,4096})$")


async def fire(
    point: HookPoint,
    run: Run,
    states: States,
    values: Mapping[str, str] | None = None,
    *,
    tool: str = "",
    file: str = "",
) -> Fired:
    """Run the hooks of that point and wait for them. A stop of the run ends the wait, but for that point itself."""
    hooks = states.runtime.hooks
    if not hooks.wants(point):
        return NOTHING
    told = {**_about(run, states), **(values or {})}
    with nullcontext() if point == "stop" else run.interrupts.scope():
        return await hooks.fire(point, told, tool=tool, file=file)
    return NOTHING  # the stop has ended the wait


def fire_soon(
    point: HookPoint,
    run: Run,
    states: States,
    values: Mapping[str, str] | None = None,
    *,
    tool: str = "",
    file: str = "",
) -> None:
    """The same, beside everything else: for points at which nothing waits."""
    hooks = states.runtime.hooks
    if hooks.wants(point):
        told = {**_about(run, states), **(values or {})}

        async def job() -> None:
            await hooks.fire(point, told, tool=tool, file=file)

        states.context.jobs.start(job)


def of_call(use: ToolUse, result: str = "", *, is_error: bool = False) -> Mapping[str, str]:
    """The facts of a call for a hook."""
    told = {"tool_input": canonical(use.input), "tool_call": use.id}
    if result:
        told |= {"tool_result": result, "tool_failed": "1" if is_error else "0"}
    return told


async def session_begins(run: Run, states: States) -> None:
    """Once a session; lines NAME=value set the environment of its programs (Z-111)."""
    _take_environment(await fire("session_start", run, states), states)


def session_ends_soon(session: SessionId, states: States) -> None:
    """Another one begins in its place; what the hook does goes on beside that."""
    if states.runtime.hooks.wants("session_end"):
        states.context.jobs.start(partial(session_ends, session, "left", states))


async def session_ends(session: SessionId, why: str, states: States) -> None:
    """It was `left` for another, or the conversation is `idle` and goes to sleep; nothing of it is lost."""
    told = {"conversation": states.session.conversation, "session": session, "why": why}
    await states.runtime.hooks.fire("session_end", told)


async def folder_changed(run: Run, states: States) -> None:
    """The working directory is another than in the turn before (Z-112)."""
    lifecycle = states.lifecycle
    if lifecycle.worked_in is not None and lifecycle.worked_in != run.execution.cwd:
        told = {"cwd_before": str(lifecycle.worked_in)}
        _take_environment(await fire("cwd_changed", run, states, told), states)
    lifecycle.worked_in = run.execution.cwd


def file_changed(path: str, run: Run, states: States) -> None:
    """A tool has written that file; told once for several changes in quick succession."""
    if not states.runtime.hooks.wants("file_changed"):
        return
    changes = states.lifecycle.changes
    changes[path] = number = changes.get(path, 0) + 1
    told = {**_about(run, states)}

    async def job() -> None:
        await anyio.sleep(DEBOUNCE_S)
        if changes.get(path) == number:
            del changes[path]
            fire_hooks = partial(states.runtime.hooks.fire, "file_changed", told, file=PurePath(path).name)
            await fire_hooks()

    states.context.jobs.start(job)


async def compaction_begins(stage: str, states: States) -> None:
    """Room is about to be made; nothing a hook says keeps it from that (W-26)."""
    hooks, lifecycle = states.runtime.hooks, states.lifecycle
    if hooks.wants("pre_compact"):
        told = {"conversation": states.session.conversation, "run": lifecycle.run or "", "stage": stage, "rung": stage}
        await hooks.fire("pre_compact", told)


def context_of(fired: Fired) -> str:
    """Words of hooks, as the model may read them: framed, for a hook may repeat what strangers wrote."""
    return "\n".join(framed(words.strip(), f"hook {name}") for name, words in fired.output.items())


def _about(run: Run, states: States) -> dict[str, str]:
    return {
        "conversation": states.session.conversation,
        "session": run.session,
        "run": run.id,
        "person": run.work.incoming.person or "",
        "cwd": str(run.execution.cwd),
        "workspace": str(run.execution.workspace),
    }


def _take_environment(fired: Fired, states: States) -> None:
    set_now = {name: value for words in fired.output.values() for name, value in _ASSIGNMENT.findall(words)}
    states.lifecycle.set_environment(set_now)
