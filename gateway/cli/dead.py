"""`tieline dead [list|retry|drop]`: dead letters of both boxes."""

from gateway.cli.queue_commands import letters

command = letters(
    "dead",
    "Messages and answers that were given up.",
    columns=("id", "at", "conversation", "attempts", "why", "text"),
    empty="No dead letters.",
    retry="Try it again.",
    drop="Settle it: it leaves the list and is not tried again.",
)
