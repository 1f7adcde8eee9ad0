"""The contract of a model provider: one streamed call. Retries, choice and budgets live elsewhere."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol

from agent.core.messages import Message
from agent.core.settings_section import SECTION_CONFIG
from agent.core.tools import ToolSpec

MOST_TOKENS = 1_000_000_000  # of one call

COMPACTING = frozenset({"anthropic"})  # families whose API writes summaries that it can take back

CacheTier = Literal["none", "5m", "1h"]
Reasoning = Literal["off", "low", "medium", "high"]  # how much to think before the answer
# Tokens that a level of thinking may take beside the answer.
THOUGHT: Mapping[Reasoning, int] = MappingProxyType({"off": 0, "low": 2_048, "medium": 8_192, "high": 16_384})
StopReason = Literal["end_turn", "tool_use", "max_tokens", "refusal", "other"]


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """messages[0]: `stable` is byte-equal from turn to turn and cacheable, `volatile` follows it (Z-17)."""

    stable: str
    volatile: str = ""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """The visible tools, frozen until marked dirty (R-03): sorted by name, the same object from turn to turn."""

    specs: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. `messages` start with a user message; every tool use in them is answered.

    `reminder` (date, time, hints) is put before the sender's own words in the newest user message. `owner`
    lives as long as the conversation is awake: for so long its history is kept as it goes over the wire. `compact`: the
    service is to write a summary of the messages instead of an answer; only those of `COMPACTING` can.
    `reasoning` None: as the provider is configured.
    """

    system: SystemPrompt
    messages: Sequence[Message]
    tools: ToolSchema = ToolSchema()
    reminder: str = ""
    max_tokens: int | None = None
    cache_tier: CacheTier = "none"
    routing_hint: str = ""
    compact: bool = False
    reasoning: Reasoning | None = None
    owner: object | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class TextWithdrawn:
    """All the text so far was a thought, as only its end has shown."""


@dataclass(frozen=True, slots=True)
class Spared:
    """A feature the service refused, so that the request went without it; told once by each provider."""

    feature: Literal["tools"]


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDone:
    """A whole thinking block with its signature, exactly as it must be sent back."""

    thinking: str
    signature: str


@dataclass(frozen=True, slots=True)
class RedactedThinkingDone:
    data: str


@dataclass(frozen=True, slots=True)
class SummaryDone:
    """The service's own summary of a request's messages: `text` to be read, `sealed` as it must be sent back."""

    text: str
    sealed: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    index: int
    arguments: str  # a piece of the JSON text


@dataclass(frozen=True, slots=True)
class ToolCallDone:
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call as the provider reported them. `prompt` excludes what was read from or written to a cache."""

    prompt: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0

    def __post_init__(self) -> None:
        """Keep counts within the ledger's columns, whatever an endpoint makes up."""
        for name in ("prompt", "output", "cache_creation", "cache_read"):
            if getattr(self, name) > MOST_TOKENS:
                object.__setattr__(self, name, MOST_TOKENS)


@dataclass(frozen=True, slots=True)
class Done:
    """The provider closed the stream properly; without it the attempt failed (W-42)."""

    stop_reason: StopReason


@dataclass(frozen=True, slots=True)
class Unknown:
    """A variant this code does not know: logged, never fatal (G-34)."""

    what: str


Chunk = (
    TextDelta
    | TextWithdrawn
    | Spared
    | ThinkingDelta
    | ThinkingDone
    | RedactedThinkingDone
    | SummaryDone
    | ToolCallStart
    | ToolCallDelta
    | ToolCallDone
    | Usage
    | Done
    | Unknown
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """USD per million tokens. What is read from a cache or written to one costs what `input` does where
    nobody names its price: never nothing.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    input: float
    output: float
    cache_write: float | None = None
    cache_read: float | None = None

    @property
    def of_cache_write(self) -> float:
        return self.input if self.cache_write is None else self.cache_write

    @property
    def of_cache_read(self) -> float:
        return self.input if self.cache_read is None else self.cache_read


class Provider(Protocol):
    """One configured model. Safe for many calls at once."""

    name: str  # unique in the configuration
    family: str  # who signs thinking blocks: "anthropic", "openai", "litellm", "demo"
    model: str
    prices: Prices | None
    takes: frozenset[str]  # MIME types it reads besides text, such as "image/png"
    max_tokens: int | None  # of an answer, where the request names no limit; None: only the service bounds it
    output_ceiling: int | None  # tokens an answer may have if asked for; None: its limit is not ours to raise

    @property
    def context_window(self) -> int:
        """Tokens, as far as is known now."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Make one call, no retry inside.

        Raises ProviderBusy (retry), ContextTooLong, ProviderRefused, before or in the middle of the stream. The caller
        closes the iterator (`aclosing`); that ends the connection.
        """

    @property
    def is_warm(self) -> bool:
        """Nothing is left for `warm_up` to do."""

    async def warm_up(self) -> None:
        """Have at hand what the first call needs: the library, the client, the model's window.

        Off the event loop. Called in the background after the start, and before each call until `is_warm`.
        """

    async def aclose(self) -> None: ...


ProviderOptions = Mapping[str, Any]
