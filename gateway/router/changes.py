"""Changes of places: a message changed or taken back before its turn, a group with a new key, a bot removed."""

import logging
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio
from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.group_context import rows as group_rows
from agent.memory import notes
from agent.storage import conversation_rows, inbox_rows
from agent.storage.timestamps import to_timestamp
from agent.tools.files.paths import move_workspace, workspace_of
from agent.tools.output_files import move_outputs, outputs_of
from gateway.channels.inbound import Deleted, Edited, Membership, Moved, Outcome, Receipt
from gateway.channels.keys import ConversationKey
from gateway.router.messages import language_of, notice_for
from gateway.router.ports import RouterDeps
from gateway.storage import grants, places
from gateway.storage.grants import Grant
from gateway.storage.rekey import rekey, rekey_grants

_log = logging.getLogger("tieline.router")


class Changes:
    """Each is safe to hear twice."""

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps

    async def edited(self, edited: Edited) -> Receipt:
        """A message whose turn has not begun gets its new words; later edits change nothing.

        The first of the later ones in a conversation is told so; the next are not, who corrects a typo knows by then.
        """
        conversation, ref, text = _id(edited), edited.message_id, edited.text
        words = self._deps.phrase("edited_late", language_of(edited))

        def edit(conn: Connection) -> bool:
            version = edited.version
            group_rows.edit(conn, conversation, ref, text)
            if inbox_rows.edit(conn, conversation=conversation, platform_ref=ref, text=text, version=version):
                return True
            if inbox_rows.is_edited_late(conn, conversation=conversation, platform_ref=ref, text=text):
                say = notice_for(edited, words)
                self._deps.notices.add(conn, edited.key, say, dedup=f"edited late:{conversation}")
            return False

        if await self._deps.database.write(edit):
            return Receipt(Outcome.ACCEPTED)
        self._deps.notices.committed(edited.key)
        return Receipt(Outcome.IGNORED, "its turn has begun, or a newer edit was there before")

    async def deleted(self, deleted: Deleted) -> Receipt:
        """A message taken back before its turn is not answered."""
        conversation, ref = _id(deleted), deleted.message_id

        def take_back(conn: Connection) -> bool:
            group_rows.take_back(conn, conversation, ref)
            return inbox_rows.take_back(conn, conversation=conversation, platform_ref=ref)

        taken = await self._deps.database.write(take_back)
        return Receipt(Outcome.ACCEPTED) if taken else Receipt(Outcome.IGNORED, "its turn has begun")

    async def moved(self, moved: Moved) -> Receipt:
        """History, queue, preference, settings, grants and files follow to the new key."""
        old, new = _id(moved), ConversationId(str(moved.new_key))
        listed = self._listed(moved)

        def work(conn: Connection) -> bool:
            rekey_grants(conn, _place(moved.key, moved.place), _place(moved.key, moved.new_place))
            if listed is not None:
                grants.give(conn, listed)
            return rekey(conn, old, new)

        # The agent first: what it would still write under the old key must not be mixed in.
        self._deps.conversations.stop(old, "the chat has moved")
        changed = await self._deps.database.write(work)
        await self._move_files(old, new)  # before it is acknowledged: nobody tells it again
        self._deps.book.replace(await self._deps.database.read(grants.all_grants))
        for key in (moved.key, moved.new_key):
            await self._deps.settings.refresh(key)
        if changed:
            self._deps.renamed(old, new)
        self._deps.notices.committed(moved.new_key)
        # An agent takes its time to end, and the platform's other chats are not to wait for it.
        self._deps.later(partial(self._settle, old, new))
        return Receipt(Outcome.ACCEPTED) if changed else Receipt(Outcome.IGNORED, "nothing known there")

    async def _settle(self, old: ConversationId, new: ConversationId) -> None:
        """Once both agents, who know of no move, are asleep: what the old one still wrote follows, the work goes on."""
        await self._deps.conversations.forget(old)
        await self._deps.conversations.forget(new)
        await self._move_files(old, new)
        self._deps.wake(new)

    async def _move_files(self, old: ConversationId, new: ConversationId) -> None:
        attachments = self._deps.attachments
        for conversation in (old, new):
            await self._deps.sync_notes(conversation)
        await anyio.to_thread.run_sync(_move_files, attachments.home, old, new, self._deps.clock.now())
        for folder_of in (outputs_of, workspace_of):
            before, after = (str(folder_of(Path(), name)) for name in (old, new))
            await attachments.files.move(before, after)
        for conversation in (old, new):
            await self._deps.sync_notes(conversation)

    def _listed(self, moved: Moved) -> Grant | None:
        """A grant for the new place of a group that the configuration lets in by its old name."""
        if _place(moved.key, moved.place) not in self._deps.live.settings.access.allow_groups:
            return None
        return Grant(
            subject=_place(moved.key, moved.new_place),
            kind="place",
            role="member",
            granted_by=_place(moved.key, moved.place),
            at=to_timestamp(self._deps.clock.now()),
        )

    async def membership(self, membership: Membership) -> Receipt:
        """Shown out: send nothing there and tell the owner once. Back: go on with what is waiting.

        It holds for every conversation of the place, its topics and threads too.
        """
        deps, key = self._deps, _id(membership)
        also = [ConversationId(str(each)) for each in membership.also]

        def work(conn: Connection) -> list[ConversationId]:
            known = {each: None for one in (key, *also) for each in places.within(conn, one)}
            changed = [
                conversation
                for conversation in known
                if conversation_rows.is_gone(conn, conversation) is membership.present
            ]
            for conversation in changed:
                conversation_rows.set_gone(conn, conversation, gone=not membership.present)
            if not membership.present:
                for place in (key, *also):
                    group_rows.forget_place(conn, place)
            return changed

        changed = await deps.database.write(work)
        if not changed:
            return Receipt(Outcome.DUPLICATE)
        for conversation in changed:
            if membership.present:
                deps.wake(conversation)
                deps.notices.committed(ConversationKey.parse(conversation))
            else:
                deps.conversations.stop(conversation, "the bot was removed")
        if not membership.present:
            deps.notify_owner("owner_gone", {"chat": str(membership.key)}, told=str(membership.key))
        return Receipt(Outcome.ACCEPTED)


def _id(inbound: Edited | Deleted | Moved | Membership) -> ConversationId:
    return ConversationId(str(inbound.key))


def _move_files(home: Path, old: ConversationId, new: ConversationId, at: datetime) -> None:
    """Move files to the new name. If the disk refuses, they keep the old one; the log says so, the chat goes on."""
    for follow in (move_workspace, partial(notes.follow, at=at), move_outputs):
        try:
            follow(home, old, new)
        except OSError as error:
            _log.error("not all files of %s followed to %s: %s", old, new, error)


def _place(key: ConversationKey, place: str) -> str:
    """The name of the place in grants and settings."""
    return f"{key.platform}:{place}"
