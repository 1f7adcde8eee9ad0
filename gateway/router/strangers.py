"""Unknown people in direct chats: they get a pairing code and nothing else (DESIGN §6)."""

import logging
import secrets
from functools import partial

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.core.outbox import Button, Buttons, Say
from agent.storage import conversation_rows
from agent.storage.moments import to_us
from gateway.access.limits import Flood, Take
from gateway.access.pairing import LIFETIME, MOST_PENDING, code_from, digest
from gateway.access.policy import person_name
from gateway.channels.inbound import Said
from gateway.commands.command import MOST_ACTION, PRESS
from gateway.router.house import House
from gateway.router.identity import dedup_key
from gateway.router.incoming import language_of
from gateway.storage import pairings

LONGEST_NAME = 64

_log = logging.getLogger("tieline.router")


class Strangers:
    """Gives codes. One person has one open code at a time; what they write next is answered once more, that it still
    waits. All together at most 50 are open.

    The owners are told of each person, three in a row and then three in an hour, so that no crowd floods them and
    nobody who asks again and again hides the others. The log has each.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._flood = Flood(per_s=1 / 60, burst=3)
        self._news = Flood(per_s=1 / 3600, burst=1)  # of a person
        self._crowd = Flood(per_s=3 / 3600, burst=3)

    async def meet(self, said: Said) -> bool:
        """Tell them a new code, or once that theirs still waits; False, and silence, for anything more."""
        house = self._house
        if self._flood.take(person_name(said), house.clock.monotonic()) is not Take.TAKEN:
            return False
        now, code = house.clock.now(), code_from(secrets.token_bytes(16))
        text = house.phrase("pairing", language_of(said), code=code)
        say = Say(text=text, kind="notice", verbatim=True, interaction=said.interaction)

        def work(conn: Connection) -> bool:
            """Code and message together: a code that its owner never heard of would keep them out for its lifetime."""
            made = pairings.ask(
                conn,
                code_hash=digest(code),
                subject=person_name(said),
                display=said.sender.display,
                conversation=str(said.key),
                language=language_of(said),
                now=to_us(now),
                expires=to_us(now + LIFETIME),
                most_open=MOST_PENDING,
            )
            if made:
                house.notices.add(conn, said.key, say, dedup=dedup_key(said))
                conversation_rows.set_gone(conn, ConversationId(str(said.key)), gone=False)
            return made

        if not await house.database.write(work):
            return await self._waits(said)
        house.notices.committed(said.key)
        self._tell_operator(said)
        return True

    async def _waits(self, said: Said) -> bool:
        """Once for each code: a second message that meets silence looks like a bot that is broken."""
        house, now = self._house, to_us(self._house.clock.now())
        request = await house.database.read(lambda conn: pairings.open_of(conn, person_name(said), now))
        if request is None:
            return False
        minutes = max(1, round((request.expires_at - now) / 60e6))
        text = house.phrase("pairing_waits", language_of(said), minutes=minutes)
        say = Say(text=text, kind="notice", verbatim=True, interaction=said.interaction)
        await house.notices.say(said.key, say, dedup=f"waits:{request.id}")
        return True

    def _buttons(self, person: str, language: str) -> Buttons:
        """What an admin may do about it with one press; none where the name is too long for a button."""
        actions = (("button_let_in", f"{PRESS}/allow {person}"), ("button_turn_away", f"{PRESS}/allow deny {person}"))
        if any(len(action.encode()) > MOST_ACTION for _, action in actions):
            return ()
        return (tuple(Button(label=self._house.phrase(key, language), action=action) for key, action in actions),)

    def _tell_operator(self, said: Said) -> None:
        house, name, person = self._house, " ".join(said.sender.display.split())[:LONGEST_NAME], person_name(said)
        values: dict[str, object] = {"who": f"{name} ({person})".lstrip(), "channel": said.key.channel_type}
        values["person"] = person
        is_news = self._news.take(person, house.clock.monotonic()) is Take.TAKEN
        if is_news and self._crowd.take("", house.clock.monotonic()) is Take.TAKEN:
            house.tell_owner("owner_pairing", values, partial(self._buttons, person))  # which logs it, too
        else:
            _log.warning("%s", house.phrase("owner_pairing", "en", **values))
