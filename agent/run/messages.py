"""Words of a turn: how a message enters the transcript, what a reminder says, whose words they are. Pure."""

import re
from datetime import datetime
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

from agent.core.clock import shown_zone
from agent.core.messages import FilePart, Message, Part, TextPart
from agent.core.safe_files import Names
from agent.core.untrusted_text import defused, framed, harmless, one_line
from agent.inbox import Incoming, Quotation, Work
from agent.tools.files.paths import shown

FOLDER = "received"
QUOTED = "quoted"  # a folder in it
LONGEST_NAME = 64
REMINDER_ENDS = "</reminder>"
_QUOTE_OPENS = re.compile(r'^<quoted(?: from="(?P<writer>[^"\n]*)")?(?: files="[^"\n]*")?>\n', re.MULTILINE)
_QUOTE_CLOSES = "\n</quoted>"


def landed_as(work: Work, file: FilePart) -> Names:
    """Where a file of this work lies: the same after a crash."""
    name = PurePosixPath(file.path).name
    return (FOLDER, str(work.inbox_id), QUOTED, name) if file.quoted else (FOLDER, str(work.inbox_id), name)


def _paths(work: Work, *, quoted: bool) -> str:
    """The paths in the workspace of its own files, or of the quoted ones."""
    return ", ".join(shown(landed_as(work, file)) for file in work.incoming.files if file.quoted is quoted)


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


def user_message(work: Work, at: datetime) -> Message:
    """The message as it enters the transcript: who wrote it where that is not plain, what it quotes, files, words."""
    incoming = work.incoming
    parts: list[Part] = []
    if header := _header(work):
        parts.append(TextPart(text=header))
    parts += incoming.files
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


def _header(work: Work) -> str:
    incoming = work.incoming
    lines = []
    if work.kind == "reminder":
        lines.append("<scheduled>A reminder that was set earlier is due; nobody has just written this.</scheduled>")
    elif work.kind == "system":
        lines.append("<scheduled>The gateway itself asks for this; nobody has just written it.</scheduled>")
    elif incoming.chat_type != "direct":
        lines.append(f"<sender>{named(incoming)}</sender>")
    if own := _paths(work, quoted=False):
        lines.append(f"<files>{own}</files>")
    if incoming.brought is not None:
        lines.append(framed(incoming.brought.text, incoming.brought.source))
    if incoming.quoted is not None:
        lines.append(_quotation(work, incoming.quoted))
    return "\n".join(lines)


def _quotation(work: Work, words: str) -> str:
    """The message that is answered: whose it is, where its files are, its words."""
    writer = defused(one_line(work.incoming.quoted_from)).replace('"', "'")
    told = (("from", writer), ("files", _paths(work, quoted=True)))
    marks = "".join(f' {name}="{value}"' for name, value in told if value)
    return f"<quoted{marks}>\n{harmless(words)}\n</quoted>"
