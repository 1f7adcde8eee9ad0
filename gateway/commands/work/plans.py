"""Plans: /plan has one made, confirmed, carried out, and looked at.

Not plan mode (W-30): that is the model's own, within a turn, and ends when a person has read what it wrote.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.outbox import Button
from agent.goals.goal import Owner
from agent.goals.store import short
from agent.plans.messages import Buttoned, Buttons, Offer, proposal, view
from agent.plans.plan import OPEN, Plan
from agent.plans.service import PlanRefused, PlanService
from agent.providers.registry import Registry
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.commands.command import PRESS, AnyCall, Call, Command, Reply, Turns
from gateway.commands.work.remind import origin_of
from gateway.phrases.catalogue import Catalogue

# Buttons below plans. They stand for commands, so a press is taken like a typed one, also after a restart.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCommandDeps:
    """Plans, and the turns that work on them."""

    clock: Clock
    plans: PlanService
    providers: Registry
    turns: Turns


def plan_buttons(phrase: Catalogue) -> Buttoned:
    """Confirm or decline below a proposal, stop below the running plan, what can be done below one that rests."""

    def buttons(offer: Offer, plan: Plan) -> Buttons:
        def button(key: str, word: str) -> Button:
            return Button(label=phrase(key, plan.owner.language), action=f"{PRESS}/plan {word} {plan.id}")

        match offer:
            case "confirm":
                return ((button("button_plan_confirm", "confirm"), button("button_plan_decline", "cancel")),)
            case "stop":
                return ((button("button_plan_stop", "stop"),),)
            case "go_on":
                row = (button("button_plan_go_on", "resume"), button("button_plan_retry", "retry"))
                return (row, (button("button_plan_cancel", "cancel"),))

    return buttons


_MARKS = {"running": "▶", "completed": "✓", "failed": "✗", "waiting": "❓", "interrupted": "⏸", "cancelled": "–"}
_OFFERS: Mapping[str, Offer] = {
    "proposed": "confirm",
    "running": "stop",
    "waiting": "go_on",
    "interrupted": "go_on",
}


async def plan(call: Call[PlanCommandDeps]) -> Reply:
    """By the first word, where only a number follows it; else the words are a new plan's goal. Alone, or with a
    number only: how it stands."""
    first, _, rest = call.args.partition(" ")
    action, rest = _ACTIONS.get(first.lower()), rest.strip()
    try:
        if not call.args or _number(call.args):
            return await _status(call, _number(call.args))
        if first.lower() == "goal" and rest:
            return await _draft(call, rest)
        if action is None or (rest and not _number(rest)):
            return await _draft(call, call.args)
        return await action(call, _number(rest))
    except PlanRefused as refusal:
        text = call.phrase(refusal.key, call.incoming.language, **refusal.values)
        return Reply(text=text, private=True)


async def halt_plan(call: Call[PlanCommandDeps]) -> Plan | None:
    """Let go of the plan that is worked on here, and end its turn, for /stop; None: there is none."""
    conversation = _conversation(call)
    halted = await call.deps.plans.halt(conversation, _name(call))
    if halted is not None:
        _let_go(call, halted)
    return halted


async def _draft(call: Call[PlanCommandDeps], words: str) -> Reply:
    incoming, conversation, plans = call.incoming, _conversation(call), call.deps.plans
    if plans.settings().enabled and await _plans_by_demo(call):
        raise PlanRefused("plan_demo")
    owner = Owner(
        person=incoming.person,
        display=incoming.display,
        language=incoming.language,
        role=incoming.role,
        roles=incoming.roles,
        chat_type=incoming.chat_type,
    )
    origin = origin_of(call) or f"{conversation}:{to_timestamp(incoming.received_at)}"
    waits = call.deps.turns.is_running(
        conversation
    )  # for what goes on here, such as a question that nobody has answered
    made = await plans.draft(conversation, owner, words, origin=f"plan:{origin}", decides=_decides_about_all(call))
    key = "plan_drafts_later" if waits else "plan_drafts"
    return Reply(text=call.phrase(key, incoming.language, id=made.id), private=True)


async def _plans_by_demo(call: Call[PlanCommandDeps]) -> bool:
    providers, name = call.deps.providers, call.deps.plans.settings().provider
    name = name or (await call.agent.status()).provider
    return name in providers and providers.get(name).family == "demo"


async def _status(call: Call[PlanCommandDeps], number: int | None) -> Reply:
    """All of it where it still waits for a word."""
    phrase, language = call.phrase, call.incoming.language
    meant = await call.deps.plans.meant(_conversation(call), number)
    buttons = plan_buttons(phrase)
    text = proposal(meant, phrase, buttons).text if meant.status == "proposed" else view(meant, phrase, language)
    if meant.status == "drafting" and _waits(call, meant.id):
        text = f"{text}\n\n{phrase('plan_waits', language)}"
    offer = _OFFERS.get(meant.status)
    shown = buttons(offer, meant) if offer is not None and _may_change(call, meant) else ()
    return Reply(text=text, buttons=shown, private=True, verbatim=True)


def _waits(call: Call[PlanCommandDeps], id: int) -> bool:
    """Whether something else goes on in this chat, which the plan waits for."""
    conversation = _conversation(call)
    return call.deps.turns.is_running(conversation) and call.deps.turns.plan_of(conversation) != id


async def _list(call: Call[PlanCommandDeps], number: int | None) -> Reply:
    phrase, language = call.phrase, call.incoming.language
    found = await call.deps.plans.all_of(_conversation(call))
    if not found:
        raise PlanRefused("plan_none")
    lines = [phrase("plan_list_title", language), ""]
    for each in found:
        values = {
            "mark": _MARKS.get(each.status, "▫"),
            "id": each.id,
            "status": phrase(f"plan_now_{each.status}", language),
            "done": sum(task.state == "completed" for task in each.tasks),
            "count": len(each.tasks),
            "goal": short(each.goal),
        }
        lines.append(phrase("plan_list_line", language, **values))
    return Reply(text="\n".join(lines), private=True, verbatim=True)


async def _confirm(call: Call[PlanCommandDeps], number: int | None) -> Reply:
    return await _change(call, number, call.deps.plans.confirm, "plan_confirmed")


async def _resume(call: Call[PlanCommandDeps], number: int | None) -> Reply:
    return await _change(call, number, call.deps.plans.resume, "plan_resumed")


async def _retry(call: Call[PlanCommandDeps], number: int | None) -> Reply:
    return await _change(call, number, call.deps.plans.retry, "plan_retried")


async def _cancel(call: Call[PlanCommandDeps], number: int | None) -> Reply:
    return await _change(call, number, call.deps.plans.cancel, "plan_cancelled")


async def _stop(call: Call[PlanCommandDeps], number: int | None) -> Reply:
    """The value of the button below the running plan."""
    meant = await _checked(call, number)
    halted = await call.deps.plans.halt(_conversation(call), _name(call)) if meant.status == "running" else None
    if halted is None:
        raise PlanRefused("plan_over", id=meant.id)
    _let_go(call, halted)
    return halted_reply(call, halted)


def halted_reply(call: AnyCall, halted: Plan) -> Reply:
    """The words after a stop, with what can be done about it."""
    phrase, language = call.phrase, call.incoming.language
    if not halted.is_open:
        return Reply(text=phrase("plan_cancelled", language, id=halted.id))
    buttons = plan_buttons(phrase)("go_on", halted)
    return Reply(text=phrase("plan_halted", language, id=halted.id), buttons=buttons)


async def _change(
    call: Call[PlanCommandDeps],
    number: int | None,
    change: Callable[[ConversationId, int | None, str], Awaitable[Plan]],
    key: str,
) -> Reply:
    meant = await _checked(call, number)
    changed = await change(_conversation(call), meant.id, _name(call))
    if changed.status == "cancelled":
        _let_go(call, changed)
    return Reply(text=call.phrase(key, call.incoming.language, id=changed.id))


_ACTIONS: dict[str, Callable[[Call[PlanCommandDeps], int | None], Awaitable[Reply]]] = {
    "status": _status,
    "list": _list,
    "confirm": _confirm,
    "cancel": _cancel,
    "resume": _resume,
    "retry": _retry,
    "stop": _stop,
}


async def _checked(call: Call[PlanCommandDeps], number: int | None) -> Plan:
    """The plan that is meant, if this person may change it: who asked for it, or an admin."""
    meant = await call.deps.plans.meant(_conversation(call), number)
    if not _may_change(call, meant):
        raise PlanRefused("plan_not_yours")
    if number is None and meant.status not in OPEN | {"failed"}:
        raise PlanRefused("plan_none")
    return meant


def _may_change(call: Call[PlanCommandDeps], meant: Plan) -> bool:
    return _decides_about_all(call) or meant.owner.person == call.incoming.person


def _decides_about_all(call: Call[PlanCommandDeps]) -> bool:
    return not call.in_group or call.role >= Role.ADMIN


def _let_go(call: Call[PlanCommandDeps], meant: Plan) -> None:
    let_go(call.deps.turns, meant, str(call.incoming.person), call.deps.clock.now())


def let_go(turns: Turns, meant: Plan, by: str, now: datetime) -> None:
    """End the turn that works on it, and take its message away."""
    if turns.plan_of(meant.conversation) == meant.id:
        turns.stop(meant.conversation, f"plan put down by {by}", now)
    turns.hide_live(meant.conversation)


def _conversation(call: Call[PlanCommandDeps]) -> ConversationId:
    return ConversationId(str(call.key))


def _name(call: Call[PlanCommandDeps]) -> str:
    return call.incoming.display or call.incoming.person or "?"


def _number(words: str) -> int | None:
    digits = words.removeprefix("#")
    return int(digits) if digits.isdecimal() and len(digits) < 10 else None


PLAN = Command(
    name="plan",
    deps=PlanCommandDeps,
    feature="plans",
    run=plan,
    group="later",
    usage="[goal | status | list | confirm | cancel | resume | retry]",
    aliases=("plans",),
    immediate=True,
)
