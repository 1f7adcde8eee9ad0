"""Words of a turn: how a message enters the transcript, what a reminder says, whose words they are. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

from agent.core.clock import shown_zone
from agent.core.files.safe import Names
from agent.core.messages import FilePart, Message, Part, TextPart
from agent.core.untrusted_text import defused, framed, harmless, one_line
from agent.documents.documents import Document, told
from agent.inbox import Incoming, Quotation, Work
from agent.tools.files.paths import shown

FOLDER = "received"
QUOTED = "quoted"  # a folder in it
LONGEST_NAME = 64
LONGEST_SOURCE = 80  # characters of a document's name
REMINDER_ENDS = "</reminder>"
_QUOTE_OPENS = re.compile(r'^<quoted(?: from="(?P<writer>[^"\n]*)")?(?: files="[^"\n]*")?>\n', re.MULTILINE)
_QUOTE_CLOSES = "\n</quoted>"


def landed_as(work: Work, file: FilePart) -> Names:
    """Where a file of this work lies: the same after a crash. Two of an album may have one name."""
    name = PurePosixPath(file.path).name
    folder = (FOLDER, str(work.inbox_id), *((QUOTED,) if file.quoted else ()))
    beside = (one.path for one in work.incoming.files if one.quoted is file.quoted)
    others = [path for path in beside if PurePosixPath(path).name == name]
    at = others.index(file.path) if file.path in others else 0
    return (*folder, f"{at}-{name}" if at else name)


def text_landed_as(work: Work, file: FilePart) -> Names:
    """Where the text that was read out of the file lies, beside it."""
    *folder, name = landed_as(work, file)
    return (*folder, f"{name}.txt")


def _paths(work: Work, documents: Sequence[Document], *, quoted: bool) -> str:
    """The paths in the workspace of its own files, or of the quoted ones, and what was read of documents among them."""
    read = {document.file.path: document for document in documents}
    told_of = []
    for file in work.incoming.files:
        if file.quoted is quoted:
            path, document = shown(landed_as(work, file)), read.get(file.path)
            of_it = told(document, shown(text_landed_as(work, file))) if document is not None else ""
            told_of.append(f"{path} ({of_it})" if of_it else path)
    return ", ".join(told_of)


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


def quoted_in(message: Message) -> Quotation | None:
    """The message that a stored user message answers, as its header has it."""
    header = message.parts[0] if message.parts else None
    if not isinstance(header, TextPart) or len(message.parts) < 2 or not header.text.endswith(_QUOTE_CLOSES):
        return None
    opens, closes = _QUOTE_OPENS.search(header.text), len(header.text) - len(_QUOTE_CLOSES)
    if opens is None or opens.end() > closes:
        return None
    return Quotation(text=header.text[opens.end() : closes], writer=opens["writer"] or "")


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
    if own := _paths(work, documents, quoted=False):
        lines.append(f"<files>{own}</files>")
    lines += [framed(one.beginning.rstrip("\n"), _source(one.file)) for one in documents if one.beginning]
    if incoming.brought is not None:
        lines.append(framed(incoming.brought.text, incoming.brought.source))
    if incoming.quoted is not None:
        lines.append(_quotation(work, incoming.quoted, documents))
    return "\n".join(lines)


def _quotation(work: Work, words: str, documents: Sequence[Document]) -> str:
    """The message that is answered: whose it is, where its files are, its words."""
    writer = defused(one_line(work.incoming.quoted_from)).replace('"', "'")
    told = (("from", writer), ("files", _paths(work, documents, quoted=True).replace('"', "'")))
    marks = "".join(f' {name}="{value}"' for name, value in told if value)
    return f"<quoted{marks}>\n{harmless(words)}\n</quoted>"


def _source(file: FilePart) -> str:
    """A document's name in the frame of its text."""
    return defused(one_line(file.name, LONGEST_SOURCE)).replace('"', "'")
