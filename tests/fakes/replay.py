"""Records what providers streamed and plays it again, with the same clock and ids: a run must come out the same (G-32).

A recording is JSON: the messages of people, what each call of the model streamed, and the transcript that came of it.
"""

import json
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent.core import errors
from agent.core.errors import AgentError
from agent.providers import provider as contract
from agent.providers.provider import Chunk, Provider, Request
from tests.fakes.provider import Script, ScriptedProvider


@dataclass(kw_only=True)
class Recording:
    """`calls` are the streams in the order they were asked for."""

    messages: list[str]
    calls: list[Script] = field(default_factory=list)
    transcript: str = ""

    def provider(self) -> ScriptedProvider:
        """Plays the calls; one more than was recorded fails the test."""
        end = Script(error=errors.ProviderRefused("the recording has no further call"))
        return ScriptedProvider(scripts=list(self.calls), otherwise=end)

    def save(self, path: Path) -> None:
        content = {
            "messages": self.messages,
            "calls": [_written(call) for call in self.calls],
            "transcript": self.transcript.splitlines(),
        }
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_recording(path: Path) -> Recording:
    content = json.loads(path.read_text("utf-8"))
    return Recording(
        messages=content["messages"],
        calls=[_read(call) for call in content["calls"]],
        transcript="".join(f"{line}\n" for line in content["transcript"]),
    )


class Recorder:
    """A provider that passes another one's streams through and notes them in `recording`."""

    def __init__(self, inner: Provider, recording: Recording) -> None:
        self._inner, self._recording = inner, recording
        self.name, self.family, self.model = inner.name, inner.family, inner.model
        self.context_window, self.prices, self.takes = inner.context_window, inner.prices, inner.takes
        self.max_tokens, self.output_ceiling = inner.max_tokens, inner.output_ceiling

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        chunks: list[Chunk] = []
        error: AgentError | None = None
        try:
            async for chunk in self._inner.stream(request):
                chunks.append(chunk)
                yield chunk
        except AgentError as raised:
            error = raised
            raise
        finally:
            self._recording.calls.append(Script(chunks=tuple(chunks), error=error))

    @property
    def is_warm(self) -> bool:
        return self._inner.is_warm

    async def warm_up(self) -> None:
        await self._inner.warm_up()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _written(call: Script) -> dict[str, Any]:
    written: dict[str, Any] = {"chunks": [[type(chunk).__name__, asdict(chunk)] for chunk in call.chunks]}
    if call.error is not None:
        written["error"] = [type(call.error).__name__, str(call.error)]
    return written


def _read(call: dict[str, Any]) -> Script:
    chunks = tuple(getattr(contract, name)(**values) for name, values in call["chunks"])
    error = getattr(errors, call["error"][0])(call["error"][1]) if "error" in call else None
    return Script(chunks=chunks, error=error)
