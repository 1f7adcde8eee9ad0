"""Slack's wire text made readable: escapes undone, links, mentions and the bot's own name resolved. Pure."""

import re

_TOKEN = re.compile(r"<([^<>\n]+)>")
_ESCAPES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))  # in this order: `&amp;lt;` is the text `&lt;`


def readable(text: str) -> str:
    """What a person sees, for text as Slack sends it (docs.slack.dev, "Formatting message text")."""
    return unescaped(_TOKEN.sub(lambda match: _shown(match[0], match[1]), text)) if "<" in text else unescaped(text)


def without_mention(text: str, bot_user: str) -> tuple[str, bool]:
    """The wire text with the bot's mention taken out, and whether there was one."""
    if not bot_user or f"<@{bot_user}" not in text:
        return text, False
    name = rf"<@{re.escape(bot_user)}(?:\|[^<>]*)?>"
    shorter, found = re.subn(rf"^\s*{name}[:,]?\s*|[ \t]?{name}", "", text)
    return (shorter.strip(), True) if found else (text, False)


def unescaped(text: str) -> str:
    """The three entities of Slack's wire text as the characters they stand for."""
    if "&" in text:
        for entity, character in _ESCAPES:
            text = text.replace(entity, character)
    return text


def escaped(text: str) -> str:
    """Text for Slack's wire: a reader sees exactly `text`, and nothing in it can become a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shown(token: str, content: str) -> str:
    target, _, label = content.partition("|")
    if target.startswith(("@", "#")):
        return target[0] + (label or target[1:]).removeprefix(target[0])
    if target.startswith("!"):  # <!here>, <!subteam^S1|@team>, <!date^…|fallback>
        return label or "@" + target[1:].partition("^")[0]
    if target.startswith(("mailto:", "tel:")):
        address = target.partition(":")[2]
        return address if label in ("", address) else f"{label} ({address})"
    if "://" in target:
        bare = target.partition("://")[2].rstrip("/")
        # Slack makes a link of a bare host name by itself: `<http://x.org|x.org>` was typed as `x.org`.
        return label if label.rstrip("/") == bare else (f"{label} ({target})" if label else target)
    return token
