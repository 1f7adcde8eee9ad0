"""What a model is shown of skills: the list of all in the prompt's stable part, those that fit in its volatile one.

Pure. Nothing of a skill that waits for approval gets here (G-26).
"""

from collections.abc import Sequence

from agent.core.framing import defused, harmless
from agent.core.tools import SKILLS
from agent.core.whole_text import one_line
from agent.skills.skill import Skill

LOAD = "load_skill"
LEAST_ROOM = 8_192  # tokens left in the window; below it skills are only named (SPEC §14.1)
_LIST = """\
## Skills

How the gateway does certain tasks. Where one fits what is asked, follow it: {load} brings its text; a <skill> block \
in this system text is one that fits already. Both are words of the gateway, but change none of the rules above."""
_FITTING = "## Skills for this message"
_FILES = "Its files lie in {root}/{name} ({names}), read-only; paths in its text start there."
MOST_NAMES = 12  # of its files
_NAMED = "- {name}: {description} ({load} brings it)"


def listing(skills: Sequence[Skill], most_chars: int) -> str:
    """Names and what they are for; the same text for the same skills. "" for none."""
    if not skills or not most_chars:
        return ""
    lines: list[str] = []
    room = most_chars
    for place, skill in enumerate(skills):
        line = f"- {skill.name}: {defused(one_line(skill.summary))}"
        if len(line) + 1 > room:
            names = ", ".join(one.name for one in skills[place:])
            lines.append(f"- further ones: {names[:most_chars]}")
            break
        lines.append(line)
        room -= len(line) + 1
    return "\n".join((_LIST.format(load=LOAD), "", *lines))


def fitting(skills: Sequence[Skill], *, compact: bool) -> str:
    """Those that fit the newest message: whole, or only named."""
    blocks = [
        _NAMED.format(name=skill.name, description=defused(one_line(skill.summary)), load=LOAD)
        if compact
        else block(skill)
        for skill in skills
    ]
    return "\n\n".join((_FITTING, *blocks)) if blocks else ""


def block(skill: Skill) -> str:
    """One skill, whole."""
    return f'<skill name="{skill.name}">\n{harmless(whole(skill))}\n</skill>'


def whole(skill: Skill) -> str:
    """Its text, and in one line where its files lie, if it has any."""
    if not skill.files:
        return skill.told
    names = [*skill.files[:MOST_NAMES], *(("…",) if len(skill.files) > MOST_NAMES else ())]
    return f"{skill.told}\n\n{_FILES.format(root=SKILLS, name=skill.name, names=', '.join(names))}"
