"""Numbers of the platform (Discord developer documentation) and of our own caution. Pure."""

from datetime import UTC, datetime, timedelta

TEXT_LIMIT = 2000  # characters in a message's content
NONCE_LIMIT = 25
NONCE_S = 120.0  # Discord remembers a nonce for "the past few minutes", and says no more about it
ROWS, ROW_LENGTH, LABEL_LIMIT = 5, 5, 80  # rows of buttons, buttons a row, characters of a label
FILES = 10  # attachments a message
PAGE = 100  # messages a request of history gives at most
TABLE_COLUMNS = 60  # what a code block shows on a phone without a line break

GLOBAL_PER_S = 50.0  # requests of an account, those about interactions left out

TYPING_EVERY_S = 8.0  # the sign fades after ten seconds
ANSWER_WITHIN_S = 2.0  # Discord takes the first answer to an interaction for 3 s; the rest is for the network
TOKEN_LIFETIME_S = 870.0  # the token of an interaction works for 15 minutes; the rest is for slow clocks

CHOICES, CHOICE_LENGTH = 25, 100  # of an option, and in each of its names and values
COMMANDS, COMMAND_DESCRIPTION = 100, 100  # commands an application, characters of a description

EPHEMERAL, LOADING = 1 << 6, 1 << 7  # flags of a message
SUPPRESS_EMBEDS, SILENT = 1 << 2, 1 << 12
IS_VOICE_MESSAGE = 1 << 13
OUTLINE_POINTS = 256  # steps of the waveform of a voice message

_EPOCH = datetime(2015, 1, 1, tzinfo=UTC)


def moment_of(snowflake: str) -> datetime:
    """When an id was made: its upper bits are milliseconds since 2015."""
    return _EPOCH + timedelta(milliseconds=int(snowflake) >> 22)


def snowflake_at(moment: datetime) -> str:
    """The smallest id of that moment, to ask for what came after it."""
    milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1)
    return str(max(milliseconds, 0) << 22)
