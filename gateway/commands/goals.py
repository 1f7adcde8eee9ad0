"""Goals: /goal sets, pauses, resumes and shows them, /done says that one is reached (SPEC §10.1, §10.2)."""

from collections.abc import Awaitable, Callable

from agent.core.ids import ConversationId
from agent.core.outbox import Button
from agent.goals.service import GoalRefused
from agent.goals.stored import Goal, Owner
from agent.goals.telling import progress, why_of
from agent.goals.ticks import short
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.commands.command import PRESS, Call, Command, Reply, refused
from gateway.commands.goal_buttons import go_on_button, raising, told_limits, told_turns
from gateway.commands.goal_lines import goal_line, work_line
from gateway.commands.goal_words import is_number, read_wanted
from gateway.commands.remind import origin_of


async def goal(call: Call) -> Reply:
    """Without words the goal of this chat; a number shows that one; else by the first word, or a new goal's text."""
    first, _, rest = call.args.partition(" ")
    run = _ACTIONS.get(first.lower())
    try:
        if run is None:
            is_new = call.args and not is_number(read_wanted(call.args).text)
            return await (_create if is_new else _status)(call, call.args)
        return await run(call, rest.strip())
    except GoalRefused as refusal:
        return Reply(text=_said(call, refusal), private=True)


async def done(call: Call) -> Reply:
    """The goal of the session is reached, and the kept one of this chat (Z-92)."""
    phrase, language = call.deps.phrase, call.incoming.language
    conversation = _conversation(call)
    kept = await call.deps.goals.active(conversation)
    text = await call.agent.complete_goal()
    if kept is not None and _may_change(call, kept):
        ended = await call.deps.goals.complete(conversation, kept.id)
        call.deps.hide_live(conversation)
        return Reply(text=phrase("goal_is_completed", language, id=ended.id))
    if text is None:
        return Reply(text=phrase("done_nothing", language), private=True)
    return Reply(text=phrase("done_session", language, goal=short(text)), verbatim=True)


async def aim(call: Call) -> str:
    """What the session is after, which `/done` says is reached where no goal is kept; "" where that is not followed."""
    session = await call.agent.session_goal()
    return session.text if session.state == "active" else ""


async def pause_work(call: Call) -> Goal | None:
    """For /stop: put down the goal that is being worked on by itself here, and end its turn; None: there is none."""
    conversation = _conversation(call)
    active = await call.deps.goals.active(conversation)
    if active is None or not active.is_autonomous:
        return None
    try:
        paused = await call.deps.goals.pause(conversation, active.id)
    except GoalRefused:
        return None  # it has just ended by itself
    _let_go(call, conversation)
    return paused


# --- the words after /goal ---------------------------------------------------------------------------


async def _create(call: Call, words: str) -> Reply:
    phrase, language, conversation = call.deps.phrase, call.incoming.language, _conversation(call)
    wanted = read_wanted(words)
    if wanted.autonomous and call.in_group and call.role < Role.ADMIN:
        return refused(call)
    before = await call.deps.goals.active(conversation)
    if before is not None and not _may_change(call, before):
        raise GoalRefused("goal_not_yours")
    incoming = call.incoming
    owner = Owner(
        person=incoming.person,
        display=incoming.display,
        language=incoming.language,
        role=incoming.role,
        chat_type=incoming.chat_type,
    )
    made = await call.deps.goals.create(
        conversation,
        owner,
        wanted.text,
        wanted.limits,
        autonomous=wanted.autonomous,
        turns=wanted.turns,
        origin=origin_of(call) or f"{conversation}:{to_timestamp(incoming.received_at)}",
    )
    if before is not None and before.is_autonomous:
        _let_go(call, conversation, but=made.id)
    key = "goal_set" if made.auto is None else "goal_set_auto"
    most = told_turns(made.auto.most, phrase, language) if made.auto is not None else ""
    values = {"id": made.id, "goal": short(made.text, 200), "turns": most}
    lines = [phrase(key, language, **values)]
    if limits := told_limits(made.limits, phrase, language):
        lines.append(phrase("goal_limits", language, limits=limits))
    return Reply(text="\n".join(lines), verbatim=True)


async def _status(call: Call, words: str) -> Reply:
    number = read_wanted(words).number
    goals, conversation = call.deps.goals, _conversation(call)
    found = await (goals.find(conversation, number) if number is not None else goals.active(conversation))
    if found is None and number is None:
        found = await _resting(call)
    phrase, language = call.deps.phrase, call.incoming.language
    after = await aim(call) if number is None and (found is None or found.status != "active") else ""
    told = [phrase("goal_session", language, goal=short(after))] if after else []
    if found is None:
        if told:
            return Reply(text=told[0], private=True, verbatim=True)
        raise GoalRefused("goal_none") if number is None else GoalRefused("goal_unknown", id=number)
    lines = [*told, goal_line(call, found), progress(found, phrase, language)]
    if limits := told_limits(found.limits, phrase, language):
        lines.append(phrase("goal_limits", language, limits=limits))
    if found.why is not None:
        lines.append(why_of(found.why, phrase, language))
    if found.auto is not None:
        lines.append(work_line(call, found))
    if found.owner.display:
        lines.append(phrase("goal_by", language, who=found.owner.display))
    return Reply(text="\n".join(lines), buttons=_buttons(call, found), private=True, verbatim=True)


