"""Looks up where subscriptions to events lead, without sending one."""

from collections.abc import Sequence

from gateway.channels.adapter import Diagnosis
from gateway.config.events import EventSettings
from gateway.events.request import Caller
from gateway.receivers.email import NotSent


async def looked_up(subscriptions: Sequence[EventSettings], caller: Caller | None = None) -> Sequence[Diagnosis]:
    """A finding about each: whether its address may be called."""
    caller = caller or Caller()
    found = []
    for one in subscriptions:
        subject, told = f"events to {one.name}", ", ".join(one.events) or "all events"
        try:
            await caller.allowed(one)
        except NotSent as error:
            fix = f"see its [[events]] section; `tieline events test {one.name}` tries it"
            found.append(Diagnosis(subject=subject, level="error", finding=str(error), fix=fix))
        else:
            finding = f"{told}, to {one.host}, not tried: `tieline events test {one.name}` sends one"
            found.append(Diagnosis(subject=subject, level="ok", finding=finding))
    return found
