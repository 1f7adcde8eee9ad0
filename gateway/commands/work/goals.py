"""Goals: /goal sets, pauses, resumes and shows them, /done says that one is reached."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.outbox import Button
from agent.core.phrases import Phrases
from agent.goals.goal import Auto, Goal, Limits, Owner, raised, spent_limit
from agent.goals.service import Buttons, GoalRefused, GoalService, progress, why_of
from agent.goals.store import short
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.commands.command import PRESS, AnyCall, Call, Command, Reply, Turns, refused
from gateway.commands.work.remind import origin_of

# Limits of a goal in words, and the button that goes on with it. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalCommandDeps:
    """Goals, and the turns that work on them."""

    clock: Clock
    goals: GoalService
    turns: Turns


def go_on_button(goal: Goal, phrase: Phrases, language: str) -> Buttons:
    """Goes on with a paused goal. At a limit it names the next one; where none helps there is no button."""
    if spent_limit(goal.limits, goal.used) is None:
        auto = " --auto" if goal.auto is not None else ""
        label, command = phrase("button_goal_go_on", language), f"/goal resume {goal.id}{auto}"
    elif command := raising(goal):
        more = told_limits(raised(goal.limits, goal.used), phrase, language)
        label = phrase("button_goal_more", language, limits=more)
    else:
        return ()
    return ((Button(label=label, action=f"{PRESS}{command}", style="primary"),),)


def raising(goal: Goal) -> str:
    """The command that gives a goal as much again of what it has used up; "" where that would not do."""
    more = raised(goal.limits, goal.used)
    if more == Limits() or (goal.limits.usd is not None and goal.used.unpriced):
        return ""
    words = [f"/goal resume {goal.id}"]
    if goal.auto is not None and more.turns is None:
        words.append("--auto")  # beside it --turns would be those of the next work by itself
    if more.turns is not None:
        words.append(f"--turns {more.turns}")
    if more.tokens is not None:
        words.append(f"--tokens {more.tokens}")
    if more.usd is not None:
        words.append(f"--usd {more.usd:g}")
    return " ".join(words)


def told_turns(count: int, phrase: Phrases, language: str) -> str:
    return phrase("goal_limit_turns" if count != 1 else "goal_limit_one_turn", language, limit=count)


def told_limits(limits: Limits, phrase: Phrases, language: str) -> str:
    """The limits that are set, in words; "" where none is."""
    shown = []
    if limits.turns is not None:
        shown.append(told_turns(limits.turns, phrase, language))
    if limits.tokens is not None:
        shown.append(phrase("goal_limit_tokens", language, limit=f"{limits.tokens:,}"))
    if limits.usd is not None:
        shown.append(phrase("goal_limit_usd", language, limit=f"{limits.usd:g}"))
    return " · ".join(shown)


# Summary of a goal in a line or two, for commands: its purpose and its progress. Changes nothing.

_MARKS = {"active": "▸", "paused": "⏸", "completed": "✓", "cleared": "–"}
_AUTO_MARKS = {"achieved": "✓", "orphaned": "⚠", "stuck": "⚠", "failed": "⚠", "aborted": "⏸"}


def goal_line(call: Call[GoalCommandDeps], goal: Goal) -> str:
    """Number, state and what it is for."""
    phrase, language = call.phrase, call.incoming.language
    status = phrase(f"goal_{goal.status}", language)
    return phrase("goal_line", language, mark=_MARKS[goal.status], id=goal.id, status=status, goal=short(goal.text))


class GoalView(Protocol):
    """Anything that tells of goals at this moment."""

    @property
    def clock(self) -> Clock: ...

    @property
    def goals(self) -> GoalService: ...


def subagent_line(call: Call[GoalView], goal: Goal) -> str:
    """State, turns, time and what the last check said."""
    phrase, language, auto = call.phrase, call.incoming.language, goal.auto
    assert auto is not None
    line = phrase(
        "agents_line",
        language,
        mark=_AUTO_MARKS.get(auto.state, "▸"),
        id=goal.id,
        state=phrase(f"auto_{call.deps.goals.working_state(goal)}", language),
        turns=auto.turns,
        most=auto.most,
        elapsed=_elapsed(call, goal),
        goal=short(goal.text),
    )
    return f"{line}\n   {_checked(call, auto)}"


def work_line(call: Call[GoalView], goal: Goal) -> str:
    """The same below the goal itself: what was said of it there is not said again."""
    phrase, language, auto = call.phrase, call.incoming.language, goal.auto
    assert auto is not None
    name = f"auto_{call.deps.goals.working_state(goal)}"
    state = f" · {phrase(name, language)}" if goal.is_autonomous else ""
    elapsed = _elapsed(call, goal)
    line = phrase("goal_work", language, turns=auto.turns, most=auto.most, elapsed=elapsed, state=state)
    return f"{line}\n   {_checked(call, auto)}"


def _elapsed(call: Call[GoalView], goal: Goal) -> str:
    until = call.deps.clock.now() if goal.is_autonomous else goal.updated_at
    minutes = max(0, int((until - goal.created_at).total_seconds())) // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _checked(call: AnyCall, auto: Auto) -> str:
    phrase, language = call.phrase, call.incoming.language
    if not auto.verified_at:
        return phrase("agents_unchecked", language)
    return phrase("agents_verdict", language, turn=auto.verified_at, reason=auto.verdict or "–")


# Parser of the words after /goal: text, a number, options in any order. Pure.

LONGEST_NUMBER = 10  # characters; what is longer fits no database


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The words of a command, taken apart. Without `autonomous`, `turns` is a limit of the goal."""

    text: str
    limits: Limits
    autonomous: bool = False
    turns: int | None = None

    @property
    def number(self) -> int | None:
        """The goal that is meant, where one is named."""
        if not self.text:
            return None
        if not is_number(self.text) or len(self.text) > LONGEST_NUMBER:
            raise GoalRefused("goal_unknown", id=self.text)
        return int(self.text.removeprefix("#"))


