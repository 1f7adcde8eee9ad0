"""What a message meets that comes while its conversation is busy (SPEC §3.3, B-65…B-67). Pure."""

from enum import Enum
from typing import Literal

QueueMode = Literal["queue", "drop", "interrupt"]


class Verdict(Enum):
    ADMIT = "store it; its turn comes"
    REFUSE_BUSY = "tell the person that it is busy; store nothing"
    ADMIT_AND_CANCEL = "store it, then cancel the running turn"


def verdict(mode: QueueMode, *, is_running: bool, preemptible: bool = False, waiting: int = 0) -> Verdict:
    """`is_running`: a turn is under way; `gives_way`: one of a plan or goal, which people need not wait for. `waiting`:
    messages that wait before this one."""
    match mode:
        case "drop" if (is_running and not preemptible) or waiting > 0:
            return Verdict.REFUSE_BUSY
        case "interrupt" if is_running:
            return Verdict.ADMIT_AND_CANCEL
        case _:
            return Verdict.ADMIT
