"""What becomes of moments that passed while nobody could act on them (DESIGN §7, §13.16). Pure.

A late run nobody expects any more does as much harm as one that never came (PEERS §3.7): so each schedule says what it
wants, and what is not made up for is written into its ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, cast, get_args

from gateway.scheduler.mistakes import Mistake
from gateway.scheduler.occurrences import Occurrence

Policy = Literal["skip", "once", "all", "within"]
MOST_MADE_UP = 20  # late runs of one schedule at once, under `all`


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfire:
    """`within_s` belongs to `within`: how late a run may be. None: one is made up for if it alone was missed."""

    policy: Policy
    within_s: int | None = None


ONE_SHOT = Misfire(policy="once")
RECURRING = Misfire(policy="within")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """`stands_for` further moments that are made up for by this one."""

    occurrence: Occurrence
    late: bool = False
    stands_for: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What fires now, in order, and what is written off."""

    fires: tuple[Fire, ...]
    missed: tuple[Occurrence, ...] = ()


def judge(due: Sequence[Occurrence], misfire: Misfire, *, now: datetime, grace: timedelta) -> Verdict:
    """`due` are the moments up to now that nothing was done about, oldest first, at least one.

    The newest is on time while it is at most `grace` old.
    """
    on_time = tuple(Fire(occurrence=one) for one in due[-1:] if now - one.at <= grace)
    late = tuple(due[:-1] if on_time else due)
    if not late:
        return Verdict(fires=on_time)
    match misfire.policy:
        case "skip":
            return Verdict(fires=on_time, missed=late)
        case "all":
            made_up = tuple(Fire(occurrence=one, late=True) for one in late[-MOST_MADE_UP:])
            return Verdict(fires=(*made_up, *on_time), missed=late[:-MOST_MADE_UP])
        case "once":
            return _coalesced(on_time, late)
        case "within":
            if on_time or not _may_be_made_up(late, misfire.within_s, now):
                return Verdict(fires=on_time, missed=late)
            return _coalesced(on_time, late)


def held_back(due: Sequence[Occurrence]) -> Verdict:
    """After quiet hours: whatever they held back is one run, and not late."""
    return Verdict(fires=(Fire(occurrence=due[-1], stands_for=len(due) - 1),))


def read_misfire(text: str) -> Misfire:
    """`skip`, `once`, `all`, `within` or `within 3600` (seconds). Raises Mistake."""
    policy, _, limit = text.strip().lower().replace(":", " ").partition(" ")
    limit = limit.strip()
    if not policy:
        raise Mistake("misfire_which")
    if policy not in get_args(Policy) or (limit and (policy != "within" or not limit.isdecimal() or int(limit) < 1)):
        raise Mistake("misfire_unknown", text=text[:40])
    return Misfire(policy=cast(Policy, policy), within_s=int(limit) if limit else None)


def written(misfire: Misfire) -> str:
    """What `read_misfire` reads."""
    return misfire.policy if misfire.within_s is None else f"{misfire.policy} {misfire.within_s}"


def _may_be_made_up(late: Sequence[Occurrence], within_s: int | None, now: datetime) -> bool:
    """Without a limit: less than a period has passed, that is, no second moment has come since."""
    return len(late) == 1 if within_s is None else now - late[-1].at <= timedelta(seconds=within_s)


def _coalesced(on_time: tuple[Fire, ...], late: Sequence[Occurrence]) -> Verdict:
    if on_time:
        return Verdict(fires=(Fire(occurrence=on_time[0].occurrence, stands_for=len(late)),))
    return Verdict(fires=(Fire(occurrence=late[-1], late=True, stands_for=len(late) - 1),))
