"""What an account has learnt about its server, so that it does not pay a failed call a message. Pure."""

RETRY_AFTER_S = 3600.0  # what was never taken may be taken later
UNKNOWN_FOR_S = 24 * 3600.0  # a server may be updated


class Feature:
    """Something newer than the oldest server, by `name`: used until it is refused."""

    def __init__(self, name: str, *, wanted: bool) -> None:
        self.name = name
        self._wanted = wanted
        self._worked = False
        self._refused_until = 0.0

    def usable(self, now: float) -> bool:
        return self._wanted and now >= self._refused_until

    def worked(self) -> None:
        self._worked = True

    def refused(self, now: float) -> None:
        """Refused as a whole if the server never once took it; else only that content was wrong."""
        if not self._worked:
            self._refused_until = now + RETRY_AFTER_S

    def unknown(self, now: float, for_s: float = UNKNOWN_FOR_S) -> None:
        """The server does not know it."""
        self._refused_until = now + for_s
