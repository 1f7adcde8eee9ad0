"""What makes two deliveries the same thing: the keys of the inbox (DESIGN §13.1)."""

from gateway.channels.inbound import ButtonClicked, Edited, MessageReceived, Received


def dedup_key(inbound: Received) -> str:
    """`<channel_type>:<place>:<message id>`, with `:e<version>` for an edit and `:i<id>` for an interaction.

    A live event, its twin and the same message read from history have the same key.
    """
    key = f"{inbound.key.channel_type}:{inbound.place}:{inbound.message_id}"
    match inbound:
        case Edited():
            return f"{key}:e{inbound.version}"
        case ButtonClicked():
            return f"{key}:i{inbound.interaction_id}"
        case MessageReceived(interaction_id=str() as interaction):
            return f"{key}:i{interaction}"
        case _:
            return key


def event_key(inbound: Received) -> str | None:
    """The platform's own update or event id, unique within the account."""
    return f"{inbound.key.channel_type}:{inbound.event_id}" if inbound.event_id else None
