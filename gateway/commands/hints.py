"""Why a skill was hinted: what `/why skill` tells."""

from agent.skills.learning import Hinted
from gateway.commands.command import Call, Reply


async def why_skill(call: Call) -> Reply:
    """The last hint of this chat: how well it fitted or whose wish it was, by which counts, and what came of it."""
    phrase, language, learning = call.deps.phrase, call.incoming.language, call.deps.learning
    hinted = learning.hinted(call.agent.conversation)
    if hinted is None:
        key = "why_skill_none" if learning.settings.router else "why_skill_off"
        return Reply(text=phrase(key, language), private=True)
    return Reply(text="\n".join(_told(call, hinted)), private=True)


def _told(call: Call, hinted: Hinted) -> list[str]:
    phrase, language, pick = call.deps.phrase, call.incoming.language, hinted.pick
    lines = [phrase("why_skill_title", language, name=f"`{pick.name}`", when=f"{hinted.at:%H:%M:%S} UTC")]
    if pick.value is None:
        lines.append(phrase("why_skill_asked", language))
    else:
        key = "why_skill_drawn" if pick.among > 1 else "why_skill_alone"
        fit = f"{pick.fit or 0.0:.2f}"
        lines.append(phrase(key, language, among=pick.among, fit=fit, value=f"{pick.value:.2f}"))
    counts = {"successes": _count(pick.arm.successes), "failures": _count(pick.arm.failures)}
    lines.append(phrase("why_skill_counts", language, **counts))
    if pick.simulated:
        lines.append(phrase("why_skill_simulated", language, simulated=_count(pick.simulated)))
    lines.append(phrase(f"why_skill_{_came_of(hinted)}", language))
    if hinted.sign is not None and hinted.use != "unused":
        lines.append(phrase(f"why_skill_{hinted.sign}", language))
    return lines


def _came_of(hinted: Hinted) -> str:
    if hinted.outcome == "success" and hinted.use != "used":
        return hinted.use
    return hinted.outcome or "open"


def _count(number: float) -> str:
    return f"{round(number, 2):g}"
