"""Style of the sender, noted in the transaction that stores the words, before anything else is done with them.

So it costs a turn no trip of its own, happens once whatever crashes, and what people take back is gone at once. A user
model that fails costs the line about style there and never the turn (W-04).
"""

import logging

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from agent.core.ids import PersonId
from agent.inbox import Work
from agent.memory import rows
from agent.storage.database import is_trouble
from agent.storage.timestamps import to_timestamp
from agent.style.detector import StyleDetector, line_of
from agent.style.user_model import Observation, UserModel
from agent.turn.states import States

log = logging.getLogger("tieline.turn")


def style_line(conn: Connection, work: Work, states: States, *, observe: bool) -> str:
    """The line on the sender's style for the model; "" for none. `observe`: these words are new, and count (W-02).

    Runs in the storage's thread; raises nothing but what stops every write.
    """
    model, person = states.runtime.user_model(), work.incoming.person
    if model is None or person is None or work.kind != "message":
        return ""
    try:
        if conn.dialect.name == "sqlite":  # a statement that fails leaves the transaction as it was
            return line_of(_seen(conn, model, person, work, states, observe=observe))
        with conn.begin_nested():
            return line_of(_seen(conn, model, person, work, states, observe=observe))
    except (DBAPIError, ValueError) as error:
        if is_trouble(error):
            raise
        reason = str(error).partition("\n")[0]
        log.warning("the style of %s is left out, the user model (%s) failed: %s", person, model.backend_tag, reason)
        return ""


def _seen(
    conn: Connection, model: UserModel, person: PersonId, work: Work, states: States, *, observe: bool
) -> StyleDetector:
    """The sender's style here with these words, which are kept with it; nothing where somebody wants none of it."""
    conversation, off = states.session.conversation, states.memory.off
    if off if off is not None else rows.is_off(conn, conversation):
        return StyleDetector()
    if not model.preferences(conn, person).adapt:
        return StyleDetector()
    audience = states.runtime.memory.scope(conversation, work.incoming.chat_type, person).own
    before = model.brief(conn, person, audience)
    seen = before.observe(work.incoming.text) if observe else before
    if seen is not before:
        at = to_timestamp(states.runtime.clock.now())
        model.observe(conn, person, audience, Observation(style=seen, at=at))
    return seen
