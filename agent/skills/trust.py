"""Whether a skill may be used: by where it comes from, what it names, and what people have decided (SPEC §14.1, G-26).

Pure. A drafted skill waits until a person has approved these very words; an operator's own waits when it looks harmful,
or when a change lets it touch more than before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agent.skills.catalogue import Entry, Reason
from agent.skills.scanning import findings_in
from agent.skills.skill import Skill

Verdict = Literal["seen", "approved", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What was decided about a name: for which file, and what that one named. `by` None: nobody, it looked harmless."""

    name: str
    verdict: Verdict
    digest: str
    grants: frozenset[str]
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a skill stands, and what is to be written down about it; None: nothing new."""

    entry: Entry
    note: Trust | None = None


def judge(skill: Skill, trust: Trust | None) -> Judged:
    """How the skill stands, given what was decided about its name."""
    if trust is not None and trust.verdict == "revoked":
        return Judged(entry=Entry(skill=skill, standing="revoked"))
    if skill.origin == "shipped":
        return Judged(entry=Entry(skill=skill))
    if trust is not None and trust.digest == skill.digest and _holds_for(trust, skill):
        return Judged(entry=Entry(skill=skill))
    why = _why_not(skill, trust)
    if why:
        return Judged(entry=Entry(skill=skill, standing="quarantined", why=why))
    seen = Trust(name=skill.name, verdict="seen", digest=skill.digest, grants=skill.grants)
    return Judged(entry=Entry(skill=skill), note=seen)


def _holds_for(trust: Trust, skill: Skill) -> bool:
    """A drafted one must have been approved by a person, not only been seen under that name."""
    return skill.origin != "auto" or trust.verdict == "approved"


def _why_not(skill: Skill, trust: Trust | None) -> tuple[Reason, ...]:
    why = [Reason(finding) for finding in findings_in(skill)]
    if skill.origin == "auto":
        was_approved = trust is not None and trust.verdict == "approved"
        why.insert(0, Reason("changed" if was_approved else "drafted"))
    elif trust is not None and (new := sorted(skill.grants - trust.grants)):
        why.append(Reason("grants", ", ".join(name.partition(":")[2] for name in new)))
    return tuple(why)


def judge_all(skills: Mapping[str, Skill], decided: Mapping[str, Trust]) -> list[Judged]:
    """All of them, by name."""
    return [judge(skill, decided.get(name)) for name, skill in sorted(skills.items())]
