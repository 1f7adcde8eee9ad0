"""Skills in a turn: taken between turns, chosen by its words, called up by people or the model (Z-10), learnt from."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

import anyio
import anyio.to_thread
from sqlalchemy.exc import SQLAlchemyError

from agent.core.errors import AgentError, ToolError
from agent.core.events import CorrectionHeard, LearningFailed, SkillsReloaded
from agent.memory.lexicon import is_about_something
from agent.memory.records import Kept
from agent.run.context_limits import ceiling
from agent.run.messages import shown_name, with_skill, words_of
from agent.run.run import Executed, Run
from agent.run.settings import Settings
from agent.skills.bandit import Outcome, Use, outcome_of
from agent.skills.catalogue import LEAST_ROOM, LOAD, NOTHING, fitting, whole
from agent.skills.hints import Pick
from agent.skills.matching import best_of, called_in, hintable, without_call
from agent.skills.signals import heard, kept_as
from agent.skills.skill import Skill, slug
from agent.storage.errors import StorageError
from agent.turn.requests import may_load
from agent.turn.states import States

ALWAYS_AT_HAND = frozenset({"read_output"})  # what a tool's own result may need
OF_FILES = frozenset({"read", "list"})  # what the files beside a skill's text need

log = logging.getLogger("tieline.turn")


def take_skills(states: States) -> None:
    """Take over reloaded skills, never within a turn (Z-21)."""
    state, runtime = states.skill, states.runtime
    fresh = state.catalogue.snapshot if runtime.settings.skills.enabled else NOTHING
    if fresh is state.snapshot:
        return
    state.snapshot = fresh
    waiting = sum(entry.standing == "quarantined" for entry in fresh.entries.values())
    reloaded = SkillsReloaded(conversation=states.session.conversation, usable=len(fresh.usable), waiting=waiting)
    runtime.bus.publish(reloaded)


async def count_skills(states: States) -> None:
    """Have the skills' words counted, once for each set of skills and in a thread: it takes some milliseconds."""
    index = states.skill.snapshot.index
    if index.skills and not index.is_warm:
        await anyio.to_thread.run_sync(index.warm)


async def find_meanings(run: Run, states: States) -> None:
    """Where words tell nothing and vectors exist: which skills are near in meaning. Bounded in time; never raises."""
    snapshot, vectors, words = states.skill.snapshot, states.runtime.memory.vectors, _words(run)
    settings, timeout_s = run.settings.skills, run.settings.memory.recall.timeout_s
    if vectors is None or not snapshot.offered or not settings.max_active or not is_about_something(words):
        return
    if called_in(words) is not None:
        return
    if best_of(snapshot.index, skill_scores(run, states), settings):
        return
    texts = {skill.name: f"{skill.summary}. {skill.when_to_use}" for skill in snapshot.offered}
    with anyio.move_on_after(timeout_s):
        try:
            run.meanings = await vectors.surely_near(words, texts, attribution=run.attribution())
        except (AgentError, StorageError, SQLAlchemyError) as error:
            log.warning("skills are looked for by words alone: %s", error, extra={"run": run.id})


def choose_skills(run: Run, states: States, tokens: int) -> bool:
    """Put the skills that fit the run's words into its prompt; whether there are any. `tokens` are used already.

    What they set for programs holds for the rest of the turn; what hooks have set stands above it.
    """
    snapshot = states.skill.snapshot
    if not snapshot.usable:
        return False
    words = _words(run)
    called = snapshot.find(called_in(words) or "")
    if called is not None and not _may_be_called(called, run):
        called = None
    readable = {skill.name: skill.folder for skill in (*snapshot.offered, *filter(None, (called,))) if skill.files}
    run.execution = replace(run.execution, skills=readable)
    if called is not None:
        found: tuple[Skill, ...] = (called,)
    else:
        scores = skill_scores(run, states)
        if run.meanings:
            nearest = {name: max(score, scores.get(name, 0.0)) for name, score in run.meanings.items()}
            scores = {**scores, **nearest}
        found = best_of(snapshot.index, scores, run.settings.skills)
    if not found:
        return False
    log.info("skills for this turn: %s", ", ".join(skill.name for skill in found), extra={"run": run.id})
    compact = called is None and _is_tight(run.settings, states, tokens) and may_load(run, states)
    run.skills = fitting(found, compact=compact)
    if called is not None and called.tools is not None:
        run.within = frozenset(called.tools) | ALWAYS_AT_HAND | (OF_FILES if called.files else frozenset())
    if not compact:
        run.skills_whole = frozenset(skill.name for skill in found)
        _activate(run, found)
    return True


def skill_scores(run: Run, states: States) -> dict[str, float]:
    """The scores of skills for the run's words (0..1), by words alone, by name. They are compared once a run."""
    if run.skill_scores is None:
        run.skill_scores = states.skill.snapshot.index.scores(without_call(_words(run)))
    return run.skill_scores


def load_skill(run: Run, states: States, name: str) -> str:
    """The text of a skill for the model. Raises ToolError for one that there is not, or that is not for it."""
    snapshot = states.skill.snapshot
    skill = snapshot.find(slug(name))
    if skill is None or not skill.invocable_by_model:
        names = [one.name for one in snapshot.offered]
        near = get_close_matches(slug(name), names, n=3) or names[:20]
        raise ToolError(f"there is no skill {name!r}; there is: {', '.join(near)}")
    _have_at_hand(run, (skill,))
    lifecycle = states.lifecycle
    lifecycle.set_environment({name: value for name, value in skill.env if name not in lifecycle.env})
    later = [name for name, value in skill.env if run.execution.env.get(name) != value]
    note = f"\n\nWhat it sets for programs counts from the next message on: {', '.join(later)}." if later else ""
    return f"Skill {skill.name}, words of the gateway:\n\n{whole(skill)}{note}"


