"""One agent: the outer loop of one conversation. It knows no platform and is never copied."""

import logging
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from agent.built_ins import BuiltIns, CommandResult
from agent.compaction.state import settle, writing_of
from agent.core.errors import AgentInvalid, AgentMissing
from agent.core.failpoints import failpoint
from agent.core.outbox import OutgoingMessage
from agent.definitions import Definition
from agent.features.goals import GoalState
from agent.features.memory import MemoryState
from agent.features.plans import PlanFeature
from agent.features.skills import SkillState
from agent.goal_work import Autonomy
from agent.goals.goal import Reason
from agent.inbox import Source, Work
from agent.operations import Operations
from agent.plan_work import Planning
from agent.run.run import StagedChanges
from agent.sessions import runs
from agent.storage import inbox_rows, outbox_rows
from agent.storage.database import check_epoch
from agent.storage.errors import StorageTrouble
from agent.storage.inbox_rows import InboxStatus
from agent.storage.timestamps import to_timestamp
from agent.turn.commit import settle_staged, write_staged
from agent.turn.context_budget import write_window
from agent.turn.intake import open_early
from agent.turn.pipeline import turn
from agent.turn.states import (
    ContextState,
    InstructionState,
    LifecycleState,
    MessageState,
    MetricsState,
    ProviderState,
    RuntimeState,
    SessionState,
    ToolState,
)

log = logging.getLogger("tieline.agent")


@dataclass(slots=True, kw_only=True)
class CommandState:
    """The commands, their rights here, and the agent's own work without a person."""

    built_ins: BuiltIns
    plans: PlanFeature
    operations: Operations = field(init=False)
    autonomy: Autonomy = field(init=False)
    planning: Planning = field(init=False)


