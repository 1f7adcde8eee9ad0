"""Money in the gateway: the accounts of a conversation, the warning that a budget ends, and the right to allow more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from agent.core.bounded_map import BoundedMap
from agent.core.events import BudgetReached, EventBus, Published
from agent.core.ids import ConversationId, random_uuid
from agent.core.outbox import Buttons, OutgoingMessage
from agent.inbox import Incoming
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Account, OverBudget, Scope, amount
from gateway.channels.keys import ConversationKey
from gateway.commands.place.fields import limits_of
from gateway.commands.state.spending import more_button
from gateway.conversations.place_settings import PlaceSettings
from gateway.phrases.catalogue import Catalogue
from gateway.router.ports import Notices
from gateway.running.basics import Basics
from gateway.running.messaging import Messaging
from gateway.running.monitoring.alerts import Alerts
from gateway.running.rights import Rights

REMEMBERED = 500  # budgets whose refused chats are told when more is allowed
MOST_TOLD = 20  # of them for one budget


async def open_ledger(basics: Basics, rights: Rights, place_settings: PlaceSettings) -> Ledger:
    """The ledger of this process, with what earlier ones spent and what a killed one left behind."""
    live = basics.live
    ledger = Ledger(
        database=basics.database,
        clock=basics.clock,
        new_id=random_uuid,
        bus=basics.bus,
        journal=basics.home / "ledger.journal",
        spending=live.limits,
        places=partial(places_of, place_settings),
        limits_of=partial(limits_of, place_settings),
        accounts_of=rights.identities.accounts,
    )
    await ledger.open()
    return ledger


def places_of(place_settings: PlaceSettings, conversation: ConversationId) -> tuple[str, ...]:
    """Its own name, then those of the group, server or team around it, then its account's."""
    key = ConversationKey.parse(conversation)
    return (conversation, *(str(one) for one in place_settings.around(key)), key.channel_type)


class SpendingService:
    """Tells the owners of budgets that come near or are used up, and the refused when more is allowed."""

    def __init__(
        self,
        bus: EventBus,
        alerts: Alerts,
        notices: Notices,
        phrase: Catalogue,
        together: Callable[[Account], Sequence[Account]],
    ) -> None:
        """`together` gives the accounts that more for one of them is more for, that one first."""
        self._alerts = alerts
        self._notices = notices
        self._phrase = phrase
        self._together = together
        self._refused: BoundedMap[Account, dict[ConversationId, tuple[str, int]]] = BoundedMap(REMEMBERED)
        bus.listen(self._heard, [BudgetReached])

    def relief(self, error: OverBudget, incoming: Incoming, conversation: ConversationId) -> Buttons:
        """Buttons below a refusal. None in a member's own chat: the owners get a button of their own."""
        account = error.applied.account
        chats = self._refused.setdefault(account, {})
        if len(chats) < MOST_TOLD:
            chats[conversation] = (incoming.language, error.approvals)
        if incoming.chat_type == "direct" and incoming.role in ("member", "guest"):
            return ()
        return more_button(self._phrase, incoming.language, account, error.approvals)

    async def more_allowed(self, account: Account, where: ConversationKey) -> None:
        """Tell the chats that were refused, but for the one in which it was allowed."""
        refused = [(one, *each) for one in self._together(account) for each in self._refused.pop(one, {}).items()]
        for one, conversation, (language, approvals) in refused:
            if conversation == str(where):
                continue
            say = OutgoingMessage(text=self._phrase("budget_allowed", language), kind="notice", verbatim=True)
            dedup = f"budget:{one.scope}:{one.name}:{one.period}:{approvals}:{conversation}"
            await self._notices.say(ConversationKey.parse(conversation), say, dedup=dedup)

    def renamed(self, old: str, new: str) -> None:
        """Tell the chat under its new name when more is allowed."""
        for account, chats in list(self._refused.items()):
            if old in chats:
                chats[ConversationId(new)] = chats.pop(ConversationId(old))
            if account.scope == "channel" and account.name == old:
                self._refused.setdefault(account._replace(name=new), {}).update(self._refused.pop(account, {}))

    def _heard(self, published: Published) -> None:
        event = published.event
        if not isinstance(event, BudgetReached):
            return
        account = Account(cast(Scope, event.scope), event.payer, event.period)
        spent, limit = (
            (amount(event.spent_usd, "usd"), amount(event.usd, "usd"))
            if event.usd is not None
            else (amount(event.spent_tokens, "tokens"), amount(event.tokens or 0, "tokens"))
        )
        key = "owner_budget_out" if event.hard else "owner_budget_near"
        values: dict[str, object] = {"who": str(account), "period": account.period, "limit": limit}
        if not event.hard:  # else the same sentence would be said again for every refused call
            values["spent"] = spent
        self._alerts.tell(
            key,
            values,
            lambda language: more_button(self._phrase, language, account, event.approvals),
            told=event.conversation if event.hard else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The ledger, and what is told of budgets."""

    ledger: Ledger
    service: SpendingService

    def renamed(self, old: str, new: str) -> None:
        """Take up that a place has a new name: its budgets follow, and so do the chats that were refused."""
        self.ledger.budgets.rename(old, new)
        self.service.renamed(old, new)


def install_spending(basics: Basics, ledger: Ledger, messaging: Messaging) -> Spending:
    together = ledger.budgets.together
    service = SpendingService(basics.bus, messaging.alerts, messaging.notices, basics.phrase, together)
    return Spending(ledger=ledger, service=service)