def is_number(text: str) -> bool:
    """Whether the words are a number, and so no goal's text."""
    return text.removeprefix("#").isdecimal()


def read_wanted(words: str) -> Wanted:
    """Text and options in any order: --auto, --turns N, --tokens N (or --budget N), --usd N. Raises GoalRefused."""
    text: list[str] = []
    numbers: dict[str, float] = {}
    autonomous = False
    rest = iter(words.replace("—", "--").split())  # telephones make a dash of two hyphens
    for word in rest:
        name, _, value = word.partition("=")
        match name:
            case "--auto":
                autonomous = True
            case "--turns" | "--tokens" | "--budget" | "--usd":
                numbers["--tokens" if name == "--budget" else name] = _number(name, value or next(rest, ""))
            case _ if name.startswith("--"):
                raise GoalRefused("goal_option", option=word)
            case _:
                text.append(word)
    turns = int(numbers["--turns"]) if "--turns" in numbers else None
    limits = Limits(
        turns=None if autonomous else turns,
        tokens=int(numbers["--tokens"]) if "--tokens" in numbers else None,
        usd=numbers.get("--usd"),
    )
    return Wanted(text=" ".join(text), limits=limits, autonomous=autonomous, turns=turns if autonomous else None)


def _number(name: str, value: str) -> float:
    cleaned = value.replace(",", ".") if name == "--usd" else value.replace("_", "").replace(",", "")
    try:
        number = float(cleaned.removeprefix("$"))
    except ValueError:
        raise GoalRefused("goal_option", option=f"{name} {value}".strip()) from None
    if number <= 0 and name != "--usd":
        raise GoalRefused("goal_option_least", option=name)
    if not 0 < number < 1e12 or (name != "--usd" and number != int(number)):
        raise GoalRefused("goal_option", option=f"{name} {value}".strip())
    return number


async def goal(call: Call[GoalCommandDeps]) -> Reply:
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


