"""Offers of an MCP server beside tools: prompts that people call up, and resources that the model reads. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.tools.mcp.offers import Result, clean, plain, text_of

MOST = 500  # prompts, resources or templates of one server
MOST_LISTED = 200  # resources of one list that the model reads
LONGEST_ADDRESS, LONGEST_DESCRIPTION = 2_000, 300
LONGEST_PROMPT = 30_000  # characters, like the longest result of a tool


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """Its name and its arguments, those in brackets that may be left out."""
        parts = [f"{one.name}=…" if one.required else f"[{one.name}=…]" for one in self.arguments]
        return " ".join([plain(self.name), *map(plain, parts)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """`address` is its URI; of a template one with `{names}` to be filled in."""

    address: str
    name: str = ""
    description: str = ""
    mime_type: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptMessage:
    role: str
    content: Result


def listed(server: str, resources: Sequence[Resource]) -> str:
    """The list of them for the model, one a line."""
    lines = [_line(server, one) for one in resources[:MOST_LISTED]]
    if len(resources) > MOST_LISTED:
        lines.append(f"… and {len(resources) - MOST_LISTED} more of the server {server}")
    return "\n".join(lines)


def _line(server: str, one: Resource) -> str:
    kind = "template" if one.is_template else "resource"
    address = plain_address(one.address)
    told = [f"- {kind} {address} of the server {server}"]
    told += [
        text for text in (plain(one.name) if one.name else "", plain(one.mime_type) if one.mime_type else "") if text
    ]
    if one.description:
        told.append(clean(one.description, LONGEST_DESCRIPTION))
    return "; ".join(told)


def plain_address(address: str) -> str:
    """An address that can do nothing to a line."""
    return "".join(sign for sign in address if sign.isprintable())[:LONGEST_ADDRESS]


def prompt_text(messages: Sequence[PromptMessage]) -> str:
    """The messages of a prompt as one text; each says whose words it is meant to be, where there are several."""
    texts = [text_of(message.content) for message in messages]
    if len(texts) > 1:
        texts = [f"[{plain(message.role)}]\n{text}" for message, text in zip(messages, texts, strict=True)]
    return "\n\n".join(texts)[:LONGEST_PROMPT]


def missing_in(prompt: Prompt, given: Mapping[str, str]) -> tuple[str, ...]:
    """Arguments that it cannot do without."""
    return tuple(one.name for one in prompt.arguments if one.required and not given.get(one.name))
