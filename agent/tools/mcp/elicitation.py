"""Questions of an MCP server to a person: a yes, a form field by field, or an address to be opened.

The person is told which server asks, may decline or cancel each question, and is asked again where their words do not
fit. Nobody's answer in time is a decline.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from agent.core.outbox import Question
from agent.core.tools import ToolContext
from agent.tools.mcp.forms import Field, NotAsked, Unfit, fields_of, in_one_message, value_of
from agent.tools.mcp.offers import clean

LONGEST = 1_000  # characters of what the server says
LONGEST_ADDRESS = 2_000
MOST_BUTTONS, LONGEST_BUTTON = 6, 40  # more or longer choices are a list in the text
MOST_TRIES = 5  # words that do not fit, for one field
ASKS_FOR_S = 300.0  # as long as an approval


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A server's question to a person: a form by its `schema`, or that they open `url`.

    `before`: its call goes on only after they have been there.
    """

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The result, in the protocol's words. `note` tells the model why people were not asked."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Controls:
    """Replies to a question that are no answer, as people read them."""

    labels: Mapping[str, str]  # by what it means: skip, decline, cancel

    def meant(self, choice: str) -> str | None:
        return next((what for what, label in self.labels.items() if label == choice), None)


async def ask_person(server: str, wanted: Wanted, context: ToolContext) -> Given:
    """Ask the person whose call it is."""
    if context.elicit is None:
        note = f"The MCP server {server} wanted to ask the person something, and nobody can be asked in this call."
        return Given(action="decline", note=note)
    try:
        if wanted.url:
            return await _address(server, wanted, context)
        fields = fields_of(wanted.message, wanted.schema)
    except NotAsked as error:
        note = f"The MCP server {server} wanted to ask the person something, and they were not asked: {error}."
        return Given(action="decline", note=note)
    if not fields:
        return await _yes(server, wanted.message, context)
    if context.person is None and (len(fields) > 1 or not _shown_choices(fields[0])):
        note = f"The MCP server {server} asked for words, and it is not known whose they would have to be."
        return Given(action="decline", note=note)
    return await _Form(server, wanted.message, fields, context).filled()


async def _yes(server: str, message: str, context: ToolContext) -> Given:
    prompt = context.phrase("mcp_asks", server=server, message=clean(message, LONGEST))
    controls = _controls(context, (), "cancel")
    choice = await _choice(context, prompt, ("yes", "no"), controls)
    match controls.meant(choice) if choice is not None else "decline":
        case "cancel":
            return Given(action="cancel")
        case _ if choice == "yes":
            return Given(action="accept", content={})
        case _:
            return Given(action="decline")


async def _address(server: str, wanted: Wanted, context: ToolContext) -> Given:
    """Show where it leads; who opens it is the person, and nothing is fetched here. Raises NotAsked."""
    host = _host_of(wanted.url)
    key = "mcp_address_first" if wanted.before else "mcp_address"
    message = clean(wanted.message, LONGEST)
    prompt = context.phrase(key, server=server, message=message, url=wanted.url, host=host)
    agreed = context.phrase("mcp_opened" if wanted.before else "mcp_open")
    controls = _controls(context, (agreed,), "decline", "cancel")
    choice = await _choice(context, prompt, (agreed,), controls)
    if choice == agreed:
        return Given(action="accept")
    return Given(action="cancel" if choice is not None and controls.meant(choice) == "cancel" else "decline")


