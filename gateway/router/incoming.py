"""From what a platform told to what an agent reads. Pure."""

from collections.abc import Sequence

from agent.core.ids import PersonId
from agent.core.messages import FilePart
from agent.inbox import AccessRole, Incoming
from gateway.access.policy import Role, person_name
from gateway.channels.inbound import Received, Said

ROLE_NAMES: dict[Role, AccessRole] = {Role.MEMBER: "member", Role.ADMIN: "admin", Role.OWNER: "owner"}


def incoming_from(said: Said, role: Role, files: Sequence[FilePart] = (), text: str | None = None) -> Incoming:
    """The message as the inbox stores it; `text` in place of its own, if given."""
    return Incoming(
        text=said.text if text is None else text,
        person=PersonId(person_name(said)),
        display=said.sender.display,
        language=language_of(said),
        role=ROLE_NAMES[role],
        chat_type=said.chat_type.value,
        files=tuple(files),
        quoted=said.quoted,
        message_ref=None if said.interaction_id else said.message_id,
        interaction=said.interaction,
        received_at=said.received_at,
    )


def language_of(inbound: Received) -> str:
    """The person's language as the platform tells it, without region; English where it does not."""
    return (inbound.sender.language or "en").partition("-")[0].lower()
