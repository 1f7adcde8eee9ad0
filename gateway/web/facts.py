"""What an operator reads first, on the status page and in a terminal: headline, what needs them, figures. Pure."""

from collections.abc import Sequence

from agent.core.program import NAME, with_program
from gateway.web.health import Reason
from gateway.web.overview import Overview


def headline(overview: Overview, reasons: Sequence[Reason]) -> str:
    """In a few words; `reasons` are those not to be ready."""
    if reasons:
        return "Something needs you"
    return "Needs attention" if attention(overview, reasons) else "All is well"


def attention(overview: Overview, reasons: Sequence[Reason]) -> Sequence[Reason]:
    """What does not keep the gateway from working, and should be looked at; `reasons` are told elsewhere."""
    told = {reason.subject for reason in reasons} | {reason.subject.removeprefix("model ") for reason in reasons}
    found = [
        Reason(f"{trouble.kind} {trouble.subject}", trouble.text, trouble.fix)
        for trouble in overview.troubles
        if trouble.over_at is None and not trouble.blocking and trouble.subject not in told
    ]
    if overview.unanswered:
        text = f"{_counted(overview.unanswered, 'message')} could not be answered"
        found.append(Reason("inbox", text, with_program(NAME, DEAD_FIX, overview.where)))
    if overview.undelivered:
        text = f"{_counted(overview.undelivered, 'answer')} could not be delivered"
        found.append(Reason("outbox", text, with_program(NAME, DEAD_FIX, overview.where)))
    return found


DEAD_FIX = "`tieline dead` lists them; retry or drop each there"


def figures(overview: Overview) -> Sequence[tuple[str, str, str]]:
    """Name, value, and "bad" where it should be nought."""
    return [
        ("Turns", f"{overview.turns:,}", ""),
        ("Tokens", compact(overview.tokens), ""),
        ("Spent", money(overview.cost_usd, overview.unpriced), ""),
        ("Messages waiting", f"{overview.queue_depth:,}", ""),
        ("Answers on their way", f"{overview.outbox_open:,}", ""),
        ("Not answered", f"{overview.unanswered:,}", "bad" if overview.unanswered else ""),
        ("Not delivered", f"{overview.undelivered:,}", "bad" if overview.undelivered else ""),
        ("Memory misses, 7 days", f"{overview.misses:,}", ""),
        ("Event-loop delay", f"{overview.loop_lag_s * 1000:.0f} ms", "bad" if overview.loop_lag_s > 1 else ""),
    ]


def money(usd: float, unpriced: int) -> str:
    """Calls whose price nobody knows are told, never counted as free."""
    known = f"${usd:,.2f}" if usd >= 0.01 or not usd else "< $0.01"
    if not unpriced:
        return known
    calls = _counted(unpriced, "unpriced call")
    return f"{known} + {calls}" if usd else f"unknown ({calls})"


def compact(count: int) -> str:
    """12,345 as "12.3k"."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"{count / (1000 if unit == 'k' else size):.1f}{unit}"
    return f"{count:,}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
