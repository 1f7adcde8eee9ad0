"""Steps of a turn that learn: a skill that fits is hinted, the same one is credited, requests are counted.

None of it ends a turn: what fails is logged and counted, and the turn goes on as if nothing were learnt.
"""

import logging
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from agent.core.learning_events import CorrectionHeard, LearningFailed
from agent.memory.records import Kept
from agent.skills.bandit import Outcome
from agent.skills.feedback import heard, kept_as
from agent.skills.matching import called_in, hintable, without_call
from agent.skills.outcomes import Use, outcome_of
from agent.skills.parsing import slug
from agent.skills.router import Pick
from agent.skills.showing import LOAD
from agent.storage.errors import StorageError
from agent.turn.prompt import shown_name, with_skill, words_of
from agent.turn.requests import may_load
from agent.turn.run import Executed, Run
from agent.turn.skills import count_skills, skill_scores
from agent.turn.states import States

log = logging.getLogger("tieline.turn")


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
    """What the turn's end says: of the skill that was hinted, of requests like this one, of the answer before."""
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
    """What became of the hint, as far as it can be seen."""
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
    """What the person's last message but this one said, as far as the window has it."""
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
