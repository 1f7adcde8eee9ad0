"""Trust in a skill: by its origin, what it names, and people's decisions (G-26).

Pure. A drafted or imported skill waits until a person has approved these very words; an operator's own waits when it
looks harmful, or when a change lets it touch more than before.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agent.core.untrusted_text import harmless
from agent.skills.catalogue import Entry, Reason
from agent.skills.skill import Origin, Skill

# Signs of harm in a skill, found by its words, for a person to judge. Pure.

Finding = Literal["hidden", "orders", "secrets", "downloads", "destroys", "tags", "environment"]

_HIDDEN = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\U000e0000-\U000e007f]"
)
_PATTERNS: tuple[tuple[Finding, re.Pattern[str]], ...] = (
    (
        "orders",
        re.compile(
            r"(?:ignore|disregard|forget|override)\s+(?:\w+\s+){0,3}(?:previous|prior|above|earlier|system|other)\s+"
            r"(?:\w+\s+)?(?:instruction|prompt|rule|message)"
            r"|(?:do\s+not|don't|never)\s+(?:tell|inform|mention\s+\w+\s+to|show)\s+(?:it\s+to\s+)?the\s+(?:user|person|owner|operator)"
            r"|without\s+(?:telling|asking|informing)\s+(?:the\s+)?(?:user|person|owner|anybody|anyone)"
            r"|(?:reveal|print|repeat|send|output)\s+(?:\w+\s+){0,2}(?:system\s+prompt|system\s+text)"
            r"|(?:skip|bypass|avoid)\s+(?:\w+\s+){0,2}(?:approval|confirmation|permission)"
            r"|(?:ignorier|missacht|vergiss)\w{0,30}+\s+(?:\w+\s+){0,3}(?:anweisung|regel|vorgabe)",
            re.IGNORECASE,
        ),
    ),
    (
        "secrets",
        re.compile(
            r"\.ssh/|id_rsa|\.aws/credentials|/etc/(?:shadow|passwd)|\.netrc"
            r"|\b(?:cat|less|more|head|tail|grep|source|curl|base64|read|print|show|send|upload|open|dump|copy)\b"
            r"[^\n]{0,60}?(?<![\w)\]*])\.env\b(?!\.(?:example|sample|template|dist))"
            r"|\b(?:send|post|upload|paste|give|put)\s+(?:\w+\s+){0,4}"
            r"(?:api\s?keys?|passwords?|credentials?|secrets?|(?<!output\s)(?<!input\s)(?<!design\s)(?<!max\s)tokens?)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "downloads",
        re.compile(
            # The first of such commands up to a pipe speaks for the others: what follows the pipe follows all of them.
            r"(?<![^\n|])(?>[^\n|]*?(?:curl|wget|base64|xxd)\b)[^\n|]*+\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b"
            r"|(?:ba|z)?sh\s+<\(\s*(?:curl|wget)|\beval\s*+(?:[\"'(]\s*+)?\$\("
            r"|\bnc\s+-\w*e|/dev/tcp/|\bpip3?\s+install\s+(?:-\S+\s+)*(?:git\+)?https?:",
            re.IGNORECASE,
        ),
    ),
    (
        "destroys",
        re.compile(
            r"\brm\s+-[^\Wrf]*+[rf]\w*+\s+(?:/(?!(?:tmp|var/tmp|var/cache|var/lib/apt/lists|workspace)/(?!\S*\.\.)\S)"
            r"|~|\$HOME|\*)|\bmkfs\b|:\(\)\s*\{"
            # The first dd of a line, or one that is its last word.
            r"|(?<![^\n])(?>[^\n]*?\bdd[^\S\n]++)[^\n]*?of=/dev/|\bdd[^\S\n]*+\n\s*+[^\n]*?of=/dev/",
            re.IGNORECASE,
        ),
    ),
)
# They change which programs run, or what these load.
_POWERFUL = re.compile(
    r"PATH|HOME|SHELL|IFS|ENV|BASH_ENV|PROMPT_COMMAND|EDITOR|PAGER|GIT_\w+|LD_\w+|DYLD_\w+|PYTHON\w*|NODE_\w+|PERL\w*"
    r"|RUBY\w*|JAVA_TOOL_OPTIONS|SSL_\w+|\w*_PROXY|TIELINE\w*",
    re.IGNORECASE,
)


# Between a word that forbids and what it forbids; "do not forget to", "never mind" and the like forbid nothing.
_FORBIDDEN = re.compile(
    r"\b(?:never|do\s+not|don't|don’t|must\s+not|should\s+not|shouldn't|cannot|can't|avoid|rather\s+than|instead\s+of"
    r"|nie|niemals|nicht)(?:\s+(?!(?:forget|hesitate|fail|worry|stop|wait|mind|only|just|until|unless|but|then|and|before"
    r"|vergessen|nur)\b)[\w'’`*-]+){0,5}\s+[`*_\"']*$",
    re.IGNORECASE,
)
_BEFORE = 100  # characters before a finding in which it may be forbidden
# <skill-name> in a text is a field to fill in, not one of the gateway's tags; models take <system-…> for a tag.
_FIELD = re.compile(r"<(?=/?(?!system)[a-z_]{1,30}-[a-z])", re.IGNORECASE)


def findings_in(skill: Skill) -> tuple[Finding, ...]:
    """Findings that a person should look at before it is used; none where it looks plain."""
    written = "\n".join((skill.name, skill.description, skill.when_to_use, *skill.triggers, skill.body))
    found: list[Finding] = ["hidden"] if _HIDDEN.search(written) else []
    seen = _HIDDEN.sub("", unicodedata.normalize("NFKC", written))
    found += [finding for finding, pattern in _PATTERNS if _is_meant(pattern, seen)]
    named = _FIELD.sub("", seen)
    if harmless(named) != named:
        found.append("tags")
    if any(_POWERFUL.fullmatch(name) for name, _ in skill.env):
        found.append("environment")
    return tuple(found)


def _is_meant(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the words stand there other than to warn against them."""
    starts = (one.start() for one in pattern.finditer(text))
    return any(not _FORBIDDEN.search(text[max(0, start - _BEFORE) : start]) for start in starts)


