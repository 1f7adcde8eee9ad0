"""Callbacks to those who must hear of an operator's changes while the gateway runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.core.ids import ConversationId
from gateway.channels.keys import ConversationKey
from gateway.receivers.receivers import Outcome
from gateway.storage.grants import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCallbacks:
    """Without one nobody need hear. `settle` ends the ledger's delay.

    `reconnect` connects an MCP server anew, by its name; False where there is none. `test_alerts` sends a test by each
    way, in the name of who asked, `test_event` one to a subscription; None: there is none. `events_retried` hears that
    events are to be sent again, or that the subscription of that name is switched on.
    """

    granted: Callable[[Grant], object] = lambda grant: None
    deliver: Callable[[ConversationKey], object] = lambda key: None
    pairing_settled: Callable[[str, Literal["approved", "denied"]], object] = lambda person, ending: None
    work: Callable[[ConversationId], object] = lambda conversation: None
    reconnect: Callable[[str], bool] = lambda server: False
    settle: Callable[[], Awaitable[None]] | None = None
    test_alerts: Callable[[str], Awaitable[Sequence[Outcome]]] | None = None
    test_event: Callable[[str], Awaitable[Outcome | None]] | None = None
    events_retried: Callable[[str], Awaitable[None]] | None = None