async def _list(call: Call, _: str) -> Reply:
    found = await call.deps.goals.all_of(_conversation(call))
    if not found:
        raise GoalRefused("goal_none")
    lines = [call.deps.phrase("goal_list_title", call.incoming.language), ""]
    return Reply(text="\n".join([*lines, *(goal_line(call, each) for each in found)]), private=True, verbatim=True)


async def _pause(call: Call, words: str) -> Reply:
    return await _change(call, words, call.deps.goals.pause, "goal_is_paused")


async def _complete(call: Call, words: str) -> Reply:
    return await _change(call, words, call.deps.goals.complete, "goal_is_completed")


async def _clear(call: Call, words: str) -> Reply:
    return await _change(call, words, call.deps.goals.clear, "goal_is_cleared")


async def _change(
    call: Call, words: str, change: Callable[[ConversationId, int | None], Awaitable[Goal]], key: str
) -> Reply:
    conversation, number = _conversation(call), read_wanted(words).number
    await _check_right(call, number)
    changed = await change(conversation, number)
    _let_go(call, conversation, but=None if changed.auto is not None else -1)
    return Reply(text=call.deps.phrase(key, call.incoming.language, id=changed.id))


async def _resume(call: Call, words: str) -> Reply:
    conversation, wanted = _conversation(call), read_wanted(words)
    if wanted.autonomous and call.in_group and call.role < Role.ADMIN:
        return refused(call)
    await _check_right(call, wanted.number)
    resumed = await call.deps.goals.resume(
        conversation, wanted.number, limits=wanted.limits, autonomous=wanted.autonomous, turns=wanted.turns
    )
    phrase, language = call.deps.phrase, call.incoming.language
    key = "goal_is_resumed_auto" if wanted.autonomous else "goal_is_resumed"
    turns = told_turns(resumed.auto.most, phrase, language) if resumed.auto is not None else ""
    return Reply(text=phrase(key, language, id=resumed.id, turns=turns))


_ACTIONS: dict[str, Callable[[Call, str], Awaitable[Reply]]] = {
    "create": _create,
    "status": _status,
    "list": _list,
    "pause": _pause,
    "resume": _resume,
    "complete": _complete,
    "clear": _clear,
}


# --- inside ------------------------------------------------------------------------------------------


def _conversation(call: Call) -> ConversationId:
    return ConversationId(str(call.key))


async def _resting(call: Call) -> Goal | None:
    """The newest that is paused."""
    goals = await call.deps.goals.all_of(_conversation(call))
    return next((goal for goal in goals if goal.status == "paused"), None)


def _may_change(call: Call, goal: Goal) -> bool:
    return not call.in_group or call.role >= Role.ADMIN or goal.owner.person == call.incoming.person


async def _check_right(call: Call, number: int | None) -> None:
    goals, conversation = call.deps.goals, _conversation(call)
    if not call.in_group or call.role >= Role.ADMIN:
        return
    if number is not None:
        meant = await goals.find(conversation, number)
    else:
        meant = await goals.active(conversation) or await _resting(call)
        if meant is None:
            raise GoalRefused("goal_none")
    if meant is None or not _may_change(call, meant):
        raise GoalRefused("goal_not_yours")


def _let_go(call: Call, conversation: ConversationId, but: int | None = None) -> None:
    """End the turn that a goal's own work has under way, and take its message away."""
    working_on = call.deps.goal_of(conversation)
    if working_on is not None and working_on != but:
        call.deps.stop(conversation, f"goal put down by {call.incoming.person}", call.deps.clock.now())
    call.deps.hide_live(conversation)


def _said(call: Call, refusal: GoalRefused) -> str:
    phrase, language = call.deps.phrase, call.incoming.language
    values = dict(refusal.values)
    if refusal.why is not None:
        values["why"] = why_of(refusal.why, phrase, language)
    if "status" in values:
        values["status"] = phrase(f"goal_{values['status']}", language)
    said = phrase(refusal.key, language, **values)
    at_limit = refusal.values.get("goal")
    command = raising(at_limit) if isinstance(at_limit, Goal) else ""
    return f"{said} {phrase('goal_limit_raise', language, command=command)}" if command else said


def _buttons(call: Call, goal: Goal) -> tuple[tuple[Button, ...], ...]:
    if not _may_change(call, goal):
        return ()
    phrase, language = call.deps.phrase, call.incoming.language
    if goal.status == "active":
        return ((Button(label=phrase("button_goal_stop", language), action=f"{PRESS}/goal pause {goal.id}"),),)
    if goal.status == "paused":
        return go_on_button(goal, phrase, language)
    return ()


GOAL = Command(
    name="goal",
    feature="agent.goal",
    run=goal,
    group="later",
    usage="[create <text> [--auto] [--turns N] [--tokens N] [--usd N] | pause | resume | complete | clear | list]",
    aliases=("goals",),
    immediate=True,
)
DONE = Command(name="done", feature="agent.goal", run=done, group="later")
