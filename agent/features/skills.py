"""Skills in a turn: taken between turns, chosen by its words, called up by people or the model, learnt from (Z-10)."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial

import anyio
import anyio.to_thread
from sqlalchemy.exc import SQLAlchemyError

from agent.core.errors import AgentError, ToolError
from agent.core.events import CorrectionHeard, EventBus, LearningFailed, SkillsReloaded
from agent.core.ids import ConversationId, SessionId
from agent.core.messages import Message
from agent.definitions import allows
from agent.memory.lexicon import is_about_something
from agent.memory.memory import Memory
from agent.memory.records import Kept
from agent.run.features import Additions, Feature
from agent.run.guards import ceiling
from agent.run.messages import shown_name, with_skill
from agent.run.run import Executed, Run, StagedChanges
from agent.run.settings import Settings
from agent.sessions.store import words_of
from agent.skills.bandit import Outcome, Use, outcome_of
from agent.skills.catalogue import LEAST_ROOM, LOAD, NOTHING, Catalogue, Snapshot, fitting, listing, whole
from agent.skills.hints import Pick
from agent.skills.learning import Learning
from agent.skills.matching import best_of, called_in, hintable, without_call
from agent.skills.signals import heard, kept_as
from agent.skills.skill import Skill, slug
from agent.storage.errors import StorageError

ALWAYS_AT_HAND = frozenset({"read_output"})  # what a tool's own result may need
OF_FILES = frozenset({"read", "list"})  # what the files beside a skill's text need

log = logging.getLogger("tieline.turn")


NONE_LISTED = Additions()
TO_LOAD = frozenset({LOAD})


@dataclass(slots=True)
class SkillTurn:
    """Skills in one run: the hinted one, until the turn's end takes it (W-07); those that fit its words.

    `scores` say how well each fits its words (0..1), None: nobody has looked; `near` are surely near them in meaning.
    `text` is what the prompt shows of those that fit, `whole` names those whose whole text stands there.
    """

    run: Run | None = None
    pick: Pick | None = None
    scores: dict[str, float] | None = None
    near: dict[str, float] = field(default_factory=dict)
    text: str = ""
    whole: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True, eq=False)
class SkillState(Feature):
    """The catalogue that all agents share, and what of it counts since the turn before began (Z-21).

    `listed` is how the prompt lists them, made for the snapshot and length in `listed_for`. `memory_off`: whether
    people want nothing kept, None where nobody knows. `messages` are those of the window, `context_window` is that of
    the provider of now. `put_in_place` sets what a skill sets for programs, from the next turn on.
    """

    conversation: ConversationId
    catalogue: Catalogue
    learning: Learning
    memory: Memory
    memory_off: Callable[[], bool | None]
    messages: Callable[[], Sequence[Message]]
    context_window: Callable[[], int]
    put_in_place: Callable[[Skill], None]
    bus: EventBus
    snapshot: Snapshot = NOTHING
    snapshot_of: tuple[Snapshot, tuple[tuple[str, ...], ...]] = (NOTHING, ())  # what it was narrowed from, and to
    listed: str = ""
    listed_for: tuple[Snapshot, int] | None = None
    turn: SkillTurn = field(default_factory=SkillTurn)

    def renew(self, settings: Settings) -> bool:
        """Take over reloaded skills, never within a turn (Z-21)."""
        source = self.catalogue.snapshot if settings.skills.enabled else NOTHING
        made_for = (source, settings.place.skills)
        if source is self.snapshot_of[0] and settings.place.skills == self.snapshot_of[1]:
            return True
        fresh = self.snapshot = source.narrowed(settings.place.skills)
        self.snapshot_of = made_for
        waiting = sum(entry.standing == "quarantined" for entry in fresh.entries.values())
        reloaded = SkillsReloaded(conversation=self.conversation, usable=len(fresh.usable), waiting=waiting)
        self.bus.publish(reloaded)
        return True

    async def begun(self, run: Run) -> None:
        """Hint a skill that fits, out of those that the model may use now; where nobody has just written, none."""
        await self._count()
        if run.work.kind != "message":
            return
        learning, conversation, person = self.learning, self.conversation, run.work.incoming.person
        words = run.words
        learning.hear(conversation, person, words)
        snapshot, called = self.snapshot, called_in(words)
        if not snapshot.offered or not may_load(run):
            return
        fits: dict[str, float]
        candidates: Sequence[str]
        called_up = snapshot.find(called) if called is not None else None
        if called_up is not None:
            # One for people only gets no hint, and no other one is hinted beside it.
            fits, candidates = {}, (called_up.name,) if called_up.invocable_by_model else ()
        else:
            fits = self._scores(run)
            candidates = hintable(fits, run.settings.skills)
        turn = self._turn(run)
        turn.pick = await learning.pick(
            candidates,
            words,
            conversation=conversation,
            run=run.id,
            fresh=run.fresh and not run.resumed,
            work=f"{conversation}:{run.work.inbox_id}",
            fits=fits,
            person=person,
        )
        if turn.pick is not None:
            run.reminder = with_skill(run.reminder, turn.pick.name)

    async def context(self, run: Run) -> None:
        """Where words tell nothing and vectors exist: which skills are near in meaning. Bounded; never raises."""
        vectors, snapshot, words = self.memory.vectors, self.snapshot, run.words
        settings, timeout_s = run.settings.skills, run.settings.memory.recall.timeout_s
        if vectors is None or not snapshot.offered or not settings.max_active or not is_about_something(words):
            return
        if called_in(words) is not None or not await vectors.is_on():
            return
        if best_of(snapshot.index, self._scores(run), settings):
            return
        texts = {skill.name: f"{skill.summary}. {skill.when_to_use}" for skill in snapshot.offered}
        with anyio.move_on_after(timeout_s):
            try:
                self._turn(run).near = await vectors.surely_near(words, texts, attribution=run.attribution())
            except (AgentError, StorageError, SQLAlchemyError) as error:
                log.warning("skills are looked for by words alone: %s", error, extra={"run": run.id})

    def before_call(self, run: Run, tokens: int) -> bool:
        """Put the skills that fit the run's words into its prompt; whether there are any. `tokens` are used already.

        What they set for programs holds for the rest of the turn; what hooks have set stands above it.
        """
        snapshot = self.snapshot
        if not snapshot.usable:
            return False
        turn, name = self._turn(run), called_in(run.words)
        called = snapshot.find(name) if name else None
        if called is not None and not _may_be_called(called, run):
            called = None
        readable = {skill.name: skill.folder for skill in (*snapshot.offered, *filter(None, (called,))) if skill.files}
        run.execution = replace(run.execution, skills=readable)
        if called is not None:
            found: tuple[Skill, ...] = (called,)
        else:
            scores = self._scores(run)
            if turn.near:
                nearest = {name: max(score, scores.get(name, 0.0)) for name, score in turn.near.items()}
                scores = {**scores, **nearest}
            found = best_of(snapshot.index, scores, run.settings.skills)
        if not found:
            return False
        log.info("skills for this turn: %s", ", ".join(skill.name for skill in found), extra={"run": run.id})
        compact = called is None and self._is_tight(run.settings, tokens) and may_load(run)
        turn.text = fitting(found, compact=compact)
        if called is not None and called.tools is not None:
            run.calls.within = frozenset(called.tools) | ALWAYS_AT_HAND | (OF_FILES if called.files else frozenset())
        if not compact:
            turn.whole = frozenset(skill.name for skill in found)
            _activate(run, found)
        return True

    def prompt(self, run: Run) -> Additions:
        """All skills by name, for who may call them up, the same string until the catalogue changes; what fits now."""
        if not self.snapshot.usable:
            return NONE_LISTED
        if not self.snapshot.offered or not may_load(run):
            return Additions(fitting=self._turn(run).text)
        most = run.settings.skills.list_chars
        if self.listed_for is None or self.listed_for[0] is not self.snapshot or self.listed_for[1] != most:
            text = listing(self.snapshot.offered, most)
            self.listed, self.listed_for = f"\n\n{text}" if text else "", (self.snapshot, most)
        return Additions(listed=self.listed, fitting=self._turn(run).text)

    def hides(self, run: Run) -> frozenset[str]:
        """There is nothing to load where no skill is offered."""
        return frozenset() if self.snapshot.offered else TO_LOAD

    def changed(self, staged: StagedChanges, session: SessionId | None) -> None:
        """Count an answer that people took back as a failure of its skill."""
        if staged.taken_back:
            self.learning.take_back(self.conversation, staged.taken_back)

    async def ended(self, run: Run, executed: Executed) -> None:
        """Learn from the turn's end: about the skill that was hinted, requests like this one, the answer before."""
        learning, conversation = self.learning, self.conversation
        outcome = _outcome(executed, run)
        turn, self.turn = self._turn(run), SkillTurn()
        if turn.pick is not None:
            learning.credit(turn.pick, outcome, conversation, _use_of(turn.pick, run, turn.whole))
        if run.work.kind != "message" or not run.opened or self.memory_off() is not False:
            return  # where people want nothing kept, or nobody knows, nothing of theirs is quoted either
        if run.settings.skills.enabled:
            incoming = run.work.incoming
            learning.observe(conversation, without_call(incoming.text), outcome, _used(run), person=incoming.person)
        if learning.settings.feedback:
            await self._keep_correction(run)

    def loader(self, run: Run) -> Callable[[str], str] | None:
        """Gives the run's model the text of a skill; None where there is none."""
        return partial(self._load, run) if self.snapshot.offered else None

    def _load(self, run: Run, name: str) -> str:
        """The text of a skill for the model. Raises ToolError for one that there is not, or that is not for it."""
        snapshot = self.snapshot
        skill = snapshot.find(slug(name))
        if skill is None or not skill.invocable_by_model:
            names = [one.name for one in snapshot.offered]
            near = get_close_matches(slug(name), names, n=3) or names[:20]
            raise ToolError(f"there is no skill {name!r}; there is: {', '.join(near)}")
        _have_at_hand(run, (skill,))
        self.put_in_place(skill)
        later = [name for name, value in skill.env if run.execution.env.get(name) != value]
        note = f"\n\nWhat it sets for programs counts from the next message on: {', '.join(later)}." if later else ""
        return f"Skill {skill.name}, words of the gateway:\n\n{whole(skill)}{note}"

    async def _count(self) -> None:
        """Have the skills' words counted, once for each set of skills and in a thread: it takes some milliseconds."""
        index = self.snapshot.index
        if index.skills and not index.is_warm:
            await anyio.to_thread.run_sync(index.warm)

    def _turn(self, run: Run) -> SkillTurn:
        if self.turn.run is not run:
            self.turn = SkillTurn(run)
        return self.turn

    def _scores(self, run: Run) -> dict[str, float]:
        """The scores of skills for the run's words (0..1), by words alone, by name. They are compared once a run."""
        turn = self._turn(run)
        if turn.scores is None:
            turn.scores = self.snapshot.index.scores(without_call(run.words))
        return turn.scores

    def _is_tight(self, settings: Settings, tokens: int) -> bool:
        match settings.skills.prompt_mode:
            case "full":
                return False
            case "compact":
                return True
            case "auto":
                return ceiling(self.context_window(), settings.context) - tokens < LEAST_ROOM

    def _asked_before(self, run: Run) -> str:
        """The person's message before the last one, as far as the window has it."""
        own = {id(message.parts) for message in run.messages}
        for message in reversed(self.messages()):
            if message.role == "user" and not message.tool_results and id(message.parts) not in own:
                return words_of(message)
        return ""

    async def _keep_correction(self, run: Run) -> None:
        """Keep it as a fact, which people see, change and forget like any other; nothing where the memory is off."""
        words = run.work.incoming.text
        signal = heard(words, self.learning.settings.feedback_threshold)
        if signal is None:
            return
        event = CorrectionHeard(
            conversation=self.conversation, run=run.id, kind=signal.kind, confidence=signal.confidence
        )
        self.bus.publish(event)
        if run.memory.scope is None:
            return
        incoming = run.work.incoming
        correction = Kept(
            kind="fact",
            text=kept_as(words, self._asked_before(run)),
            source="chat",
            person=incoming.person,
            speaker=shown_name(incoming),
            confidence=signal.confidence,
            session=run.session,
            inbox_id=run.work.inbox_id,
        )
        try:
            await self.memory.remember(run.memory.scope, correction)
        except (StorageError, SQLAlchemyError) as error:
            reason = str(error).partition("\n")[0]
            log.warning("a correction is not kept: %s", reason, extra={"run": run.id})
            self.bus.publish(LearningFailed(conversation=self.conversation, run=run.id, step="correction"))


