"""The operator's commands on the queues: waiting, under way, given up; tried again, or dropped."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.payloads import decode_incoming, decode_outgoing
from agent.storage.timestamps import from_timestamp
from gateway.channels.keys import ConversationKey
from gateway.operations.callbacks import OperationCallbacks
from gateway.storage.queues import inbox_entries, outbox_entries
from gateway.web.control import OperationError as Refusal

DROPPED = "dropped by the operator"
IN, OUT = "in-", "out-"  # before a dead letter's number: both boxes count from 1

Json = Any
Row = Callable[[Connection, int], ConversationId | None]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Over one open database."""

    database: Database
    callbacks: OperationCallbacks

    def table(self) -> Mapping[str, Callable[[Mapping[str, Json]], Awaitable[Json]]]:
        """By the names that `tieline` uses."""
        return {
            "inbox.list": self.inbox_list,
            "inbox.retry": self.inbox_retry,
            "inbox.drop": self.inbox_drop,
            "outbox.list": self.outbox_list,
            "outbox.retry": self.outbox_retry,
            "outbox.drop": self.outbox_drop,
            "dead.list": self.dead_list,
            "dead.retry": self.dead_retry,
            "dead.drop": self.dead_drop,
        }

    async def inbox_list(self, _: Mapping[str, Json]) -> Json:
        return [_incoming(letter) for letter in await self.database.read(inbox_entries.waiting)]

    async def inbox_retry(self, arguments: Mapping[str, Json]) -> Json:
        """A message that waits for its moment is due now."""
        row = _number(arguments, "`tieline inbox`")
        return self._work(
            await self._do(inbox_entries.now, row, "no message waits under the number", "`tieline inbox`")
        )

    async def inbox_drop(self, arguments: Mapping[str, Json]) -> Json:
        row = _number(arguments, "`tieline inbox`")

        def take_out(conn: Connection, id: int) -> ConversationId | None:
            return inbox_entries.take_out(conn, id, why=DROPPED)

        found = await self._do(take_out, row, "no message waits for its turn under the number", "`tieline inbox`")
        return {"conversation": found}

    async def outbox_list(self, _: Mapping[str, Json]) -> Json:
        return [_outgoing(letter) for letter in await self.database.read(outbox_entries.still_open)]

    async def outbox_retry(self, arguments: Mapping[str, Json]) -> Json:
        row = _number(arguments, "`tieline outbox`")
        return self._deliver(await self._do(outbox_entries.now, row, "nothing is to be sent as", "`tieline outbox`"))

    async def outbox_drop(self, arguments: Mapping[str, Json]) -> Json:
        row = _number(arguments, "`tieline outbox`")

        def give_up(conn: Connection, id: int) -> ConversationId | None:
            return outbox_entries.give_up(conn, id, why=DROPPED)

        found = await self._do(give_up, row, "nothing is to be sent as", "`tieline outbox`")
        return {"conversation": found}

    async def dead_list(self, _: Mapping[str, Json]) -> Json:
        """Both ways, newest first."""

        def read(conn: Connection) -> tuple[Sequence[inbox_entries.InboxEntry], Sequence[outbox_entries.OutboxEntry]]:
            return inbox_entries.dead(conn), outbox_entries.dead(conn)

        incoming, outgoing = await self.database.read(read)
        letters = [{**_incoming(letter), "id": f"{IN}{letter.id}"} for letter in incoming]
        letters += [{**_outgoing(letter), "id": f"{OUT}{letter.id}"} for letter in outgoing]
        return sorted(letters, key=lambda letter: str(letter["at"]), reverse=True)

    async def dead_retry(self, arguments: Mapping[str, Json]) -> Json:
        box, row = _dead_number(arguments)
        if box == IN:
            return self._work(
                await self._do(inbox_entries.revive, row, f"there is no dead letter {IN}", "`tieline dead`")
            )
        return self._deliver(
            await self._do(outbox_entries.revive, row, f"there is no dead letter {OUT}", "`tieline dead`")
        )

    async def dead_drop(self, arguments: Mapping[str, Json]) -> Json:
        box, row = _dead_number(arguments)
        bury = inbox_entries.bury if box == IN else outbox_entries.bury
        return {"conversation": await self._do(bury, row, f"there is no dead letter {box}", "`tieline dead`")}

    async def _do(self, row: Row, number: int, missing: str, listed: str) -> ConversationId:
        conversation = await self.database.write(lambda conn: row(conn, number))
        if conversation is None:
            raise Refusal(f"{missing}{'' if missing.endswith('-') else ' '}{number}", fix=f"{listed} lists them")
        return conversation

    def _work(self, conversation: ConversationId) -> Json:
        self.callbacks.work(conversation)
        return {"conversation": conversation}

    def _deliver(self, conversation: ConversationId) -> Json:
        self.callbacks.deliver(ConversationKey.parse(conversation))
        return {"conversation": conversation}


def _number(arguments: Mapping[str, Json], listed: str) -> int:
    row = arguments.get("id")
    if not isinstance(row, int):
        raise Refusal("which one?", fix=f"give the number that {listed} shows")
    return row


def _dead_number(arguments: Mapping[str, Json]) -> tuple[str, int]:
    """The queue of a dead letter, and its number there."""
    given = str(arguments.get("id", ""))
    for box in (IN, OUT):
        if given.startswith(box) and given.removeprefix(box).isdecimal():
            return box, int(given.removeprefix(box))
    raise Refusal("which one?", fix=f"give what `tieline dead` shows, such as {IN}12 or {OUT}7")


def _incoming(letter: inbox_entries.InboxEntry) -> dict[str, Json]:
    try:
        text = decode_incoming(letter.payload).text
    except ValueError:
        text = "(unreadable)"
    return {
        "id": letter.id,
        "conversation": letter.conversation,
        "at": from_timestamp(letter.created_at).isoformat(),
        "attempts": letter.attempts,
        "state": "under work" if letter.attempts and letter.not_before is None else "waits",
        "until": _moment(letter.not_before),
        "why": letter.why,
        "text": text,
    }


def _moment(at: int | None) -> str:
    """ISO 8601, UTC; whoever shows it has a clock of their own. "" for none."""
    return "" if at is None else from_timestamp(at).isoformat()


def _outgoing(letter: outbox_entries.OutboxEntry) -> dict[str, Json]:
    try:
        say = decode_outgoing(letter.payload)
        text = say.text if say.spoken is None else say.spoken.text
    except ValueError:
        text = "(unreadable)"
    return {
        "id": letter.id,
        "conversation": letter.conversation,
        "at": from_timestamp(letter.created_at).isoformat(),
        "attempts": letter.attempts,
        "state": "on its way" if letter.status == "sending" and letter.not_before is None else "waits",
        "until": _moment(letter.not_before),
        "why": letter.why,
        "text": text,
    }