Verdict = Literal["seen", "approved", "revoked"]
# Origins whose skills a person must approve, and the reason that is told.
UNTRUSTED: Mapping[Origin, str] = {"auto": "drafted", "imported": "imported"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """A decision about a name: for which file, and what that one named. `by` None: nobody, it looked harmless."""

    name: str
    verdict: Verdict
    digest: str
    grants: frozenset[str]
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The standing of a skill, and the decision to write down; None: nothing new."""

    entry: Entry
    note: Trust | None = None


def judge(skill: Skill, trust: Trust | None) -> Judged:
    """The standing of the skill, given the decisions about its name."""
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
    """A drafted or imported one must have been approved by a person, not only been seen under that name."""
    return skill.origin not in UNTRUSTED or trust.verdict == "approved"


def _why_not(skill: Skill, trust: Trust | None) -> tuple[Reason, ...]:
    why = [Reason(finding) for finding in findings_in(skill)]
    if skill.origin in UNTRUSTED:
        was_approved = trust is not None and trust.verdict == "approved"
        why.insert(0, Reason("changed" if was_approved else UNTRUSTED[skill.origin]))
    elif trust is not None and (new := sorted(skill.grants - trust.grants)):
        why.append(Reason("grants", ", ".join(name.partition(":")[2] for name in new)))
    return tuple(why)


def judge_all(skills: Mapping[str, Skill], decided: Mapping[str, Trust]) -> list[Judged]:
    """All of them, by name."""
    return [judge(skill, decided.get(name)) for name, skill in sorted(skills.items())]
