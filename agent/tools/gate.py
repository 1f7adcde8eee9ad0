"""What may run, what a person must allow, what never runs (SPEC §12.3). Pure."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from agent.core.ids import PersonId
from agent.core.tools import Appraisal, Gate, ToolSpec

LONGEST_SHOWN = 6_000  # characters of a call; of a longer one the beginning and the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator has set: `auto_approve` answers for people, `force` opens every gate but scope and `deny`.

    `ask` and `deny` are patterns of tool names (`mcp__*`) that are asked about, or never run, whatever their risk.
    """

    auto_approve: bool = False
    force: bool = False
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


def gate_for(spec: ToolSpec, appraisal: Appraisal, rules: Rules, *, allowed_for_good: bool) -> Gate:
    """What happens to the call. What is not rated is asked for; what is denied stays denied unless forced (G-17)."""
    if matches(spec.name, rules.deny):
        return "deny"
    gate = appraisal.gate or ("allow" if spec.risk == "safe" else "ask")
    if gate == "allow" and matches(spec.name, rules.ask):
        gate = "ask"
    if rules.force:
        return "allow"
    if gate == "ask" and (rules.auto_approve or allowed_for_good):
        return "allow"
    return gate


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns (`mcp__*`) stands for the tool of that name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def covers_of(appraisal: Appraisal) -> str | None:
    """What "always" would allow: what the tool says, else these very arguments; None where it may not be offered."""
    return canonical(appraisal.arguments) if appraisal.covers == "" else appraisal.covers


def extent_of(covers: str | None) -> str:
    """What "always" would allow, where that is more than the very call; else ""."""
    return "" if covers is None or covers.startswith("{") else covers


def canonical(arguments: Mapping[str, Any]) -> str:
    """The arguments as JSON, the same for the same values."""
    return json.dumps(dict(arguments), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(tool: str, arguments: str) -> str:
    """Names exactly this call; `arguments` are canonical JSON."""
    return hashlib.sha256(f"{tool}\n{arguments}".encode("utf-8", "surrogatepass")).hexdigest()


def shown_of(tool: str, appraisal: Appraisal) -> str:
    """What a person reads of the call before allowing it."""
    text = appraisal.shown or f"{tool} {json.dumps(dict(appraisal.arguments), ensure_ascii=False, indent=2)}"
    if len(text) <= LONGEST_SHOWN:
        return text
    half = LONGEST_SHOWN // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"


def may_decide(
    person: str, *, requester: PersonId | None, approvers: Collection[str], requester_may: bool = True
) -> bool:
    """Whether that person's word counts: the requester's, or a configured approver's (G-03)."""
    return person in approvers or (requester_may and requester is not None and person == requester)


def anyone_may_decide(requester: PersonId | None, approvers: Collection[str], *, requester_may: bool = True) -> bool:
    """Whether there is anybody at all whose word would count."""
    return bool(approvers) or (requester_may and requester is not None)
