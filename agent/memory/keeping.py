"""What of a message is worth keeping: its words in pieces, its code apart, nothing of greetings. Pure."""

from agent.memory.records import LONGEST_SAID, Kept
from agent.memory.words import code_in, is_about_something, text_pieces, without_code


def kept_of(
    text: str,
    *,
    person: str | None,
    speaker: str,
    session: str | None,
    message_id: int | None,
    inbox_id: int | None,
) -> tuple[Kept, ...]:
    """The things to keep of one message; `person` None: the agent said it."""
    said = [piece for piece in text_pieces(without_code(text), LONGEST_SAID) if is_about_something(piece)]
    code = [block[:LONGEST_SAID] for block in code_in(text)]
    return tuple(
        Kept(
            kind="said" if number < len(said) else "code",
            text=part,
            source="chat",
            person=person,
            speaker=speaker,
            session=session,
            message_id=message_id,
            inbox_id=inbox_id,
            piece=number,
        )
        for number, part in enumerate((*said, *code))
    )
