"""Emoji characters → the names that Slack's reactions go by. Pure."""

import re

_NAMES = {
    "👀": "eyes", "👍": "thumbsup", "👎": "thumbsdown", "👌": "ok_hand", "🙏": "pray", "👏": "clap", "🎉": "tada",
    "❤": "heart", "🔥": "fire", "🤔": "thinking_face", "⏳": "hourglass_flowing_sand", "⌛": "hourglass",
    "✅": "white_check_mark", "✔": "heavy_check_mark", "☑": "ballot_box_with_check", "❌": "x", "⚠": "warning",
    "🛑": "octagonal_sign", "🚫": "no_entry_sign", "💤": "zzz", "🤖": "robot_face", "✍": "writing_hand",
    "👋": "wave", "💡": "bulb", "🔁": "repeat", "📎": "paperclip", "🔧": "wrench", "😢": "cry", "😀": "grinning",
    "🤝": "handshake", "💯": "100", "🆗": "ok", "❓": "question", "❗": "exclamation", "⏰": "alarm_clock",
    "🕐": "clock1", "🧠": "brain", "📝": "memo", "🚀": "rocket",
    "⏸": "double_vertical_bar", "⏹": "black_square_for_stop",
}  # fmt: skip


def emoji_name(emoji: str) -> str | None:
    """The name of an emoji, given as a character or (also for a workspace's own) as a name; None if it is unknown."""
    bare = emoji.replace("\ufe0f", "").strip()
    if bare in _NAMES:
        return _NAMES[bare]
    name = bare.strip(":")
    return name if re.fullmatch(r"[a-z0-9_+'-]+", name) else None