def _may_be_called(skill: Skill, run: Run) -> bool:
    """Whether these words may call a skill: a message is a person's, a schedule's words may be the model's."""
    return skill.user_invocable and (run.work.kind == "message" or skill.invocable_by_model)


def _words(run: Run) -> str:
    return words_of(run.messages[0]) if run.messages else run.work.incoming.text


def _is_tight(settings: Settings, states: States, tokens: int) -> bool:
    match settings.skills.prompt_mode:
        case "full":
            return False
        case "compact":
            return True
        case "auto":
            window = states.provider.slot.current().context_window
            return ceiling(window, settings.context) - tokens < LEAST_ROOM


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


# Learning steps of a turn: hints a skill that fits, credits the same one, counts requests.


async def pick_skill(run: Run, states: States) -> None:
    """Hint a skill that fits, out of those that the model may use now; what nobody has just written gets no hint."""
    await count_skills(states)
    if run.work.kind != "message":
        return
    learning, conversation, person = states.runtime.learning, states.session.conversation, run.work.incoming.person
    words = words_of(run.messages[0]) if run.messages else run.work.incoming.text
    learning.hear(conversation, person, words)
    snapshot, called = states.skill.snapshot, called_in(words)
    if not snapshot.offered or not may_load(run, states):
        return
    fits: dict[str, float]
    candidates: Sequence[str]
    called_up = snapshot.find(called) if called is not None else None
    if called_up is not None:
        # One for people only gets no hint, and no other one is hinted beside it.
        fits, candidates = {}, (called_up.name,) if called_up.invocable_by_model else ()
    else:
        fits = skill_scores(run, states)
        candidates = hintable(fits, run.settings.skills)
    run.pick = await learning.pick(
        candidates,
        words,
        conversation=conversation,
        run=run.id,
        fresh=run.fresh and not run.resumed,
        work=f"{conversation}:{run.work.inbox_id}",
        fits=fits,
        person=person,
    )
    if run.pick is not None:
        run.reminder = with_skill(run.reminder, run.pick.name)


async def learn_from(executed: Executed, run: Run, states: States) -> None:
    """Learn from the turn's end: about the skill that was hinted, requests like this one, the answer before."""
    learning, conversation = states.runtime.learning, states.session.conversation
    outcome = _outcome(executed, run)
    pick, run.pick = run.pick, None
    if pick is not None:
        learning.credit(pick, outcome, conversation, _use_of(pick, run))
    if run.work.kind != "message" or not run.opened or states.memory.off is not False:
        return  # where people want nothing kept, or nobody knows, nothing of theirs is quoted either
    if run.settings.skills.enabled:
        incoming = run.work.incoming
        learning.observe(conversation, without_call(incoming.text), outcome, _used(run), person=incoming.person)
    if learning.settings.feedback:
        await _keep_correction(run, states)


def _outcome(executed: Executed, run: Run) -> Outcome:
    declined = executed.notice is not None and executed.notice.phrase == "model_declined"
    return outcome_of(executed.verdict, stopped=run.token.fired, preempted=run.preempted, declined=declined)


def _use_of(pick: Pick, run: Run) -> Use:
    """The use of the hint, as far as it can be seen."""
    gave = {result.tool_use_id for message in run.messages for result in message.tool_results if not result.is_error}
    uses = (use for message in run.messages for use in message.tool_uses if use.name == LOAD and use.id in gave)
    loaded = {slug(str(use.input.get("name", ""))) for use in uses}
    whole = pick.name in run.skills_whole
    if pick.name in loaded or (whole and pick.value is None):
        return "used"
    return "shown" if whole and not loaded else "unused"


def _used(run: Run) -> tuple[str, ...]:
    """The tools whose calls gave something, in order of first use."""
    gave = {result.tool_use_id for message in run.messages for result in message.tool_results if not result.is_error}
    uses = (use for message in run.messages for use in message.tool_uses)
    return tuple(dict.fromkeys(use.name for use in uses if use.id in gave))


def _asked_before(run: Run, states: States) -> str:
    """The person's message before the last one, as far as the window has it."""
    own = {id(message.parts) for message in run.messages}
    for message in reversed(states.message.window.messages):
        if message.role == "user" and not message.tool_results and id(message.parts) not in own:
            return words_of(message)
    return ""


async def _keep_correction(run: Run, states: States) -> None:
    """Keep it as a fact, which people see, change and forget like any other; nothing where the memory is off."""
    runtime, words = states.runtime, run.work.incoming.text
    signal = heard(words, runtime.learning.settings.feedback_threshold)
    if signal is None:
        return
    conversation = states.session.conversation
    event = CorrectionHeard(conversation=conversation, run=run.id, kind=signal.kind, confidence=signal.confidence)
    runtime.bus.publish(event)
    if run.memory is None:
        return
    incoming = run.work.incoming
    correction = Kept(
        kind="fact",
        text=kept_as(words, _asked_before(run, states)),
        source="chat",
        person=incoming.person,
        speaker=shown_name(incoming),
        confidence=signal.confidence,
        session=run.session,
        inbox_id=run.work.inbox_id,
    )
    try:
        await runtime.memory.remember(run.memory, correction)
    except (StorageError, SQLAlchemyError) as error:
        reason = str(error).partition("\n")[0]
        log.warning("a correction is not kept: %s", reason, extra={"run": run.id})
        runtime.bus.publish(LearningFailed(conversation=conversation, run=run.id, step="correction"))