def may_load(run: Run) -> bool:
    """Whether the model has a way to a skill's text."""
    return run.definition.tools is None or allows(run.definition.tools, LOAD)


def _may_be_called(skill: Skill, run: Run) -> bool:
    """Whether these words may call a skill: a message is a person's, a schedule's words may be the model's."""
    return skill.user_invocable and (run.work.kind == "message" or skill.invocable_by_model)


def _activate(run: Run, skills: Sequence[Skill]) -> None:
    """Put their settings for programs in force, and make their files readable by the paths that their texts name."""
    _have_at_hand(run, skills)
    env = {name: value for skill in skills for name, value in skill.env}
    if env:
        run.execution = replace(run.execution, env={**env, **run.execution.env})


def _have_at_hand(run: Run, skills: Sequence[Skill]) -> None:
    """Their files are found by the paths that their texts name."""
    named = dict.fromkeys((*(skill.name for skill in skills if skill.files), *run.execution.at_hand))
    run.execution = replace(run.execution, at_hand=tuple(named))


def _outcome(executed: Executed, run: Run) -> Outcome:
    declined = executed.notice is not None and executed.notice.phrase == "model_declined"
    return outcome_of(executed.verdict, stopped=run.token.fired, preempted=run.ending.preempted, declined=declined)


def _use_of(pick: Pick, run: Run, shown_whole: frozenset[str]) -> Use:
    """The use of the hint, as far as it can be seen."""
    gave = {result.tool_use_id for message in run.messages for result in message.tool_results if not result.is_error}
    uses = (use for message in run.messages for use in message.tool_uses if use.name == LOAD and use.id in gave)
    loaded = {slug(str(use.input.get("name", ""))) for use in uses}
    whole = pick.name in shown_whole
    if pick.name in loaded or (whole and pick.value is None):
        return "used"
    return "shown" if whole and not loaded else "unused"


def _used(run: Run) -> tuple[str, ...]:
    """The tools whose calls gave something, in order of first use."""
    gave = {result.tool_use_id for message in run.messages for result in message.tool_results if not result.is_error}
    uses = (use for message in run.messages for use in message.tool_uses)
    return tuple(dict.fromkeys(use.name for use in uses if use.id in gave))
