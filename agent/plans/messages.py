"""Messages about a plan: the proposal, the message that follows the work, and the result. Pure."""

from collections.abc import Callable
from typing import Literal

from agent.core.outbox import Button, OutgoingMessage
from agent.core.phrases import Phrases, money
from agent.goals.store import short
from agent.plans.plan import GATE, Plan, Task, cost_of

# The buttons below a proposal, below the message that follows the work, and below what is said when it rests.
Offer = Literal["confirm", "stop", "go_on"]
Buttons = tuple[tuple[Button, ...], ...]
Buttoned = Callable[[Offer, Plan], Buttons]

LONGEST_RESULT = 120
MARKS = {
    "pending": "▫",
    "queued": "◽",
    "running": "▶",
    "completed": "✓",
    "failed": "✗",
    "aborted": "–",
    "skipped": "↷",
    "interrupted": "⚠",
}


def no_buttons(_: Offer, __: Plan) -> Buttons:
    return ()


def proposal(plan: Plan, phrases: Phrases, buttons: Buttoned) -> OutgoingMessage:
    """The proposal that a person reads before they confirm: tasks, what needs what, what it may cost."""
    language, estimate = plan.owner.language, plan.estimate
    head = "plan_offered" if plan.origin.startswith(GATE) else "plan_proposed"
    lines = [phrases(head, language, id=plan.id, goal=short(plan.goal, 200))]
    if plan.redacted:
        lines.append(phrases("plan_redacted", language))
    lines += ["", *(_proposed_line(task, phrases, language) for task in plan.tasks), ""]
    if estimate is not None:
        usd = money(estimate.usd)
        about = phrases("plan_money", language, usd=usd) if usd else ""
        values = {"calls": estimate.calls, "tokens": f"{estimate.tokens:,}", "money": about}
        lines.append(phrases("plan_estimate", language, **values))
    if plan.owner.chat_type != "direct":
        lines.append(phrases("plan_who", language, who=plan.owner.display or plan.owner.person))
    return OutgoingMessage(
        text="\n".join(lines),
        kind="notice",
        buttons=buttons("confirm", plan),
        without_buttons=phrases("plan_by_text", language, id=plan.id),
        verbatim=True,
    )


def view(plan: Plan, phrases: Phrases, language: str | None = None) -> str:
    """Every task with its state; the message that follows the work, and what /plan shows."""
    language = language or plan.owner.language
    done = sum(task.state == "completed" for task in plan.tasks)
    values = {"id": plan.id, "goal": short(plan.goal), "done": done, "count": len(plan.tasks)}
    lines = [phrases(f"plan_is_{plan.status}", language, **values)]
    lines += [_line(task, phrases, language) for task in plan.tasks]
    if plan.why is not None and plan.status not in ("running", "drafting"):
        failed = "; ".join(f"{task.id}. {short(task.title)}" for task in plan.tasks if task.state == "failed")
        lines.append(phrases(plan.why.key, language, **{"tasks": failed, **plan.why.values}))
    return "\n".join(lines)


def ending(plan: Plan, phrases: Phrases, buttons: Buttoned, language: str | None = None) -> OutgoingMessage:
    """The message when it rests or is over, with what can be done about it."""
    language = language or plan.owner.language
    text = view(plan, phrases, language)
    if plan.status in ("waiting", "interrupted"):
        hint = phrases("plan_go_on_by_text", language, id=plan.id)
        return OutgoingMessage(
            text=text, kind="notice", buttons=buttons("go_on", plan), without_buttons=hint, verbatim=True
        )
    if plan.status == "failed" and plan.tasks:
        text += "\n" + phrases("plan_retry_by_text", language, id=plan.id)
    return OutgoingMessage(text=text, kind="notice", verbatim=True)


def took(plan: Plan) -> str:
    """The cost of its tasks, as the end of a sentence; "" where that is not known."""
    usd = money(cost_of(plan.tasks))
    return f", {usd}" if usd else ""


def as_written(plan: Plan) -> str:
    """The plan as the conversation's own model reads it later."""
    lines = [f"Plan {plan.id}, proposed for confirmation:"]
    for task in plan.tasks:
        needs = f" (needs {', '.join(map(str, task.needs))})" if task.needs else ""
        lines.append(f"{task.id}. {task.title}{needs}: {task.text}")
    return "\n".join(lines)


def _proposed_line(task: Task, phrases: Phrases, language: str) -> str:
    line = f"{task.id}. {task.title}"
    if task.needs:
        line += " " + phrases("plan_after", language, tasks=", ".join(map(str, task.needs)))
    detail = short(task.text, LONGEST_RESULT)
    return line if detail == task.title else f"{line}\n   {detail}"


def _line(task: Task, phrases: Phrases, language: str) -> str:
    line = f"{MARKS[task.state]} {task.id}. {task.title}"
    if task.attempts > 1:
        line += " " + phrases("plan_attempt", language, count=task.attempts)
    if task.cut_off and task.state in ("pending", "queued", "running"):
        line += " " + phrases("plan_cut_off", language)
    if task.state in ("failed", "pending", "queued") and task.failures and task.result:
        line += f"\n   {short(task.result, LONGEST_RESULT)}"
    return line


def plan_prompt_key(id: int) -> str:
    """The key of the outbox row of a proposal."""
    return f"plan:{id}:proposal"
