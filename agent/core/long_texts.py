"""Work on texts that strangers may have made long: in a worker thread, so that everybody else's turn goes on.

A thread alone is not enough where one call of C code takes long, since it keeps the interpreter to itself until it is
over: such work is cut into pieces where it is done.
"""

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread

LONG_TEXT = 8_000  # characters; work on fewer takes less than the way to a thread and back, or not much more
LONGEST_SECRET = 4_000

T = TypeVar("T")


async def worked_on(text: str, work: Callable[[str], T], *, long: int = LONG_TEXT) -> T:
    """`work(text)`, in a thread for more than `long` characters; it is pure, and a cancelled wait leaves it to end."""
    if len(text) <= long:
        return work(text)
    return await to_thread.run_sync(work, text, abandon_on_cancel=True)


def beginning_of(text: str, most: int, redact: Callable[[str], str]) -> str:
    """The first `most` characters without secrets (`redact` takes them out); all of a long text is not read for that.

    Of one in which secrets take up more than they leave, fewer.
    """
    read = most + 2 * LONGEST_SECRET
    if len(text) <= read:
        return redact(text)[:most]
    # Nobody would know the beginning of a secret at the end of what is read for one.
    return redact(text[:read])[:-LONGEST_SECRET][:most]
