"""The operator's hooks in a turn: the points at which they run, and what each is told."""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath

import anyio

from agent.between_turns import Jobs
from agent.core.ids import ConversationId, RunId, SessionId
from agent.core.messages import ToolUse
from agent.core.untrusted_text import framed
from agent.run.features import Advice, Feature
from agent.run.run import Executed, Run, StagedChanges
from agent.run.settings import Settings
from agent.tools.approvals import canonical
from agent.tools.executor import Outcome
from agent.tools.hooks import NOTHING, Fired, Hooks
from agent.tools.settings import HookPoint

DEBOUNCE_S = 0.2  # several changes of one file are one
_ASSIGNMENT = re.compile(r"(?m)^([A-Za-z_][A-Za-z0-9_]{0,63})=([^\n]{0,4096})$")


@dataclass(slots=True, kw_only=True, eq=False)
class HookFeature(Feature):
    """Runs them for one conversation. `hooks` are those of the turn; `set_environment` sets variables of its programs.

    `worked_in` is the folder of the turn before; `changes` counts the changes of a file that are not told yet.
    """

    conversation: ConversationId
    hooks: Hooks
    jobs: Jobs
    set_environment: Callable[[Mapping[str, str]], None]
    worked_in: Path | None = None
    changes: dict[str, int] = field(default_factory=dict)

    def renew(self, settings: Settings) -> bool:
        """Take those that are configured now; with none of them no turn asks."""
        self.hooks = self.hooks.renewed()
        return self.hooks.any

    async def ingested(self, run: Run) -> None:
        """`session_start`, once a session, and `cwd_changed`: lines NAME=value set the environment (Z-111, Z-112)."""
        if run.fresh and not run.resumed:
            self._take_environment(await self._fire("session_start", run))
        if self.worked_in is not None and self.worked_in != run.execution.cwd:
            self._take_environment(await self._fire("cwd_changed", run, {"cwd_before": str(self.worked_in)}))
        self.worked_in = run.execution.cwd

    async def before_step(self, run: Run) -> Advice:
        """`on_turn_start`: may end the run, and adds words to the step's requests."""
        fired = await self._fire("on_turn_start", run)
        return Advice(blocked=fired.blocked, context=_context_of(fired))

    async def before_request(self, run: Run, facts: Callable[[], Mapping[str, str]]) -> str:
        """`pre_prompt`: words on the request as it is assembled (W-40), once for a step and not for each repeat."""
        if not self.hooks.wants("pre_prompt"):
            return ""
        return _context_of(await self._fire("pre_prompt", run, facts()))

    async def before_tool(self, run: Run, use: ToolUse) -> str:
        """`pre_tool_use`: may forbid the call."""
        if not self.hooks.wants("pre_tool_use"):
            return ""
        return (await self._fire("pre_tool_use", run, _of_call(use), tool=use.name)).blocked

    def denied(self, run: Run, use: ToolUse, outcome: Outcome) -> None:
        """`permission_denied`."""
        self._fire_soon("permission_denied", run, _of_call(use, outcome), tool=use.name)

    def after_tool(self, run: Run, use: ToolUse, outcome: Outcome, *, wrote: str = "") -> None:
        """`post_tool_use`, and `file_changed` once for several changes of a file in quick succession."""
        self._fire_soon("post_tool_use", run, _of_call(use, outcome), tool=use.name)
        if wrote and self.hooks.wants("file_changed"):
            self.changes[wrote] = number = self.changes.get(wrote, 0) + 1
            self.jobs.start(partial(self._file_changed, wrote, number, self._about(run)))

    async def _file_changed(self, path: str, number: int, told: Mapping[str, str]) -> None:
        await anyio.sleep(DEBOUNCE_S)
        if self.changes.get(path) == number:
            del self.changes[path]
            await self.hooks.fire("file_changed", told, file=PurePath(path).name)

    def subagent(self, run: Run, agent: str, *, begins: bool) -> None:
        """`subagent_start` and `subagent_stop`."""
        self._fire_soon("subagent_start" if begins else "subagent_stop", run, {"agent": agent})

    async def before_compaction(self, stage: str, run: RunId | None) -> None:
        """`pre_compact`; nothing a hook says keeps the window from being compacted (W-26)."""
        if self.hooks.wants("pre_compact"):
            told = {"conversation": self.conversation, "run": run or "", "stage": stage, "rung": stage}
            await self.hooks.fire("pre_compact", told)

    async def closing(self, run: Run, executed: Executed) -> None:
        """`stop`, which a stop of the run does not cut short."""
        await self._fire("stop", run, {"verdict": executed.verdict})

    def left_alone(self, run: Run, executed: Executed) -> None:
        """`turn_end`."""
        self._fire_soon("turn_end", run, {"verdict": executed.verdict})

    def changed(self, staged: StagedChanges, session: SessionId | None) -> None:
        """`session_end`, where a session was left for another one: it runs beside that."""
        left = staged.switch_session and session != staged.session
        if left and session is not None and self.hooks.wants("session_end"):
            self.jobs.start(partial(self._session_ends, session, "left"))

    async def resting(self, session: SessionId) -> None:
        """`session_end`, for an idle conversation: hooks may tidy up after the session, of which nothing is lost."""
        self.hooks = self.hooks.renewed()
        await self._session_ends(session, "idle")

    async def _session_ends(self, session: SessionId, why: str) -> None:
        await self.hooks.fire("session_end", {"conversation": self.conversation, "session": session, "why": why})

    async def _fire(
        self, point: HookPoint, run: Run, values: Mapping[str, str] | None = None, *, tool: str = ""
    ) -> Fired:
        """Run the hooks of that point and wait. A stop of the run ends the wait, but for that point itself."""
        if not self.hooks.wants(point):
            return NOTHING
        told = {**self._about(run), **(values or {})}
        with nullcontext() if point == "stop" else run.interrupts.scope():
            return await self.hooks.fire(point, told, tool=tool)
        return NOTHING  # the stop has ended the wait

    def _fire_soon(self, point: HookPoint, run: Run, values: Mapping[str, str], *, tool: str = "") -> None:
        """The same, beside everything else: for points at which nothing waits."""
        if self.hooks.wants(point):
            told = {**self._about(run), **values}

            async def job() -> None:
                await self.hooks.fire(point, told, tool=tool)

            self.jobs.start(job)

    def _about(self, run: Run) -> dict[str, str]:
        return {
            "conversation": self.conversation,
            "session": run.session,
            "run": run.id,
            "person": run.work.incoming.person or "",
            "cwd": str(run.execution.cwd),
            "workspace": str(run.execution.workspace),
        }

    def _take_environment(self, fired: Fired) -> None:
        self.set_environment(
            {name: value for words in fired.output.values() for name, value in _ASSIGNMENT.findall(words)}
        )


def _of_call(use: ToolUse, outcome: Outcome | None = None) -> dict[str, str]:
    """The facts of a call for a hook."""
    told = {"tool_input": canonical(use.input), "tool_call": use.id}
    if outcome is not None and outcome.content:
        told |= {"tool_result": outcome.content, "tool_failed": "1" if outcome.is_error else "0"}
    return told


def _context_of(fired: Fired) -> str:
    """Words of hooks, as the model may read them: framed, for a hook may repeat what strangers wrote."""
    return "\n".join(framed(words.strip(), f"hook {name}") for name, words in fired.output.items())
