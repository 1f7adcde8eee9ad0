"""Style of the sender, noted in the transaction that stores the words, before anything else is done with them.

So it costs a turn no trip of its own, happens once whatever crashes, and what people take back is gone at once. A user
model that fails costs the line about style there and never the turn (W-04).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from agent.core.clock import Clock
from agent.core.ids import PersonId
from agent.inbox import Work
from agent.memory.records import Scope
from agent.run.features import Feature, OnOpened
from agent.run.messages import also_told
from agent.run.run import Run
from agent.storage.database import attempted, is_trouble
from agent.storage.timestamps import to_timestamp
from agent.style.detector import StyleDetector, line_of
from agent.style.user_model import Observation, UserModel, adapts

log = logging.getLogger("tieline.turn")


@dataclass(frozen=True, slots=True)
class StyleFeature(Feature):
    """The style of whoever writes in one conversation (W-02).

    `user_model` keeps what is known of people, None: nobody does. `is_off`: people want nothing kept here. `scope`
    tells where what a person shows may be used, and their other accounts.
    """

    user_model: Callable[[], UserModel | None]
    is_off: Callable[[Connection], bool]
    scope: Callable[[Work], Scope]
    clock: Clock

    def opened(self, conn: Connection, work: Work, *, new: bool) -> OnOpened | None:
        """Tell the model of the sender's style. Words that are `new` count."""
        model, person = self.user_model(), work.incoming.person
        if model is None or person is None or work.kind != "message":
            return None
        try:
            with attempted(conn):
                line = line_of(self._seen(conn, model, person, work, new=new))
        except (DBAPIError, ValueError) as error:
            if is_trouble(error):
                raise
            reason = str(error).partition("\n")[0]
            log.warning(
                "the style of %s is left out, the user model (%s) failed: %s", person, model.backend_tag, reason
            )
            return None

        def told(run: Run) -> None:
            run.reminder = also_told(run.reminder, line)

        return told if line else None

    def _seen(self, conn: Connection, model: UserModel, person: PersonId, work: Work, *, new: bool) -> StyleDetector:
        """The sender's style here with these words, which are kept with it; nothing where somebody wants none of it.

        Each account keeps its own; they are put together on reading.
        """
        if self.is_off(conn):
            return StyleDetector()
        scope = self.scope(work)
        if not adapts(conn, model, scope.accounts):
            return StyleDetector()
        audience = scope.own
        before = model.brief(conn, person, audience)
        seen = before.observe(work.incoming.text) if new else before
        if seen is not before:
            at = to_timestamp(self.clock.now())
            model.observe(conn, person, audience, Observation(style=seen, at=at))
        return seen.filled_up([model.brief(conn, *other) for other in scope.by_account[1:]])
