"""Log lines as JSON or for people, each with its conversation and run, never with a secret (G-28)."""

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Literal, TextIO

from agent.core.events import LoopEnded, LoopFailed, LoopStarted, Published
from agent.core.untrusted_text import without_steering

Format = Literal["auto", "human", "json"]

# The one context variable of the gateway, so that lines of libraries carry the ids, too.
_context: ContextVar[tuple[str, str]] = ContextVar("tieline_log_context", default=("", ""))

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_LEVEL_COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m", "DEBUG": "\x1b[2m"}
_OFF = "\x1b[0m"
_CHATTY = (
    "apscheduler",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "uvicorn.error",
    "LiteLLM",
    "alembic",
    "mcp",
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """Where lines are kept: beyond `most_bytes` it becomes `<path>.1`, and so on up to `backups` (W-66)."""

    path: Path
    most_bytes: int
    backups: int


@contextmanager
def log_context(*, conversation: str = "", run: str = "") -> Iterator[None]:
    """Lines written inside carry these ids; "" keeps what holds already."""
    before = _context.get()
    token = _context.set((conversation or before[0], run or before[1]))
    try:
        yield
    finally:
        _context.reset(token)


FOLLOWED = (LoopStarted, LoopEnded, LoopFailed)


def follow_runs(published: Published) -> None:
    """A listener for the kinds in FOLLOWED: they are published in the run's own task, so its lines get the ids."""
    match published.event:
        case LoopStarted(conversation=conversation, run=run):
            _context.set((conversation, run or ""))
        case LoopEnded(conversation=conversation) | LoopFailed(conversation=conversation):
            _context.set((conversation, ""))
        case _:
            pass


class Redaction(logging.Filter):
    """Rewrites message, arguments, exception and extra texts of a record; put it on the handler."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = self._redact(_message(record))
        record.args = None
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if record.exc_text:
            record.exc_text = self._redact(record.exc_text)
        record.exc_info = None  # some handlers would format it anew, with its secrets
        if record.stack_info:
            record.stack_info = self._redact(record.stack_info)
        conversation, run = _context.get()
        for name, value in (("conversation", conversation), ("run", run)):
            if value and not hasattr(record, name):
                setattr(record, name, value)
        for name, value in _extras(record).items():
            if not isinstance(value, int | float | bool | None):
                setattr(record, name, self._redact(str(value)))
        return True


class Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **_extras(record),
        }
        if record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return without_steering(json.dumps(line, ensure_ascii=False, default=str))


class Human(logging.Formatter):
    """Time, level, who, what, and the ids at the end; coloured on a terminal.

    Nothing in it begins a line of its own or steers the terminal, whoever wrote it.
    """

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        name = record.name.removeprefix("tieline.")
        extras = _indented(" ".join(f"{key}={value}" for key, value in _extras(record).items() if value is not None))
        colour = _LEVEL_COLOURS.get(record.levelname, "") if self._colour else ""
        message = _indented(_message(record))
        line = f"{at} {colour}{record.levelname.lower():<8}{_OFF if colour else ''} {name}: {message}"
        if extras:
            line += f"  \x1b[2m{extras}{_OFF}" if self._colour else f"  {extras}"
        for more in (record.exc_text, record.stack_info):
            if more:
                line += _indented("\n" + more)
        return line


def set_up(
    *,
    level: str = "INFO",
    format: Format = "auto",
    redact: Callable[[str], str],
    stream: TextIO | None = None,
    file: LogFile | None = None,
    chatty: Iterable[str] = (),
) -> logging.Handler:
    """Send every logger's lines to `stream` (stderr); `auto` is human on a terminal, else JSON. Returns the handler.

    `file` gets them too, as JSON. Calling it again replaces the handlers of before. Raises OSError where the file
    cannot be opened; then nothing has changed. `chatty` loggers tell warnings and worse alone, beside those known here.
    """
    written = _written_to(file, redact) if file is not None else None
    stream = stream or sys.stderr
    terminal = stream.isatty()
    handler = logging.StreamHandler(stream)
    handler.set_name("tieline")
    handler.addFilter(Redaction(redact))
    human = format == "human" or (format == "auto" and terminal)
    handler.setFormatter(Human(colour=terminal) if human else Json())
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == "tieline"]:
        root.removeHandler(old)
        if isinstance(old, logging.FileHandler):
            old.close()
    root.addHandler(handler)
    if written is not None:
        root.addHandler(written)
    root.setLevel(level)
    for name in (*_CHATTY, *chatty):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    return handler


def _written_to(file: LogFile, redact: Callable[[str], str]) -> logging.Handler:
    """Below the data directory, for its owner alone, and never without a bound."""
    file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.path.touch(mode=0o600)
    handler = RotatingFileHandler(file.path, maxBytes=file.most_bytes, backupCount=file.backups, encoding="utf-8")
    handler.set_name("tieline")
    handler.addFilter(Redaction(redact))
    handler.setFormatter(Json())
    return handler


def _indented(text: str) -> str:
    return without_steering(text).replace("\n", "\n    ")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # a wrong format string must not lose the line
        return f"{record.msg} {record.args}"


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}
