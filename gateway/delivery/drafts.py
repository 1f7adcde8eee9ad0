"""The previews that are under way, by place: the reply takes one over, or it goes from the screen."""

from collections.abc import Callable
from functools import partial

from gateway.channels.keys import ConversationKey
from gateway.delivery.draft import Draft
from gateway.delivery.refs import Shown
from gateway.delivery.showing import Discard, Spawn
from gateway.delivery.sleep import Later


class Drafts:
    """`has_more` says whether a row of the place may still come and take a draft; `later` begins them."""

    def __init__(
        self, spawn: Spawn, later: Later, discard: Discard, has_more: Callable[[ConversationKey], bool]
    ) -> None:
        self._spawn = spawn
        self._later = later
        self._discard = discard
        self._has_more = has_more
        self._drafts: dict[ConversationKey, list[Draft]] = {}

    def open(self, key: ConversationKey, draft: Draft) -> None:
        """Show it as it grows."""
        self._drafts.setdefault(key, []).append(draft)
        self._later.start(draft)

    def end(self, key: ConversationKey, draft: Draft) -> None:
        """Its turn is over. If a row is still on its way it may take the draft, else the draft goes."""
        draft.ended = True
        if not self._has_more(key):
            self.drop_ended(key)

    def drop(self, key: ConversationKey, draft: Draft) -> None:
        """Take it from the screen; no row may have it any more."""
        self._remove(key, draft)
        self._spawn(partial(self._drop, key, draft))

    def drop_ended(self, key: ConversationKey) -> None:
        """Nothing is on its way any more: those whose turn is over go."""
        for draft in [draft for draft in self._drafts.get(key, ()) if draft.ended]:
            self.drop(key, draft)

    async def take(self, key: ConversationKey, work: int) -> Shown | None:
        """What the draft of that work has on the screen, for the reply to take its place; it is the reply's now."""
        for draft in [draft for draft in self._drafts.get(key, ()) if draft.audience.inbox_id == work]:
            self._remove(key, draft)
            return await draft.take()
        return None

    def _remove(self, key: ConversationKey, draft: Draft) -> None:
        drafts = self._drafts[key]
        drafts.remove(draft)
        if not drafts:
            del self._drafts[key]

    async def _drop(self, key: ConversationKey, draft: Draft) -> None:
        shown = await draft.take()
        if shown is not None:
            self._discard(key, "preview", shown)
