"""`tieline inbox [list|retry|drop]`: messages that wait for their turn."""

from gateway.cli.queue_commands import letters

command = letters(
    "inbox",
    "Messages that wait for their turn, or are under work.",
    columns=("id", "at", "conversation", "attempts", "state", "text"),
    empty="No message waits.",
    retry="Let a message that waits for its moment be due now.",
    drop="Take a message out before its turn begins.",
)
