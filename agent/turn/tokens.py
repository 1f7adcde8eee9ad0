"""Estimates of tokens, and their calibration by what providers report. No I/O."""

import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import assert_never
from weakref import WeakKeyDictionary

from agent.core.messages import (
    CompactionPart,
    FilePart,
    Message,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)
from agent.providers.provider import ToolSchema

PER_MESSAGE = 4
SAMPLES = 8
LOWEST_SCALE, HIGHEST_SCALE = 0.5, 2.0
LEAST_CHANGE = 0.01  # of the scale that is worth an event
PER_IMAGE = 1_600  # what a picture of the largest useful size costs at Anthropic
PER_DOCUMENT = 3_000
PER_NAMED_FILE = 40
KEPT_TEXTS = 8
KEPT_MODELS = 8

CountText = Callable[[str], int]


def count_by_bytes(text: str, *, framed: bool = False) -> int:
    """Tokens of a text guessed from its bytes: structured text 2 a token, mostly non-ASCII 3, other 4, rounded up.

    `framed`: tags of ours stand around it, which do not make a conversation structured text.
    """
    if not text:
        return 0
    structured = not framed and _looks_structured(text)
    if text.isascii():
        size = len(text)
        return -(-size // (2 if structured else 4))
    encoded = text.encode("utf-8", "replace")
    if structured:
        divisor = 2
    else:
        head = encoded[:256]
        divisor = 3 if sum(byte > 127 for byte in head) * 2 >= len(head) else 4
    return -(-len(encoded) // divisor)


def _looks_structured(text: str) -> bool:
    head = text[:64].lstrip()
    first, rest = head[:1], head[1:].lstrip()
    match first:
        case "{":
            return True
        case "[":
            return rest[:1] in {'"', "{", "[", "]", "-"} or rest[:1].isdigit()
        case "<":
            return head[1:2] in {"/", "!", "?"} or head[1:2].isalpha()
        case _:
            return False


class Estimator:
    """Counts messages, each once in its life, and corrects itself by what providers report."""

    def __init__(self, count: CountText = count_by_bytes, *, name: Callable[[], str] = lambda: "bytes") -> None:
        """`name` tells which tokenizer `count` is now: what one has counted means nothing to another."""
        self._count = count
        self._name = name
        self._counted: WeakKeyDictionary[Message, int] = WeakKeyDictionary()
        self._texts: dict[str, int] = {}
        self._schemas: dict[int, tuple[ToolSchema, int]] = {}
        self._learnt: dict[object, deque[float]] = {}
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self.scale = 1.0
        self._told = 1.0  # the scale that was told of last

    @property
    def samples(self) -> int:
        """How many calls the scale is the mean of."""
        return len(self._samples)

    def take_change(self) -> bool:
        """Whether the scale has changed by a hundredth or more since this was true last."""
        if abs(self.scale - self._told) < LEAST_CHANGE:
            return False
        self._told = self.scale
        return True

    def count(self, text: str) -> int:
        """Raw tokens of a text that is asked about once."""
        return self._count(text)

    def text(self, text: str) -> int:
        """Raw tokens of a text that several requests share, such as the system prompt: counted once while in use."""
        counted = self._texts.pop(text, None)
        if counted is None:
            if len(self._texts) >= KEPT_TEXTS:
                del self._texts[next(iter(self._texts))]  # the one that was asked for least recently
            counted = self._count(text)
        self._texts[text] = counted
        return counted

    def message(self, message: Message) -> int:
        """Raw tokens of a message."""
        counted = self._counted.get(message)
        if counted is None:
            counted = PER_MESSAGE + sum(_part(part, self._count) for part in message.parts)
            self._counted[message] = counted
        return counted

    def messages(self, messages: Iterable[Message]) -> int:
        """Raw tokens of messages."""
        return sum(map(self.message, messages))

    def written(self, message: Message) -> str:
        """The weight of the message, to be kept with it."""
        return f"{self.message(message)} {self._name()}"

    def take(self, messages: Iterable[tuple[Message, str]]) -> None:
        """Believe what was written down of messages, and count those that nobody or another tokenizer counted."""
        name = self._name()
        for message, written in messages:
            tokens, _, by = written.partition(" ")
            if by == name:
                self._counted[message] = int(tokens)
            else:
                self.message(message)

    def same(self, message: Message, stored: Message) -> None:
        """`stored` is that message with its id: it weighs as much."""
        if (tokens := self._counted.get(message)) is not None:
            self._counted[stored] = tokens

    def tools(self, schema: ToolSchema) -> int:
        """Raw tokens of tool definitions; counted once for each schema object."""
        known = self._schemas.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        raw = sum(
            self._count(spec.name) + self._count(spec.description) + self._count(json.dumps(dict(spec.schema)))
            for spec in schema.specs
        )
        self._schemas = {id(schema): (schema, raw)}
        return raw

    def scaled(self, raw: int) -> int:
        """The calibrated value of `raw`, rounded up."""
        return int(raw * self.scale + 0.999999)

    def learn(self, raw: int, real: int) -> None:
        """Note that a request estimated at `raw` (unscaled) was `real` tokens; zero on either side says nothing."""
        if raw <= 0 or real <= 0:
            return
        self._samples.append(real / raw)
        self._calibrate()

    def follow(self, model: object) -> None:
        """Another model counts differently: calibrate for it, beginning with what was learnt of it before."""
        samples = self._learnt.get(model)
        if samples is None:
            if len(self._learnt) >= KEPT_MODELS:
                del self._learnt[next(iter(self._learnt))]
            samples = self._learnt[model] = deque(maxlen=SAMPLES)
        if samples is not self._samples:
            self._samples = samples
            self._calibrate()

    def _calibrate(self) -> None:
        mean = sum(self._samples) / len(self._samples) if self._samples else 1.0
        self.scale = min(HIGHEST_SCALE, max(LOWEST_SCALE, mean))


def _part(part: Part, count: CountText) -> int:
    match part:
        case TextPart() | SummaryPart():
            return count(part.text)
        case ToolUse():
            return count(part.name) + count(json.dumps(dict(part.input)))
        case ToolResult():
            return count(part.content)
        case Thinking():
            return count(part.thinking)
        case RedactedThinking():
            return count(part.data)
        case CompactionPart():
            return 0
        case FilePart(sent=False):
            return PER_NAMED_FILE
        case FilePart():
            if part.mime_type.startswith("image/"):
                return PER_IMAGE
            return PER_DOCUMENT if part.mime_type == "application/pdf" else PER_NAMED_FILE
        case _:
            assert_never(part)