@dataclass(slots=True, kw_only=True, eq=False)
class Agent:
    """The single execution context of a conversation (Z-01); made by `agent.assembly`."""

    message: MessageState
    context: ContextState
    session: SessionState
    instruction: InstructionState
    provider: ProviderState
    tool: ToolState
    memory: MemoryState
    skill: SkillState
    runtime: RuntimeState
    lifecycle: LifecycleState
    goal: GoalState
    metrics: MetricsState
    command: CommandState

    def __post_init__(self) -> None:
        self.command.operations = Operations(self, self.goal, self.memory)
        self.command.autonomy = Autonomy(self, self.goal)
        self.command.planning = Planning(self, self.goal, self.command.plans)

    @property
    def operations(self) -> Operations:
        """Operations on the agent from beside its loop."""
        return self.command.operations

    async def run(self, source: Source) -> None:
        """Do the work of the source, piece by piece, until it ends or the agent must not go on.

        Raises Fenced: drop the agent. Raises StorageTrouble: the piece is still in the inbox and the person was told.
        """
        source.opens_with(self._open)
        self.lifecycle.source = source
        async for work in source:
            self._take_reloads()
            try:
                with self.provider.slot.turn():
                    goes_on = await self._do(work)
                if not goes_on:
                    return
            except StorageTrouble:
                self.runtime.outbox.status(self.runtime.services.phrases("unsaved", work.incoming.language))
                raise

    def close(self) -> None:
        """It goes to sleep: its work between turns ends, everything else is stored."""
        self.context.jobs.close()

    async def rest(self) -> None:
        """It was left alone for long and is about to go to sleep: features may tidy up after the session."""
        if self.session.id is not None:
            for resting in self.runtime.features.resting:
                await resting(self.session.id)

    def stop(self, reason: str) -> bool:
        """End the run that goes on now, if any: its waits at once, itself within the grace time.

        With `agent.run.run.SHUTDOWN` as the reason it is left unfinished, and resumed by the next owner.
        """
        return self.lifecycle.stop(reason, self.runtime.services.clock.now())

    def give_way(self) -> None:
        """A person has written: a turn of a goal's own ends after the step it is at, a plan begins no further task.

        Others are not touched.
        """
        self.lifecycle.preemptible = self.lifecycle.goal is not None
        self.command.planning.give_way()

    def _open(self, conn: Connection, work: Work) -> object:
        """The start of the run that the work surely leads to; None where that must be seen first."""
        by_itself = work.incoming.wake_up is not None or work.incoming.plan is not None
        seen_first = work.attempt > 1 or by_itself  # a goal or a plan may have been put down meanwhile
        if seen_first or self.instruction.definition is None or self.command.built_ins.concerns(work):
            return None
        return open_early(conn, work, self)

    def _take_reloads(self) -> None:
        """Take over changes of files and configuration, from here on and never within a turn (Z-21)."""
        runtime = self.runtime
        runtime.settings = runtime.current_settings()
        runtime.memory = self.memory.memory = self.skill.memory = runtime.memory.renewed()
        self.provider.policy = self.provider.models.policy
        instruction = self.instruction
        if instruction.definition is not None:
            instruction.definition = instruction.definitions.reloaded(instruction.definition, instruction.name)
        runtime.features.renew(runtime.settings)
        forgotten = self.runtime.memory.forgotten.words(self.session.conversation)
        if forgotten != self.message.forgotten:
            self.message.forgotten = forgotten
            self.operations.memory_changed()

    async def _do(self, work: Work) -> bool:
        """One piece of work; False when no other may follow."""
        staged, autonomy = StagedChanges(), self.command.autonomy
        if work.incoming.wake_up is not None:
            taken = await autonomy.take(work)
            if taken is None:
                return True
            work = taken
        if work.incoming.plan is not None:
            executed = await self.command.planning.take(work, self._definition)
            if executed is not None:
                await autonomy.after_turn(work)
            return executed is None or executed.verdict != "suspended"
        if work.kind == "message" and not await self._was_begun(work):
            result = await self._command(work)
            if result is not None:
                staged = self.operations.take_staged()
                if result.go_on_with is None:
                    await self._commit(work, result.says, ends="done", staged=staged)
                    await self.runtime.outbox.end()  # no turn follows that would take "waiting" off the screen
                    await autonomy.after_turn(work)
                    return not result.end
                await self._commit(work, result.says)
                work = _going_on(work, result)
        try:
            definition = self._definition()
        except (AgentMissing, AgentInvalid, OSError) as error:  # B-09, B-10: no run
            log.error("no run without an agent definition: %s", error, extra={"inbox": work.inbox_id})  # noqa: TRY400
            if work.incoming.wake_up is not None:
                await autonomy.give_up(work, Reason(key="agent_broken", values={"agent": self.instruction.name}))
                return True
            notice = self._notice(work, "agent_broken", agent=self.instruction.name)
            await self._commit(work, (notice,), ends="refused")
            return True
        executed = await turn(work, definition, self, staged)
        await autonomy.after_turn(work)
        return executed.verdict != "suspended"

    async def _was_begun(self, work: Work) -> bool:
        """Whether a crash cut off a turn of this work: then a command in it has been run already."""
        if work.attempt <= 1:
            return False
        return await self.runtime.services.database.read(lambda conn: runs.find_run(conn, work.inbox_id)) is not None

    async def _command(self, work: Work) -> CommandResult | None:
        self.lifecycle.language = work.incoming.language
        self.operations.window.work = work
        try:
            return await self.command.built_ins.run(work, self.operations)
        except StorageTrouble:
            raise
        except Exception:  # the same seam as the turn's: a broken command ends in a sentence
            place = {"inbox": work.inbox_id, "conversation": self.session.conversation}
            log.exception("command broke: %s", work.incoming.text.split(maxsplit=1)[:1], extra=place)
            self.operations.take_staged()
            return CommandResult(says=(self._notice(work, "command_failed"),))
        finally:
            self.operations.window.work = None

    def _definition(self) -> Definition:
        instruction = self.instruction
        if instruction.definition is None:
            instruction.definition = instruction.definitions.load(instruction.name)
        return instruction.definition

    def _notice(self, work: Work, phrase: str, **values: object) -> OutgoingMessage:
        incoming = work.incoming
        sentence = self.runtime.services.phrases(phrase, incoming.language, **values)
        sentence = self.runtime.services.phrases(
            "with_ref", incoming.language, text=sentence, ref=f"in-{work.inbox_id}"
        )
        return OutgoingMessage(
            text=sentence, kind="notice", answers=incoming.message_ref, interaction=incoming.interaction, verbatim=True
        )

    async def _commit(
        self,
        work: Work,
        says: tuple[OutgoingMessage, ...],
        *,
        ends: InboxStatus | None = None,
        staged: StagedChanges = StagedChanges(),  # noqa: B008 - frozen
    ) -> None:
        """Write what is said without a turn, what a command changed, how the inbox row ends (None: a turn follows)."""
        if not says and ends is None:
            return
        conversation, at = self.session.conversation, to_timestamp(self.runtime.services.clock.now())
        step = writing_of(self.message.compaction) if self.session.id is not None else None

        def commit(conn: Connection) -> list[int] | None:
            check_epoch(conn, conversation, work.epoch)
            placed = write_window(conn, step, self) if step is not None else []
            write_staged(conn, staged, self, at)
            outbox_rows.add_parts(
                conn, says, conversation=conversation, inbox_id=work.inbox_id, dedup=f"command:{work.inbox_id}", at=at
            )
            if ends is not None:
                inbox_rows.finish(conn, work.inbox_ids, ends, work.epoch)
            take_first(conn)
            failpoint("commit.within")
            return placed

        failpoint("commit.before")
        with self.runtime.outbox.committing() as take_first:
            written = await self.runtime.services.database.write(commit)
            failpoint("commit.after")
        if written is None:  # words of it were forgotten meanwhile
            self.message.forget()
        elif step is not None:
            settle(self.message.compaction, step, written)
        settle_staged(staged, self)


def _going_on(work: Work, result: CommandResult) -> Work:
    """The work with a command's words in place of the command."""
    assert result.go_on_with is not None
    quotation = result.go_on_quoted
    incoming = replace(
        work.incoming,
        text=result.go_on_with,
        files=result.go_on_files,
        quoted=quotation.text if quotation is not None else None,
        quoted_from=quotation.writer if quotation is not None else "",
        brought=result.go_on_brought,
    )
    return replace(work, incoming=incoming, by_hand=result.go_on_call)
