"""Tells when a provider's cache was read much less than before, and what of ours had changed (SPEC §6.6)."""

import logging

from agent.core.provider_events import CacheBreakDetected
from agent.providers.calling import Answered
from agent.turn.prefix import Read
from agent.turn.run import Run
from agent.turn.states import States

log = logging.getLogger("tieline.turn")


def note_cache(answered: Answered, run: Run, states: States) -> None:
    """Compare a call with the one before; a break is an event and a line in the log with its causes."""
    usage, watch = answered.reply.usage, states.provider.cache
    if usage is None or run.prefix is None:
        return
    read = Read(
        prefix=run.prefix,
        cache_read=usage.cache_read,
        at=states.runtime.clock.monotonic(),
        tier=answered.request.cache_tier,
    )
    found = watch.after(read, usage)
    if found is not None:
        why = ", ".join(found.causes) or "nothing of ours changed"
        log.warning(
            "the provider's cache was read %d tokens less: %s",
            found.before - found.now,
            why,
            extra={"run": run.id, "prefix": run.prefix.hash},
        )
        event = CacheBreakDetected(
            conversation=states.session.conversation,
            run=run.id,
            causes=found.causes,
            tokens_before=found.before,
            tokens_after=found.now,
        )
        states.runtime.bus.publish(event)
    if watch.is_poor(usage):
        log.warning("%s reads little from its cache here", answered.provider.name, extra={"run": run.id})
