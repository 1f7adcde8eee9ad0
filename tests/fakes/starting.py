"""Tells which tests start the program or its composition: what only they show counts as live."""

_starts = 0


def started() -> None:
    """The program, or its composition, has been started."""
    global _starts
    _starts += 1


def starts() -> int:
    """The number of times in this process."""
    return _starts
