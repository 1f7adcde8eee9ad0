"""What an MCP server may ask of a person: a yes or no, or one of a few words. Anything else is declined. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.tools.mcp.offers import clean

LONGEST, MOST_CHOICES = 500, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`field` is the one that the answer goes into, "" where a yes is all that is wanted."""

    prompt: str
    choices: tuple[str, ...]
    field: str = ""
    is_truth: bool = False


def question_for(server: str, message: str, schema: Mapping[str, Any]) -> Asked | None:
    """The question that people are asked; None for one that buttons cannot answer."""
    prompt = f"The MCP server {server} asks: {clean(message, LONGEST)}"
    properties = schema.get("properties") or {}
    if not properties:
        return Asked(prompt=prompt, choices=("yes", "no"))
    if len(properties) > 1:
        return None
    ((name, wanted),) = properties.items()
    choices = wanted.get("enum") if isinstance(wanted, dict) else None
    if isinstance(choices, list) and 0 < len(choices) <= MOST_CHOICES and all(isinstance(one, str) for one in choices):
        return Asked(prompt=prompt, choices=tuple(choices), field=name)
    if isinstance(wanted, dict) and wanted.get("type") == "boolean":
        return Asked(prompt=prompt, choices=("yes", "no"), field=name, is_truth=True)
    return None


def answer_in(asked: Asked, choice: str | None) -> Mapping[str, Any] | None:
    """What the server gets; None for a no, and for nobody's answer."""
    if choice is None or (not asked.field and choice != "yes"):
        return None
    if not asked.field:
        return {}
    return {asked.field: choice == "yes" if asked.is_truth else choice}
