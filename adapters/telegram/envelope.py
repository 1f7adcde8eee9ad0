"""Around the text: to whom it answers, which buttons it carries, in which topic it stands. Pure."""

from collections.abc import Sequence
from typing import Any

from gateway.channels.errors import ChannelRejected
from gateway.channels.outbound import Button, Outbound

ACTION_BYTES = 64  # Bot API, callback_data
_STYLES = {"primary": "primary", "danger": "danger"}


def envelope(message: Outbound, topic: int | None) -> dict[str, Any]:
    """The parameters that every send method shares."""
    parameters: dict[str, Any] = {}
    if topic is not None:
        parameters["message_thread_id"] = topic
    if message.silent:
        parameters["disable_notification"] = True
    if message.reply_to and message.reply_to.isdigit():
        parameters["reply_parameters"] = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
    if message.buttons:
        parameters["reply_markup"] = keyboard(message.buttons)
    return parameters


def keyboard(rows: Sequence[Sequence[Button]]) -> dict[str, Any]:
    """Raises ChannelRejected for an action Telegram cannot carry."""
    return {"inline_keyboard": [[_button(button) for button in row] for row in rows]}


def _button(button: Button) -> dict[str, str]:
    size = len(button.action.encode())
    if not 1 <= size <= ACTION_BYTES:
        raise ChannelRejected(f"the action of button {button.label!r} has {size} bytes; Telegram takes 1 to 64")
    style = {"style": _STYLES[button.style]} if button.style in _STYLES else {}
    return {"text": button.label, "callback_data": button.action, **style}
