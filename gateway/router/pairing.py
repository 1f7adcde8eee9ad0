"""Unknown people in direct chats: they get a pairing code and nothing else (DESIGN §6)."""

import logging
import secrets
from functools import partial

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.core.outbox import Button, Buttons, OutgoingMessage
from agent.storage import conversation_rows
from agent.storage.timestamps import to_timestamp
from gateway.access.limits import Flood, Take
from gateway.access.pairing import LIFETIME, MOST_PENDING, code_from, digest
from gateway.access.policy import person_name
from gateway.channels.inbound import MessageReceived
from gateway.commands.command import MOST_ACTION, PRESS
from gateway.router.deps import RouterDeps
from gateway.router.identity import dedup_key
from gateway.router.incoming import language_of
from gateway.storage import pairings

LONGEST_NAME = 64

_log = logging.getLogger("tieline.router")


class PairingFlow:
    """Gives codes. One person has one open code at a time; what they write next is answered once more, that it still
    waits. All together at most 50 are open.

    The owners are told of each person, three in a row and then three in an hour, so that no crowd floods them and
    nobody who asks again and again hides the others. The log has each.
    """

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps
        self._flood = Flood(per_s=1 / 60, burst=3)
        self._news = Flood(per_s=1 / 3600, burst=1)  # of a person
        self._crowd = Flood(per_s=3 / 3600, burst=3)

    async def meet(self, said: MessageReceived) -> bool:
        """Tell them a new code, or once that theirs still waits; False, and silence, for anything more."""
        deps = self._deps
        if self._flood.take(person_name(said), deps.clock.monotonic()) is not Take.TAKEN:
            return False
        now, code = deps.clock.now(), code_from(secrets.token_bytes(16))
        text = deps.phrase("pairing", language_of(said), code=code)
        say = OutgoingMessage(text=text, kind="notice", verbatim=True, interaction=said.interaction)

        def work(conn: Connection) -> bool:
            """Code and message together: a code that its owner never heard of would keep them out for its lifetime."""
            made = pairings.ask(
                conn,
                code_hash=digest(code),
                subject=person_name(said),
                display=said.sender.display,
                conversation=str(said.key),
                language=language_of(said),
                now=to_timestamp(now),
                expires=to_timestamp(now + LIFETIME),
                most_open=MOST_PENDING,
            )
            if made:
                deps.notices.add(conn, said.key, say, dedup=dedup_key(said))
                conversation_rows.set_gone(conn, ConversationId(str(said.key)), gone=False)
            return made

        if not await deps.database.write(work):
            return await self._waits(said)
        deps.notices.committed(said.key)
        self._notify_operator(said)
        return True

    async def _waits(self, said: MessageReceived) -> bool:
        """Once for each code: a second message that meets silence looks like a bot that is broken."""
        deps, now = self._deps, to_timestamp(self._deps.clock.now())
        request = await deps.database.read(lambda conn: pairings.open_of(conn, person_name(said), now))
        if request is None:
            return False
        minutes = max(1, round((request.expires_at - now) / 60e6))
        text = deps.phrase("pairing_waits", language_of(said), minutes=minutes)
        say = OutgoingMessage(text=text, kind="notice", verbatim=True, interaction=said.interaction)
        await deps.notices.say(said.key, say, dedup=f"waits:{request.id}")
        return True

    def _buttons(self, person: str, language: str) -> Buttons:
        """What an admin may do about it with one press; none where the name is too long for a button."""
        actions = (("button_let_in", f"{PRESS}/allow {person}"), ("button_turn_away", f"{PRESS}/allow deny {person}"))
        if any(len(action.encode()) > MOST_ACTION for _, action in actions):
            return ()
        return (tuple(Button(label=self._deps.phrase(key, language), action=action) for key, action in actions),)

    def _notify_operator(self, said: MessageReceived) -> None:
        deps, name, person = self._deps, " ".join(said.sender.display.split())[:LONGEST_NAME], person_name(said)
        values: dict[str, object] = {"who": f"{name} ({person})".lstrip(), "channel": said.key.channel_type}
        values["person"] = person
        is_news = self._news.take(person, deps.clock.monotonic()) is Take.TAKEN
        if is_news and self._crowd.take("", deps.clock.monotonic()) is Take.TAKEN:
            deps.notify_owner("owner_pairing", values, partial(self._buttons, person))  # which logs it, too
        else:
            _log.warning("%s", deps.phrase("owner_pairing", "en", **values))
