"""What a Telegram message says: its text without the bot's name, how it addresses the bot, what it quotes. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.telegram.units import index_at
from gateway.channels.inbound import Mention

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The bot itself, as getMe tells."""

    id: int
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    text: str
    mention: Mention


def wording_of(message: Json, me: Me) -> Wording | None:
    """The text as the person meant it; None for a command that names another bot."""
    raw = message.get("text")
    text, entities = (
        (raw, message.get("entities")) if raw is not None else (message.get("caption"), message.get("caption_entities"))
    )
    if text is None:
        text = _spelled_out(message)
    cuts: list[tuple[int, int]] = []
    direct = False
    for entity in entities or ():
        start = index_at(text, entity["offset"])
        end = index_at(text, entity["offset"] + entity["length"])
        kind, word = entity["type"], text[start:end]
        named = kind == "mention" and word[1:].lower() == me.username.lower()
        if named or (kind == "text_mention" and entity.get("user", {}).get("id") == me.id):
            direct = True
            cuts.append((start, end))
        elif kind == "bot_command" and start == 0:
            command, at, bot = word.partition("@")
            if at and bot.lower() != me.username.lower():
                return None
            # In a group one without a name may be another bot's; the gateway knows its own (`access.policy.decide`).
            direct = direct or bool(at) or (message.get("chat") or {}).get("type") == "private"
            if at:
                cuts.append((len(command), end))
    if direct:
        return Wording(text=_without(text, cuts), mention=Mention.DIRECT)
    return Wording(text=text, mention=Mention.IMPLICIT if _answers(message, me) else Mention.NONE)


def quoted_in(message: Json) -> str | None:
    """The text of the message replied to, or the part of it that was picked out."""
    if picked := (message.get("quote") or {}).get("text"):
        return str(picked)
    original = message.get("reply_to_message") or {}
    # The first messages of a topic hang on the service message that opened it.
    if "forum_topic_created" in original:
        return None
    return original.get("text") or original.get("caption") or _rich_text(original.get("rich_message")) or None


def _answers(message: Json, me: Me) -> bool:
    original = message.get("reply_to_message") or {}
    return "forum_topic_created" not in original and original.get("from", {}).get("id") == me.id


def _without(text: str, cuts: Sequence[tuple[int, int]]) -> str:
    """The text without those ranges, and without the gap each leaves."""
    if not cuts:
        return text
    kept, position = "", 0
    for start, end in cuts:
        kept += text[position:start]
        if not kept.strip():
            end += len(text[end:]) - len(text[end:].lstrip(" ,:"))  # "@bot, hello"
        elif text[end : end + 1] in (",", ".", ":", ";", "!", "?"):
            kept = kept.rstrip()
        elif kept[-1].isspace() and text[end : end + 1] == " ":
            end += 1
        position = end
    return (kept + text[position:]).strip()


def _spelled_out(message: Json) -> str:
    """Words for what is neither text nor file, so that nothing a person sends is silently lost."""
    if sticker := message.get("sticker"):
        return str(sticker.get("emoji") or "[sticker]")
    if dice := message.get("dice"):
        return f"{dice.get('emoji', '')} {dice.get('value', '')}".strip()
    if venue := message.get("venue"):
        return f"[venue: {venue.get('title')}, {venue.get('address')}, {_position(venue.get('location') or {})}]"
    if location := message.get("location"):
        return f"[location: {_position(location)}]"
    if contact := message.get("contact"):
        name = " ".join(filter(None, (contact.get("first_name"), contact.get("last_name"))))
        return f"[contact: {name}, {contact.get('phone_number')}]"
    if poll := message.get("poll"):
        options = "; ".join(str(option.get("text")) for option in poll.get("options", ()))
        return f"[poll: {poll.get('question')} ({options})]"
    return _rich_text(message.get("rich_message"))


def _position(location: Json) -> str:
    return f"{location.get('latitude')}, {location.get('longitude')}"


def _rich_text(value: object) -> str:
    """The words of a received rich message, one line a block."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "".join(_rich_text(part) for part in value)
    if not isinstance(value, Mapping):
        return ""
    if "cells" in value:
        rows = (" | ".join(_rich_text(cell) for cell in row) for row in value["cells"])
        return "\n".join(rows) + "\n"
    if children := value.get("blocks") or value.get("items"):
        label = f"{value['label']} " if value.get("label") else ""
        return label + "".join(_rich_text(child).rstrip("\n") + "\n" for child in children)
    return _rich_text(value.get("text")) or _rich_text(value.get("expression"))
