"""Learning about skills: which one helps, which requests deserve one. One object for the process.

Nothing here can end a turn, and no turn waits for it: what is to be written waits for `run`, within bounds.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import anyio
from sqlalchemy.exc import SQLAlchemyError

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from agent.core.events import EventBus, LearningFailed, SkillDrafted, SkillPicked
from agent.core.ids import ConversationId, PersonId, RunId
from agent.core.untrusted_text import beginning_of, defused
from agent.skills.bandit import NoCandidates, Outcome, Use, counted
from agent.skills.drafts import Drafter
from agent.skills.hints import Pick, Router
from agent.skills.matching import without_call
from agent.skills.settings import LearningSettings
from agent.skills.signals import BEGINNING, Buckets, DraftTrigger, Holds, Observed, heard, pleased, signature_of
from agent.storage.errors import StorageError

WRITTEN_WITHIN_S = 5.0
MOST_TRIGGERS = 16  # drafts that wait to be written
MOST_REMEMBERED = 1_000  # conversations whose last hint is known

Sign = Literal["pleased", "displeased"]

log = logging.getLogger("tieline.skills")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hinted:
    """The last hint of a conversation. `outcome` None: its turn goes on, or was cut off.

    `use` is what became of the hint, `sign` what its person showed of the answer; `awaits_sign`: they may yet, with
    their next words or by taking it back. `asked` tells their request from others without keeping it.
    """

    pick: Pick
    at: datetime
    outcome: Outcome | None = None
    use: Use = "used"
    sign: Sign | None = None
    awaits_sign: bool = False
    person: PersonId | None = None
    asked: int = 0


class Learning:
    """`drafter` None where there is no database to enter drafts in; turns are counted all the same (W-61).

    `redact` takes secrets out of what people wrote before anything is made of it.
    """

    def __init__(
        self,
        router: Router,
        drafter: Drafter | None,
        clock: Clock,
        bus: EventBus,
        *,
        settings: Callable[[], LearningSettings],
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.router = router
        self.buckets = Buckets()
        self._drafter = drafter
        self._clock = clock
        self._bus = bus
        self._settings = settings
        self._redact = redact
        self._hinted: BoundedMap[ConversationId, Hinted] = BoundedMap(MOST_REMEMBERED)
        self._triggers: deque[DraftTrigger] = deque(maxlen=MOST_TRIGGERS)
        self._work = anyio.Event()
        self._writing = anyio.Lock()  # what is being written while somebody wants it forgotten would come after
        self._credited = ConversationId("")  # the conversation whose turn ended last

    @property
    def settings(self) -> LearningSettings:
        return self._settings()

    async def open(self) -> None:
        """Read what was learnt before; where that fails it begins anew and adds to it later."""
        try:
            await self.router.open()
        except (StorageError, SQLAlchemyError) as error:
            log.warning("what was learnt about skills is not read: %s", _first_line(error))

    async def pick(
        self,
        candidates: Sequence[str],
        text: str,
        *,
        conversation: ConversationId,
        run: RunId,
        fresh: bool,
        work: str = "",
        fits: Mapping[str, float] | None = None,
        person: PersonId | None = None,
    ) -> Pick | None:
        """The skill to hint in a turn, of those that fit; None where the router is off or none does (W-05).

        `fresh`: a new session. `work`: see `Router.pick`. `fits` (0..1): how well each fits.
        """
        if not self._settings().router:
            return None
        if fresh and self.router.unread:
            try:
                await self.router.read_priors()
            except (StorageError, SQLAlchemyError) as error:
                self._failed("priors", error, conversation, run)
        if not candidates:
            return None
        try:
            pick = self.router.pick(candidates, text, work=work)
        except NoCandidates:
            return None
        if fits:
            pick = replace(pick, fit=fits.get(pick.name))
        self._note(conversation, Hinted(pick=pick, at=self._clock.now(), person=person, asked=hash(text)))
        self._bus.publish(
            SkillPicked(conversation=conversation, run=run, skill=pick.name, asked_for=pick.value is None)
        )
        return pick

    def credit(self, pick: Pick, outcome: Outcome, conversation: ConversationId, use: Use = "used") -> None:
        """The turn in which the skill was hinted has ended so, and that became of the hint (W-07)."""
        self.router.credit(pick.name, *counted(outcome, use))
        last = self._hinted.get(conversation)
        if last is not None and last.pick is pick:
            self._note(conversation, replace(last, outcome=outcome, use=use, awaits_sign=outcome == "success"))
        self._credited = conversation

    def hear(self, conversation: ConversationId, person: PersonId | None, text: str) -> None:
        """Somebody's next words: thanks count for the skill that was hinted before, a correction against it."""
        last = self._hinted.get(conversation)
        if last is None or not last.awaits_sign or last.person != person:
            return
        if heard(text, self._settings().feedback_threshold) is not None:
            self._signed(conversation, last, "displeased")
        else:
            self._signed(conversation, last, "pleased" if pleased(text) else None)

    def rate(self, conversation: ConversationId, person: PersonId | None, *, up: bool) -> bool:
        """Somebody has rated the last answer to them; whether that counts for a skill that was hinted for it."""
        last = self._hinted.get(conversation)
        if last is None or not last.awaits_sign or last.person != person:
            return False
        self._signed(conversation, last, "pleased" if up else "displeased")
        return last.use != "unused"

    def _signed(self, conversation: ConversationId, last: Hinted, sign: Sign | None) -> None:
        self._hinted[conversation] = replace(last, awaits_sign=False, sign=sign)
        if sign is not None and last.use != "unused":  # an answer that was made without it says nothing of it
            self.router.credit(last.pick.name, "success" if sign == "pleased" else "failure")
            self._credited = conversation

    def observe(
        self,
        conversation: ConversationId,
        text: str,
        outcome: Outcome,
        tools: Sequence[str],
        *,
        person: PersonId | None = None,
    ) -> DraftTrigger | None:
        """A person's request was worked on; what went well often enough is drafted soon."""
        text = beginning_of(text, BEGINNING, self._redact)
        trigger = self.buckets.observe(
            Observed(
                conversation=conversation,
                person=person,
                signature=signature_of(text),
                text=text,
                outcome=outcome,
                tools=tuple(tools),
            )
        )
        if trigger is not None and self._drafter is not None and self._settings().drafting:
            self._triggers.append(trigger)
            self._work.set()
        return trigger

    def take_back(self, conversation: ConversationId, text: str) -> None:
        """A person took back this request with its answer: it counts no longer, once for each time it did.

        That counts against the skill that was hinted in it.
        """
        last = self._hinted.get(conversation)
        if last is not None and last.awaits_sign and last.asked == hash(text):
            self._signed(conversation, last, "displeased")
        self.buckets.take_back(conversation, signature_of(beginning_of(without_call(text), BEGINNING, self._redact)))

    def hinted(self, conversation: ConversationId) -> Hinted | None:
        """The last hint there, since the process began: what `/why skill` tells of."""
        return self._hinted.get(conversation)

    def quoted_of(self, texts: Sequence[str]) -> Holds:
        """Whether a text is what a draft quotes of these messages, as far as they are quoted. Call it in a thread."""
        said = [defused(" ".join(self._redact(without_call(text)).split())) for text in texts]

        def holds(text: str) -> bool:
            return bool(text) and any(defused(text) in one for one in said)

        return holds

    async def forget(
        self, conversations: Sequence[ConversationId], holds: Holds | None, only_by: PersonId | None = None
    ) -> tuple[str, ...]:
        """Somebody wants words forgotten (None: all of these conversations), of one person or everybody's.

        Gives the names of drafts whose files could not be cleared. Raises StorageError.
        """
        async with self._writing:
            for conversation in conversations:
                self.buckets.forget(conversation, holds, only_by)
            meant = [one for one in self._triggers if one.conversation in conversations]
            for trigger in meant:  # not written yet
                if only_by not in (None, trigger.person):
                    continue
                if holds is None or any(map(holds, (trigger.signature, *trigger.examples))):
                    self._triggers.remove(trigger)
            if self._drafter is None:
                return ()
            gone, left = await self._drafter.forget(tuple(conversations), holds, only_by)
            self.router.forget(gone)
            self.router.unread = True
            return left

    async def run(self) -> None:
        """Write what was learnt, until cancelled."""
        while True:
            with anyio.move_on_after(WRITTEN_WITHIN_S):
                await self._work.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write all that waits. What cannot be written is logged and counted; outcomes are tried again later."""
        self._work = anyio.Event()
        async with self._writing:
            while self._triggers and self._drafter is not None:
                await self._draft(self._drafter, self._triggers.popleft())
            if self.router.waits:
                try:
                    await self.router.flush()
                except (StorageError, SQLAlchemyError) as error:
                    self._failed("outcomes", error, self._credited)

    async def _draft(self, drafter: Drafter, trigger: DraftTrigger) -> None:
        try:
            name = await drafter.draft(trigger)
        except (OSError, StorageError, SQLAlchemyError) as error:
            self._failed("draft", error, trigger.conversation)
            return
        if name is not None:
            self.router.unread = True
            drafted = SkillDrafted(conversation=trigger.conversation, skill=name, evidence=trigger.evidence)
            self._bus.publish(drafted)

    def _note(self, conversation: ConversationId, hinted: Hinted) -> None:
        self._hinted[conversation] = hinted

    def _failed(self, step: str, error: Exception, conversation: ConversationId, run: RunId | None = None) -> None:
        log.warning(
            "nothing is learnt of this (%s): %s", step, _first_line(error), extra={"conversation": conversation}
        )
        self._bus.publish(LearningFailed(conversation=conversation, run=run, step=step))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
