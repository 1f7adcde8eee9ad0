"""`tieline outbox [list|retry|drop]`: answers on their way."""

from gateway.cli.queue_commands import letters

command = letters(
    "outbox",
    "Answers and notices that are not yet sent.",
    columns=("id", "at", "conversation", "attempts", "state", "text"),
    empty="Everything is sent.",
    retry="Send it now, also where the bot counted as removed.",
    drop="Never send it.",
)
