"""The memory of one person: how much there is, all of it as a file, and its erasure by the service of /memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from agent.core.ids import ConversationId, PersonId
from agent.core.phrases import counted
from agent.memory import erasure_rows, rows
from agent.memory import graph as graph_rows
from agent.memory.erasure import preview
from agent.memory.records import Scope, audience_of_person
from agent.memory.rows import Target
from gateway.commands.kept.memory import MOST_RELATIONS, exported
from gateway.commands.kept.style import StyleCommandDeps, style_in
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done
from gateway.dashboard.people.memory import MemoryPages
from gateway.scheduler import store as schedule_store
from gateway.storage import conversation_list
from gateway.storage.conversation_list import MOST_MESSAGES
from gateway.web.control import OperationError

MOST_TRACES = 5_000  # turns that a page looks at, the newest first


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOfPerson:
    """Numbers of what is kept of a person in all their accounts, by kind. `groups` are places where they were answered.

    `messages` counts those of their direct chats. `remembered` are pieces of them that recall can find.
    """

    facts: int
    remembered: int
    relations: int
    messages: int
    groups: int
    schedules: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that erasure would remove."""
        return not (self.facts or self.remembered or self.relations or self.messages or self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chats:
    """The conversations of a person: their own, and those of others in which they were answered."""

    direct: Sequence[ConversationId]
    groups: Sequence[ConversationId]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonData:
    """The data of a person: numbers, a file, and the erasure."""

    memory: MemoryPages
    style: StyleCommandDeps
    readings: Readings

    def kept(self, conn: Connection, account: str) -> KeptOfPerson:
        """How much there is."""
        accounts = self.memory.memory.accounts(PersonId(account))
        audiences = [audience_of_person(one) for one in accounts]
        amounts = rows.amounts(conn, audiences).values()
        chats = self._chats(conn, accounts, most=MOST_TRACES)
        return KeptOfPerson(
            facts=sum(one.facts for one in amounts),
            remembered=sum(one.said for one in amounts),
            relations=len(graph_rows.listed(conn, audiences, most=MOST_RELATIONS)),
            messages=conversation_list.count_messages(conn, chats.direct),
            groups=len(chats.groups),
            schedules=schedule_store.counts(conn, ConversationId(account), accounts).theirs,
        )

    async def export(self, request: Request) -> Response:
        """The file of `/memory export` in the person's direct chat."""
        account = request.path_params["account"]
        scope = self._private(ConversationId(account), PersonId(account))
        style = await style_in(self.style, scope)
        written = await self.memory.database.read(lambda conn: exported(conn, scope.theirs, style))
        await self.readings.note(request, "people.export", account)
        headers = {"content-disposition": 'attachment; filename="memory.json"'}
        return Response(written, media_type="application/json", headers=headers)

    async def erase(self, request: Request) -> Done:
        """Forgets all as the person could: `/memory forget all` in their direct chats, and in groups of their words."""
        account, form = request.path_params["account"], await request.form()
        if str(form.get("confirm") or "").strip() != account:
            raise OperationError("nothing was erased: that is not the id of this person", fix=f"type {account}")
        accounts = self.memory.memory.accounts(PersonId(account))
        chats = await self.memory.database.read(lambda conn: self._chats(conn, accounts))
        facts = messages = files = 0
        for target in self._targets(account, accounts, chats):
            there = await preview(self.memory.memory, target)
            erased = await self.memory.erase_there(target.scope.conversation, target, there)
            facts, messages, files = facts + erased.facts, messages + erased.messages, files + len(erased.left)
        text = f"Erased of {account}: {counted(facts, 'fact')} and {counted(messages, 'message')}."
        if files:
            text += f" {counted(files, 'file')} could not be removed; the log names them."
        return Done(text=text, subject=account, detail=f"{facts} facts, {messages} messages, {files} files left")

    def _targets(self, account: str, accounts: Sequence[PersonId], chats: Chats) -> Iterator[Target]:
        for key in chats.direct or (ConversationId(account),):
            yield Target(scope=self._private(key, PersonId(account)))
        for key in chats.groups:
            for one in accounts:
                yield Target(scope=self.memory.memory.scope(key, "group", one), only_by=one)

    def _private(self, key: ConversationId, person: PersonId) -> Scope:
        return self.memory.memory.scope(key, "direct", person)

    def _chats(self, conn: Connection, accounts: Sequence[PersonId], *, most: int | None = None) -> Chats:
        """Where they were. The kind of a chat stands in the inbox, whose entries go after [retention] inbox_days: then
        a chat in which others spoke is a group."""
        remembered = rows.conversations(conn, [audience_of_person(one) for one in accounts])
        answered = conversation_list.where_answered(conn, accounts, most=most)
        spoken = conversation_list.where_spoken(conn, accounts, most=None if most is None else MOST_MESSAGES)
        found = list(dict.fromkeys((*remembered, *answered, *spoken)))
        types: Mapping[ConversationId, str] = conversation_list.chat_types(conn, found)
        shared = erasure_rows.shared(conn, [key for key in found if types.get(key, "") in ("", "direct")], accounts)
        groups = [key for key in found if key in shared or types.get(key) in ("group", "channel")]
        return Chats(direct=[key for key in found if key not in groups], groups=groups)