def _host_of(url: str) -> str:
    """The host as it is looked up: no look-alike letters of other alphabets hide in it. Raises NotAsked."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except (ValueError, UnicodeError):
        host, parts, port = "", urlsplit(""), None
    is_near = host == "localhost" or host.startswith("127.") or host == "::1"
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_near)):
        raise NotAsked("it wanted an address opened that is no https address")
    if parts.username or parts.password or len(url) > LONGEST_ADDRESS or re.search(r"[\s\x00-\x1f<>\"]", url):
        raise NotAsked("it wanted an address opened that nobody should open")
    return f"{host}:{port}" if port else host


@dataclass(slots=True)
class _Form:
    """The questions of one form, and what was answered."""

    server: str
    message: str
    fields: Sequence[Field]
    context: ToolContext
    content: dict[str, Any] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    trouble: str = ""  # why the last words did not fit
    begun: bool = False

    async def filled(self) -> Given:
        for one in self.fields:
            tries = 0
            while one.name not in self.content and one.name not in self.skipped:
                ended = await self._ask(one)
                if ended is not None:
                    return ended
                tries += bool(self.trouble)
                if tries == MOST_TRIES:
                    note = f"The person was asked for {one.label!r} {MOST_TRIES} times, and no answer fitted."
                    return Given(action="decline", note=note)
        return Given(action="accept", content=self.content)

    async def _ask(self, one: Field) -> Given | None:
        """One question; what ends the form, or None."""
        context, shown = self.context, _shown_choices(one)
        wanted = (*(("skip",) if one.may_be_skipped else ()), "decline", "cancel")
        controls = _controls(context, shown, *wanted)
        prompt = self._prompt(one, has_buttons=bool(shown))
        choice = await _choice(context, prompt, shown, controls, in_words=self._in_words(one))
        self.trouble, self.begun = "", True
        if choice is None:
            return Given(action="decline", note=f"The person did not answer the MCP server {self.server} in time.")
        match controls.meant(choice):
            case "skip":
                self.skipped.add(one.name)
                if one.default is not None:
                    self.content[one.name] = one.default
            case "decline" | "cancel" as action:
                return Given(action="decline" if action == "decline" else "cancel")
            case _:
                self._take(one, choice)
        return None

    def _take(self, one: Field, words: str) -> None:
        """Keep what fits of the words, and say of the first that does not why."""
        open_ones = [each for each in self.fields if each.name not in self.content and each.name not in self.skipped]
        several = in_one_message(open_ones, words) if len(self.fields) > 1 else None
        for each in open_ones:
            given = words if several is None and each is one else (several or {}).get(each.name)
            if given is None:
                continue
            try:
                self.content[each.name] = value_of(each, given)
            except Unfit as error:
                why = self.context.phrase(error.phrase, **error.values)
                self.trouble = self.trouble or self.context.phrase("form_unfit", label=each.label, why=why)

    def _prompt(self, one: Field, *, has_buttons: bool) -> str:
        phrase, lines = self.context.phrase, []
        if self.trouble:
            lines.append(self.trouble)
        message = clean(self.message, LONGEST)
        lines.append(
            phrase("mcp_asks_on", server=self.server)
            if self.begun
            else phrase("mcp_asks", server=self.server, message=message)
        )
        if len(self.fields) > 1 and not self.begun:
            lines += [phrase("form_several", count=len(self.fields)), *(f"• {each.label}" for each in self.fields)]
        if len(self.fields) > 1:
            number = list(self.fields).index(one) + 1
            lines.append(phrase("form_number_of", number=number, count=len(self.fields), label=one.label))
        else:
            lines.append(one.label)
        lines += [text for text in (one.help, self._hint(one)) if text]
        if one.options and not has_buttons:
            lines += [f"{number}. {option.label}" for number, option in enumerate(one.options, 1)]
        if self._in_words(one) and self.context.asker.chat_type != "direct":
            lines.append(phrase("form_in_group"))
        return "\n".join(lines)

    def _in_words(self, one: Field) -> bool:
        """Whether any words of the person are their answer: those beside the buttons of a single field are none."""
        return len(self.fields) > 1 or not _shown_choices(one)

    def _hint(self, one: Field) -> str:
        """The values that fit, and the present one."""
        phrase, schema = self.context.phrase, one.schema
        format = schema.get("format")
        hints = {"integer": "form_whole_number", "number": "form_number", "choices": "form_choose_several"}
        found = [phrase(hints[one.kind])] if one.kind in hints else []
        if one.kind == "text" and format in ("email", "uri", "date", "date-time"):
            found.append(phrase(f"form_{str(format).replace('-', '_')}"))
        if one.default is not None:
            found.append(phrase("form_default", value=_said(one)))
        return " ".join(found)


def _said(one: Field) -> str:
    """The default, as people read it."""
    labels = {option.value: option.label for option in one.options}
    values = one.default if isinstance(one.default, list) else [one.default]
    return clean(", ".join(labels.get(str(value), str(value)) for value in values), LONGEST)


def _shown_choices(one: Field) -> tuple[str, ...]:
    """The buttons that answer a field."""
    if one.kind == "boolean":
        return ("yes", "no")
    labels = tuple(option.label for option in one.options)
    fits = len(labels) <= MOST_BUTTONS and all(len(label) <= LONGEST_BUTTON for label in labels)
    return labels if one.kind == "choice" and fits else ()


def _controls(context: ToolContext, shown: Sequence[str], *wanted: str) -> _Controls:
    """A choice of the server's own that is called alike keeps its name."""
    taken = {label.casefold() for label in shown}
    labels = {what: context.phrase(f"form_{what}") for what in wanted}
    return _Controls({what: f"✕ {label}" if label.casefold() in taken else label for what, label in labels.items()})


async def _choice(
    context: ToolContext,
    prompt: str,
    choices: tuple[str, ...],
    controls: _Controls,
    *,
    in_words: bool = False,
) -> str | None:
    assert context.elicit is not None
    labels = tuple(controls.labels.values())
    question = Question(
        prompt=prompt,
        asked_of=context.person,
        choices=(*choices, *labels),
        asides=len(labels),
        takes_words=in_words,
        timeout_s=ASKS_FOR_S,
    )
    return (await context.elicit(question)).choice