async def done(call: Call[GoalCommandDeps]) -> Reply:
    """The goal of the session is reached, and the kept one of this chat (Z-92)."""
    phrase, language = call.phrase, call.incoming.language
    conversation = _conversation(call)
    kept = await call.deps.goals.active(conversation)
    text = await call.agent.complete_goal()
    if kept is not None and _may_change(call, kept):
        ended = await call.deps.goals.complete(conversation, kept.id)
        call.deps.turns.hide_live(conversation)
        return Reply(text=phrase("goal_is_completed", language, id=ended.id))
    if text is None:
        return Reply(text=await _why_not_done(call), private=True)
    return Reply(text=phrase("done_session", language, goal=short(text)), verbatim=True)


async def _why_not_done(call: Call[GoalCommandDeps]) -> str:
    """Why there is no goal that these words could end: there is none, it is paused, or it is somebody else's."""
    kept = await call.deps.goals.active(_conversation(call)) or await _resting(call)
    if kept is None:
        return call.phrase("done_nothing", call.incoming.language)
    refused = "goal_rests" if _may_change(call, kept) else "goal_not_yours"
    return call.phrase(refused, call.incoming.language, id=kept.id)


async def aim(call: AnyCall) -> str:
    """The session's goal, which `/done` says is reached where no goal is kept; "" where that is not followed."""
    session = await call.agent.session_goal()
    return session.text if session.state == "active" else ""


async def pause_work(call: Call[GoalCommandDeps]) -> Goal | None:
    """Put down the goal that is worked on by itself here, and end its turn, for /stop; None: there is none."""
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


