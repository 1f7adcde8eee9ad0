"""Words of a turn: how a message enters the transcript, what a reminder says, whose words they are. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

from agent.core.clock import shown_zone
from agent.core.messages import FilePart, Message, Part, TextPart
from agent.core.safe_files import Names
from agent.core.untrusted_text import defused, framed, harmless, one_line
from agent.documents.documents import Document, told
from agent.inbox import Incoming, Work
from agent.tools.files.paths import shown

FOLDER = "received"
LONGEST_NAME = 64
LONGEST_QUOTE = 4_000
LONGEST_SOURCE = 80  # characters of a document's name
REMINDER_ENDS = "</reminder>"
_QUOTE_OPENS = re.compile(r"^<quoted>\n", re.MULTILINE)
_QUOTE_CLOSES = "\n</quoted>"


def landed_as(work: Work, file: FilePart) -> Names:
    """Where a file of this work lies: the same after a crash. Two of an album may have one name."""
    name = PurePosixPath(file.path).name
    others = [one.path for one in work.incoming.files if PurePosixPath(one.path).name == name]
    at = others.index(file.path) if file.path in others else 0
    return (FOLDER, str(work.inbox_id), f"{at}-{name}" if at else name)


def text_landed_as(work: Work, file: FilePart) -> Names:
    """Where the text that was read out of the file lies, beside it."""
    *folder, name = landed_as(work, file)
    return (*folder, f"{name}.txt")


def told_of(work: Work, documents: Sequence[Document] = ()) -> str:
    """The line that tells the model where its files are, and what was read of those that are documents."""
    read = {document.file.path: document for document in documents}
    lines = []
    for file in work.incoming.files:
        path, document = shown(landed_as(work, file)), read.get(file.path)
        lines.append(f"{path} ({told(document, shown(text_landed_as(work, file)))})" if document is not None else path)
    return f"<files>{', '.join(lines)}</files>"


def reminder_for(now: datetime, work: Work, *, hint: str = "") -> str:
    """Date, time and sender, and a hint of the gateway, put right before the sender's own words."""
    incoming = work.incoming
    who = f"From {named(incoming)}, {incoming.role}." if work.kind == "message" else "Nobody has just written this."
    lines = [told_time(now, incoming.zone), who, *filter(None, (hint,))]
    return "\n".join(("<reminder>", *lines, REMINDER_ENDS))


def told_time(now: datetime, zone: str | None) -> str:
    """Date and time where the person lives, and in UTC."""
    if zone is None or zone == "UTC":
        return f"It is {now:%A, %Y-%m-%d %H:%M} UTC."
    local = now.astimezone(ZoneInfo(zone))
    return f"It is {local:%A, %Y-%m-%d %H:%M} where this person lives ({shown_zone(zone)}), {now:%Y-%m-%d %H:%M} UTC."


def with_skill(reminder: str, name: str) -> str:
    """The reminder with one more line, about a skill, which binds the model to nothing (W-08).

    It is the last one: it is another in each turn, and earlier in the request all that follows it were paid for again.
    """
    hint = f'The skill "{harmless(" ".join(name.split()))}" may help here; use it only if it fits.'
    return also_told(reminder, hint)


def also_told(reminder: str, line: str) -> str:
    """The reminder with one line more of the gateway."""
    return f"{reminder.removesuffix(REMINDER_ENDS)}{line}\n{REMINDER_ENDS}" if line else reminder


def user_message(work: Work, at: datetime, documents: Sequence[Document] = ()) -> Message:
    """The message as it enters the transcript: who wrote it where that is not plain, what it quotes, files, words.

    `documents` are those of its files that were read.
    """
    incoming, read = work.incoming, {document.file.path: document for document in documents}
    parts: list[Part] = []
    if header := _header(work, documents):
        parts.append(TextPart(text=header))
    for file in incoming.files:
        document = read.get(file.path)
        parts += (document.file, *document.pages) if document is not None else (file,)
    if incoming.text.strip() or not incoming.files:
        parts.append(TextPart(text=harmless(incoming.text)))
    return Message(role="user", parts=tuple(parts), created_at=at)


def quoted_in(message: Message) -> str | None:
    """The message that a stored user message answers, as its header has it."""
    header = message.parts[0] if message.parts else None
    if not isinstance(header, TextPart) or len(message.parts) < 2 or not header.text.endswith(_QUOTE_CLOSES):
        return None
    opens, closes = _QUOTE_OPENS.search(header.text), len(header.text) - len(_QUOTE_CLOSES)
    return header.text[opens.end() : closes] if opens is not None and opens.end() <= closes else None


def named(incoming: Incoming) -> str:
    """A person's name and id on one line; the name is their own choice and therefore cut and made harmless."""
    shown = shown_name(incoming)
    if incoming.person is None:
        return shown or "an unnamed person"
    return f"{shown} ({incoming.person})" if shown else incoming.person


def shown_name(incoming: Incoming) -> str:
    """A person's own name, cut and harmless; "" where they have none."""
    return defused(" ".join(incoming.display.split())[:LONGEST_NAME]).replace('"', "'")


def _header(work: Work, documents: Sequence[Document]) -> str:
    incoming = work.incoming
    lines = []
    if work.kind == "reminder":
        lines.append("<scheduled>A reminder that was set earlier is due; nobody has just written this.</scheduled>")
    elif work.kind == "system":
        lines.append("<scheduled>The gateway itself asks for this; nobody has just written it.</scheduled>")
    elif incoming.chat_type != "direct":
        lines.append(f"<sender>{named(incoming)}</sender>")
    if incoming.files:
        lines.append(told_of(work, documents))
    lines += [framed(one.beginning.rstrip("\n"), _source(one.file)) for one in documents if one.beginning]
    if incoming.brought is not None:
        lines.append(framed(incoming.brought.text, incoming.brought.source))
    if incoming.quoted:
        quoted = incoming.quoted[:LONGEST_QUOTE]
        lines.append(f"<quoted>\n{harmless(quoted)}\n</quoted>")
    return "\n".join(lines)


def _source(file: FilePart) -> str:
    """A document's name in the frame of its text."""
    return defused(one_line(file.name, LONGEST_SOURCE)).replace('"', "'")
