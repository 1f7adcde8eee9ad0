"""Who hears how a call of a model goes while it is under way. What is heard changes nothing of the call."""

from typing import Protocol

from agent.core.errors import AgentError
from agent.providers.metering import Spent
from agent.providers.provider import Provider


class Watcher(Protocol):
    """Hears how a call goes. Nothing in it waits or raises."""

    def begins(self, provider: Provider) -> None:
        """An attempt begins."""

    def answers(self, provider: Provider) -> None:
        """The first piece of an attempt has come."""

    def delta(self, text: str) -> None:
        """The reply grows."""

    def void(self) -> None:
        """What came of this attempt does not count: another follows."""

    def passes(self, provider: Provider, error: AgentError) -> None:
        """This call does not ask that provider again: another one is next."""

    def waits(self, provider: Provider, error: AgentError, failures: int, delay_s: float) -> None:
        """The call will be made again after `delay_s`."""

    def spent(self, spent: Spent) -> None:
        """What an attempt took; also one that was cut off, since it is paid for all the same."""


class Unwatched:
    """For calls whose way nobody sees."""

    def begins(self, provider: Provider) -> None: ...
    def answers(self, provider: Provider) -> None: ...
    def delta(self, text: str) -> None: ...
    def void(self) -> None: ...
    def passes(self, provider: Provider, error: AgentError) -> None: ...
    def waits(self, provider: Provider, error: AgentError, failures: int, delay_s: float) -> None: ...
    def spent(self, spent: Spent) -> None: ...
