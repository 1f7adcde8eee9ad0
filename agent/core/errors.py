"""Errors of an agent; the class says what the caller may do next (Z-32).

AgentError
├── Transient            retry later
│   ├── ProviderBusy     rate limit, overload, 5xx, time-out, cut connection; `after_s` if the provider said so
│   ├── NoProviders      nothing can answer now (Z-25)
│   └── LockTimeout      the conversation's lease was not to be had in time (B-12)
├── Permanent            tell the person
│   ├── ProviderRefused  bad key, quota, no such model: asking again changes nothing
│   │   ├── KeyRefused      the key is not taken, or may not do this: another key may
│   │   └── RequestInvalid  the request itself is wrong (400, 422): what stands in it may be to blame
│   │       └── RequestFiltered  a content filter of the service keeps it back
│   ├── ContextTooLong   the request is larger than the model's window
│   ├── AgentMissing     no such agent definition (B-09)
│   └── AgentInvalid     the definition has mistakes, all of them listed (B-10)
├── Refused              a gate said no
│   ├── NoModelAllowed   to every model that is configured: the rules of the place name others
│   └── ProviderBarred   to a call of this provider: another one may be asked
│       └── ProviderUnpriced  because nobody said what its model costs
├── Fenced               another owner has taken the conversation: drop the agent, write nothing
└── ToolError            a tool failed; `transient` tells whether a retry may help (Z-34)
    └── OutOfScope       the call reaches for what this conversation may not touch (B-36)
"""

from collections.abc import Sequence


class AgentError(Exception):
    """Root of the agent's errors."""


class Transient(AgentError):
    """May work later, unchanged."""


class ProviderBusy(Transient):
    """The provider could not answer now.

    `limited`: it works, and has had too many calls from us. `sent`: the request went out and nobody knows whether it
    was worked on, and paid for. `retries`: after so many more attempts it is not worth another; None: as configured.
    `unanswered`: the connection ended before a byte of an answer, or the server broke over the request, as some do over
    one that is too long for them.
    """

    def __init__(
        self,
        message: str,
        *,
        after_s: float | None = None,
        limited: bool = False,
        sent: bool = False,
        retries: int | None = None,
        unanswered: bool = False,
    ) -> None:
        super().__init__(message)
        self.retries = retries
        self.unanswered = unanswered
        self.after_s = after_s
        self.limited = limited
        self.sent = sent


class NoProviders(Transient):
    """No provider is able to take a call. `chosen` is the error of the one that was asked first, if any was."""

    def __init__(self, message: str, *, chosen: AgentError | None = None) -> None:
        super().__init__(message)
        self.chosen = chosen


class LockTimeout(Transient):
    """The conversation stayed busy for longer than the queue time-out."""


class Permanent(AgentError):
    """Will fail again unless somebody changes something."""


class ProviderRefused(Permanent):
    """The provider said no for a reason that a retry does not change.

    `any_request`: the key, the account, the model or the address is at fault, so that it would refuse every other too.
    """

    def __init__(self, message: str, *, any_request: bool = False) -> None:
        super().__init__(message)
        self.any_request = any_request


class KeyRefused(ProviderRefused):
    """The service does not take the key. `doubtful`: or the account may not do this with any key."""

    def __init__(self, message: str, *, doubtful: bool = False) -> None:
        super().__init__(message, any_request=True)
        self.doubtful = doubtful


class QuotaUsedUp(ProviderRefused):
    """The account at the provider has no credit left, or has reached a limit of its own: money mends it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, any_request=True)


class RequestInvalid(ProviderRefused):
    """The provider finds the request malformed, or something in it that it does not take."""


class RequestFiltered(RequestInvalid):
    """A content filter of the service does not let the request pass."""


class ContextTooLong(Permanent):
    """The request does not fit the model's window."""


class AgentMissing(Permanent):
    """There is no agent definition of that name."""


class AgentInvalid(Permanent):
    """The agent definition has mistakes."""

    def __init__(self, path: str, mistakes: Sequence[str]) -> None:
        super().__init__(f"{path}: " + "; ".join(mistakes))
        self.mistakes = tuple(mistakes)


class Refused(AgentError):
    """A gate (access, budget, limit, risk) said no."""


class NoModelAllowed(Refused):
    """No configured model is among those that may answer in this place; `patterns` are its rules."""

    def __init__(self, patterns: Sequence[str]) -> None:
        super().__init__(f"no configured model may answer here; allowed: {', '.join(patterns)}")
        self.patterns = tuple(patterns)


class ProviderBarred(Refused):
    """A gate said no to this provider alone."""


class ProviderUnpriced(ProviderBarred):
    """A limit in money holds, and what this provider's model costs is unknown."""


class Fenced(AgentError):
    """The conversation's epoch has moved on; nothing of this owner may be written."""


class ToolError(AgentError):
    """A tool could not do its work; the text is shown to the model."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class OutOfScope(ToolError):
    """The call lies outside of what the conversation may touch; no approval and no setting changes that (B-93)."""
