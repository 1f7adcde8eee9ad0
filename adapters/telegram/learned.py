"""What an account has learnt about its server, so that it does not pay a failed call a message. Pure."""

RETRY_AFTER_S = 3600.0  # a server may be updated while we run


class Feature:
    """Something newer than the oldest server: used until it is refused."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._worked = False
        self._refused_until = 0.0

    def usable(self, now: float) -> bool:
        return self._wanted and now >= self._refused_until

    def worked(self) -> None:
        self._worked = True

    def refused(self, now: float, *, unknown: bool) -> None:
        """Refused as a whole if the server does not know it or never once took it; else only that content was wrong."""
        if unknown or not self._worked:
            self._refused_until = now + RETRY_AFTER_S
