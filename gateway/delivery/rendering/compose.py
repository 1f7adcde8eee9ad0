"""Platform messages of an agent's answer: parse, split, attach. Looks at files, sends nothing."""

from pathlib import Path

from agent.core.outbox import Button as AgentButton
from agent.core.outbox import FileRef, OutgoingMessage
from agent.core.phrases import Phrases
from agent.core.untrusted_text import worked_on
from gateway.channels.channel import Capabilities
from gateway.channels.document import Document, Paragraph, Plain, Text
from gateway.channels.outbound import Button, File, Outbound
from gateway.delivery.egress import Guard
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.rendering.markdown import LONG_TEXT, parse
from gateway.delivery.rendering.splitting import split


def compose(
    row: Claimed,
    capabilities: Capabilities,
    home: Path,
    phrase: Phrases,
    language: str,
    guard: Guard = Guard(),  # noqa: B008
) -> list[Outbound]:
    """The messages of a row in order; the same row gives the same ones, also after a restart.

    Guarded before it is split: a secret in two pieces would be none. The first is the reply and answers the
    interaction, the last text holds the buttons. The files of a reply to some work follow in a message of their own,
    because its text may take the place of a preview, which cannot grow a file.
    """
    say, guard = row.say, guard.on(capabilities)
    files, notes = _files(say.files, capabilities.upload_limit, home, phrase, language)
    if say.without_buttons and not capabilities.buttons:
        notes.append(say.without_buttons)
    parts: list[tuple[Document, tuple[File, ...]]] = [
        (part, ())
        for part in split(guard.document(_document(say, notes)), capabilities.text_limit, capabilities.measure)
    ]
    with_buttons = max(len(parts) - 1, 0)
    has_no_preview = say.kind == "notice" or row.inbox_id is None
    if files and parts and has_no_preview and say.private_to is None:
        parts[-1] = (parts[-1][0], files)
    elif files:
        parts.append(((), files))
    buttons = buttons_of(say.buttons) if capabilities.buttons else ()
    return [
        Outbound(
            document=document,
            key=row.key(number),
            reply_to=say.reply_to if number == 0 else None,
            answers=say.answers,
            interaction=say.interaction if number == 0 else None,
            buttons=buttons if number == with_buttons else (),
            files=attached,
            tone=say.tone,
        )
        for number, (document, attached) in enumerate(parts)
    ]


async def composed(
    row: Claimed,
    capabilities: Capabilities,
    home: Path,
    phrase: Phrases,
    language: str,
    guard: Guard = Guard(),  # noqa: B008
) -> list[Outbound]:
    """The same, while everybody else's turn goes on."""
    return await worked_on(
        row.say.text, lambda _: compose(row, capabilities, home, phrase, language, guard), long=LONG_TEXT
    )


def _document(say: OutgoingMessage, notes: list[str]) -> Document:
    text = f"{say.text}\n\n{say.while_open}" if say.while_open else say.text
    document = (Plain(text),) if say.verbatim else parse(text)
    return (*document, *(Paragraph((Text(note),)) for note in notes))


def buttons_of(rows: tuple[tuple[AgentButton, ...], ...]) -> tuple[tuple[Button, ...], ...]:
    """An agent's buttons as a channel takes them."""
    return tuple(
        tuple(Button(label=button.label, action=button.action, style=button.style) for button in row) for row in rows
    )


def _files(
    refs: tuple[FileRef, ...], limit: int, home: Path, phrase: Phrases, language: str
) -> tuple[tuple[File, ...], list[str]]:
    """The files that can go, and a sentence for each that cannot."""
    files: list[File] = []
    notes: list[str] = []
    for ref in refs:
        path = home / ref.path
        if not path.is_file():
            notes.append(phrase("attachment_missing", language, name=ref.name))
        elif path.stat().st_size > limit:
            notes.append(phrase("attachment_too_large", language, name=ref.name))
        else:
            files.append(File(path=path, name=ref.name, mime_type=ref.mime_type, voice=ref.voice))
    return tuple(files), notes


def flagged(message: Outbound, note: str, capabilities: Capabilities) -> Outbound | None:
    """The message with a line that says it may be a repeat; None when there is no room for one."""
    match message.document:
        case (Plain(text), *rest):
            document: Document = (Plain(f"{note}\n{text}"), *rest)
        case blocks:
            document = (Paragraph((Text(note),)), *blocks)
    if capabilities.measure(document) > capabilities.text_limit:
        return None
    return Outbound(
        document=document,
        key=message.key,
        reply_to=message.reply_to,
        answers=message.answers,
        buttons=message.buttons,
        files=message.files,
        silent=message.silent,
        interaction=message.interaction,
        tone=message.tone,
    )
