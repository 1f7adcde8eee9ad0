"""People, groups and chats of other programs, by the names that they have here. Pure.

Other programs name the same ids of the platforms, with prefixes of their own; a name that is no id says nothing here,
because its owner can give it away.
"""

import re

PLATFORMS = ("telegram", "discord", "slack")
_PREFIX = re.compile(r"(?:telegram|tg|discord|slack|user|channel|group|chat|dm|direct|id|pk)[:/]", re.IGNORECASE)
_PEOPLE = {
    "telegram": re.compile(r"[1-9]\d{0,18}"),
    "discord": re.compile(r"\d{15,20}"),
    "slack": re.compile(r"[UW][A-Z0-9]{5,20}"),
}
_GROUPS = {
    "telegram": re.compile(r"-\d{1,18}"),
    "discord": re.compile(r"\d{15,20}"),
    "slack": re.compile(r"[CG][A-Z0-9]{5,20}"),
}
_SLACK_CHAT = re.compile(r"[CGD][A-Z0-9]{5,20}")
_PERSON = re.compile(r"(?:discord:)?(?:user|dm|direct):", re.IGNORECASE)
_TELEGRAM_CHAT = re.compile(r"(?P<chat>-?[1-9]\d{0,18})(?:(?::topic)?:(?P<topic>\d{1,18}))?")


def person(platform: str, written: str) -> str:
    """The person as `[access]` names them; "" where it is no id."""
    id = without_prefix(written)
    return f"{platform}:{id}" if platform in _PEOPLE and _PEOPLE[platform].fullmatch(id) else ""


def group(platform: str, written: str) -> str:
    """The group as `[access]` names it; "" where it is no id."""
    id = without_prefix(written)
    return f"{platform}:{id}" if platform in _GROUPS and _GROUPS[platform].fullmatch(id) else ""


def chat(platform: str, written: str, account: str = "default") -> str:
    """The conversation; "" where the id does not tell it, such as that of a person on Discord or Slack."""
    id, place = without_prefix(written), ""
    if platform == "telegram" and (found := _TELEGRAM_CHAT.fullmatch(id)):
        place = f"{found['chat']}:{found['topic']}" if found["topic"] else found["chat"]
    elif platform == "discord" and _GROUPS[platform].fullmatch(id):
        place = "" if _PERSON.match(written.strip()) else id
    elif platform == "slack" and _SLACK_CHAT.fullmatch(id):
        place = id
    kind = platform if account in ("", "default") else f"{platform}@{account}"
    return f"{kind}:{place}" if place else ""


def is_direct(conversation: str) -> bool:
    """Whether a conversation that `chat` gave is one with a single person."""
    kind, _, place = conversation.partition(":")
    platform = kind.partition("@")[0]
    return (platform == "telegram" and not place.startswith("-")) or (platform == "slack" and place.startswith("D"))


def own_chat(person: str) -> str:
    """The direct chat of a person; "" where their id does not tell it."""
    platform, _, id = person.partition(":")
    return chat(platform, id) if platform == "telegram" else ""


def without_prefix(written: str) -> str:
    """The id alone."""
    id = written.strip()
    while found := _PREFIX.match(id):
        id = id[found.end() :]
    return id