async def _create(call: Call[GoalCommandDeps], words: str) -> Reply:
    phrase, language, conversation = call.phrase, call.incoming.language, _conversation(call)
    wanted = read_wanted(words)
    if wanted.autonomous and call.in_group and call.role < Role.ADMIN:
        return refused(call, "--auto")
    before = await call.deps.goals.active(conversation)
    if before is not None and not _may_change(call, before):
        raise GoalRefused("goal_not_yours")
    incoming = call.incoming
    owner = Owner(
        person=incoming.person,
        display=incoming.display,
        language=incoming.language,
        role=incoming.role,
        roles=incoming.roles,
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


async def _status(call: Call[GoalCommandDeps], words: str) -> Reply:
    number = read_wanted(words).number
    goals, conversation = call.deps.goals, _conversation(call)
    found = await (goals.find(conversation, number) if number is not None else goals.active(conversation))
    if found is None and number is None:
        found = await _resting(call)
    phrase, language = call.phrase, call.incoming.language
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


async def _list(call: Call[GoalCommandDeps], _: str) -> Reply:
    found = await call.deps.goals.all_of(_conversation(call))
    if not found:
        raise GoalRefused("goal_none")
    lines = [call.phrase("goal_list_title", call.incoming.language), ""]
    return Reply(text="\n".join([*lines, *(goal_line(call, each) for each in found)]), private=True, verbatim=True)


async def _pause(call: Call[GoalCommandDeps], words: str) -> Reply:
    return await _change(call, words, call.deps.goals.pause, "goal_is_paused")


async def _complete(call: Call[GoalCommandDeps], words: str) -> Reply:
    return await _change(call, words, call.deps.goals.complete, "goal_is_completed")


async def _clear(call: Call[GoalCommandDeps], words: str) -> Reply:
    return await _change(call, words, call.deps.goals.clear, "goal_is_cleared")


async def _change(
    call: Call[GoalCommandDeps], words: str, change: Callable[[ConversationId, int | None], Awaitable[Goal]], key: str
) -> Reply:
    conversation, number = _conversation(call), read_wanted(words).number
    await _check_right(call, number)
    changed = await change(conversation, number)
    _let_go(call, conversation, but=None if changed.auto is not None else -1)
    return Reply(text=call.phrase(key, call.incoming.language, id=changed.id))


async def _resume(call: Call[GoalCommandDeps], words: str) -> Reply:
    conversation, wanted = _conversation(call), read_wanted(words)
    if wanted.autonomous and call.in_group and call.role < Role.ADMIN:
        return refused(call, "--auto")
    await _check_right(call, wanted.number)
    resumed = await call.deps.goals.resume(
        conversation, wanted.number, limits=wanted.limits, autonomous=wanted.autonomous, turns=wanted.turns
    )
    phrase, language = call.phrase, call.incoming.language
    key = "goal_is_resumed_auto" if wanted.autonomous else "goal_is_resumed"
    turns = told_turns(resumed.auto.most, phrase, language) if resumed.auto is not None else ""
    return Reply(text=phrase(key, language, id=resumed.id, turns=turns))


_ACTIONS: dict[str, Callable[[Call[GoalCommandDeps], str], Awaitable[Reply]]] = {
    "create": _create,
    "status": _status,
    "list": _list,
    "pause": _pause,
    "resume": _resume,
    "complete": _complete,
    "clear": _clear,
}


# --- inside ------------------------------------------------------------------------------------------


def _conversation(call: Call[GoalCommandDeps]) -> ConversationId:
    return ConversationId(str(call.key))


async def _resting(call: Call[GoalCommandDeps]) -> Goal | None:
    """The newest that is paused."""
    goals = await call.deps.goals.all_of(_conversation(call))
    return next((goal for goal in goals if goal.status == "paused"), None)


def _may_change(call: Call[GoalCommandDeps], goal: Goal) -> bool:
    return not call.in_group or call.role >= Role.ADMIN or goal.owner.person == call.incoming.person


async def _check_right(call: Call[GoalCommandDeps], number: int | None) -> None:
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


def _let_go(call: Call[GoalCommandDeps], conversation: ConversationId, but: int | None = None) -> None:
    let_go(call.deps.turns, conversation, str(call.incoming.person), call.deps.clock.now(), but=but)


def let_go(turns: Turns, conversation: ConversationId, by: str, now: datetime, *, but: int | None = None) -> None:
    """End the turn that a goal's own work has under way, and take its message away."""
    working_on = turns.goal_of(conversation)
    if working_on is not None and working_on != but:
        turns.stop(conversation, f"goal put down by {by}", now)
    turns.hide_live(conversation)


def _said(call: Call[GoalCommandDeps], refusal: GoalRefused) -> str:
    return refusal_text(refusal, call.phrase, call.incoming.language)


def refusal_text(refusal: GoalRefused, phrase: Phrases, language: str) -> str:
    """The sentence that says why a goal was not changed."""
    values = dict(refusal.values)
    if refusal.why is not None:
        values["why"] = why_of(refusal.why, phrase, language)
    if "status" in values:
        values["status"] = phrase(f"goal_{values['status']}", language)
    said = phrase(refusal.key, language, **values)
    at_limit = refusal.values.get("goal")
    command = raising(at_limit) if isinstance(at_limit, Goal) else ""
    return f"{said} {phrase('goal_limit_raise', language, command=command)}" if command else said


def _buttons(call: Call[GoalCommandDeps], goal: Goal) -> tuple[tuple[Button, ...], ...]:
    if not _may_change(call, goal):
        return ()
    phrase, language = call.phrase, call.incoming.language
    if goal.status == "active":
        return ((Button(label=phrase("button_goal_stop", language), action=f"{PRESS}/goal pause {goal.id}"),),)
    if goal.status == "paused":
        return go_on_button(goal, phrase, language)
    return ()


GOAL = Command(
    name="goal",
    deps=GoalCommandDeps,
    feature="agent.goal",
    run=goal,
    group="later",
    usage="[create <text> [--auto] [--turns N] [--tokens N] [--usd N] | pause | resume | complete | clear | list]",
    aliases=("goals",),
    immediate=True,
)
DONE = Command(name="done", deps=GoalCommandDeps, feature="agent.goal", run=done, group="later")
