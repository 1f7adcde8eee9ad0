"""The promise of `Provider`, as one suite. A provider's tests subclass it and supply the stage.

`ProviderContract` runs over every implementation and the fake. `WireContract` adds what only a provider with a network
can break: it runs against the double of the model APIs (`tests.fakes.llm_server`), through the unmodified libraries.
"""

import json
import traceback
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import anyio
import pytest

from agent.core.errors import AgentError, ContextTooLong, KeyRefused, ProviderBusy, ProviderRefused, RequestInvalid
from agent.core.messages import (
    FilePart,
    Message,
    RedactedThinking,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
    text_message,
)
from agent.core.tools import ToolSpec
from agent.providers.provider import (
    Chunk,
    Done,
    Provider,
    RedactedThinkingDone,
    Request,
    StopReason,
    SystemPrompt,
    TextDelta,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    ToolSchema,
    Usage,
)
from tests.fakes.llm_server import LlmServer

KEY = "sk-test-0123456789abcdef-secret"
WEATHER = ToolSpec(
    name="get_weather",
    description="The weather of a city.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
NO_TOOLS = ToolSchema()
TOOLS = ToolSchema((WEATHER,))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


@dataclass(slots=True)
class Heard:
    """The result of one call, assembled."""

    chunks: list[Chunk] = field(default_factory=list)
    error: AgentError | None = None

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, TextDelta))

    @property
    def thinking(self) -> list[ThinkingDone]:
        return [chunk for chunk in self.chunks if isinstance(chunk, ThinkingDone)]

    @property
    def calls(self) -> list[tuple[str, str, Any]]:
        """(id, name, arguments)."""
        starts = [chunk for chunk in self.chunks if isinstance(chunk, ToolCallStart)]
        return [(start.id, start.name, json.loads(self._arguments(start.index) or "{}")) for start in starts]

    def _arguments(self, index: int) -> str:
        return "".join(c.arguments for c in self.chunks if isinstance(c, ToolCallDelta) and c.index == index)

    @property
    def usage(self) -> list[Usage]:
        return [chunk for chunk in self.chunks if isinstance(chunk, Usage)]

    @property
    def stop(self) -> StopReason | None:
        return next((chunk.stop_reason for chunk in self.chunks if isinstance(chunk, Done)), None)

    def kinds(self) -> list[type[Chunk]]:
        return [type(chunk) for chunk in self.chunks]


async def hear(provider: Provider, request: Request) -> Heard:
    """One whole call; an AgentError ends it and is kept."""
    heard = Heard()
    try:
        async with aclosing(provider.stream(request)) as chunks:
            async for chunk in chunks:
                heard.chunks.append(chunk)
    except AgentError as error:
        heard.error = error
    return heard


def asks(text: str, *, tools: ToolSchema = NO_TOOLS, **more: Any) -> Request:
    return Request(system=SystemPrompt("You are helpful."), messages=[text_message("user", text)], tools=tools, **more)


class Stage(Protocol):
    """A provider, and questions that make it talk and call a tool."""

    @property
    def provider(self) -> Provider: ...

    def wants_words(self) -> tuple[Request, str]:
        """A request, and the words it is answered with."""

    def wants_tool(self) -> tuple[Request, str, dict[str, Any]]:
        """A request, the tool it makes the model call, and with which arguments."""


class ProviderContract:
    """Promises of every provider."""

    async def test_words_arrive_in_pieces_and_whole(self, stage: Stage) -> None:
        request, words = stage.wants_words()
        heard = await hear(stage.provider, request)
        assert heard.error is None
        assert heard.text == words
        assert sum(isinstance(chunk, TextDelta) for chunk in heard.chunks) > 1

    @pytest.mark.requirement("R-15", "W-42")
    async def test_a_call_ends_with_its_usage_and_exactly_one_done(self, stage: Stage) -> None:
        request, _ = stage.wants_words()
        heard = await hear(stage.provider, request)
        assert heard.kinds()[-2:] == [Usage, Done]
        assert heard.kinds().count(Done) == heard.kinds().count(Usage) == 1
        assert heard.stop == "end_turn"
        assert heard.usage[0].prompt > 0
        assert heard.usage[0].output > 0

    @pytest.mark.requirement("R-14", "Z-13")
    async def test_a_tool_call_comes_as_start_pieces_and_end(self, stage: Stage) -> None:
        request, name, arguments = stage.wants_tool()
        heard = await hear(stage.provider, request)
        assert [call[1:] for call in heard.calls] == [(name, arguments)]
        assert heard.calls[0][0]
        about = [kind for kind in heard.kinds() if kind in (ToolCallStart, ToolCallDelta, ToolCallDone)]
        assert about[0] is ToolCallStart
        assert about[-1] is ToolCallDone
        assert ToolCallDelta in about
        assert heard.stop == "tool_use"

    async def test_the_result_of_a_tool_can_be_told(self, stage: Stage) -> None:
        request, name, arguments = stage.wants_tool()
        first = await hear(stage.provider, request)
        use = ToolUse(id=first.calls[0][0], name=name, input=arguments)
        answered = replace(
            request,
            messages=[
                *request.messages,
                Message(role="assistant", parts=(TextPart(text="Let me look."), use)),
                Message(role="user", parts=(ToolResult(tool_use_id=use.id, content="42"),)),
            ],
        )
        heard = await hear(stage.provider, answered)
        assert heard.error is None
        assert heard.text

    async def test_calls_at_once_do_not_mix(self, stage: Stage) -> None:
        request, words = stage.wants_words()
        heard: list[Heard] = []

        async def one() -> None:
            heard.append(await hear(stage.provider, request))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(one)
        assert [one.text for one in heard] == [words] * 5

    async def test_closing_early_is_allowed(self, stage: Stage) -> None:
        request, words = stage.wants_words()
        async with aclosing(stage.provider.stream(request)) as chunks:
            await anext(chunks)
        assert (await hear(stage.provider, request)).text == words

    async def test_it_describes_itself(self, stage: Stage) -> None:
        provider = stage.provider
        await provider.warm_up()
        assert provider.name
        assert provider.family
        assert provider.model
        assert provider.context_window > 0
        assert isinstance(provider.takes, frozenset)

    async def test_closing_twice_is_closing_once(self, stage: Stage) -> None:
        request, _ = stage.wants_words()
        await hear(stage.provider, request)
        await stage.provider.aclose()
        await stage.provider.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class WireStage:
    """A provider on the double. `make` builds another one with other settings."""

    provider: Provider
    server: LlmServer
    make: Callable[..., Provider]

    def wants_words(self) -> tuple[Request, str]:
        self.server.double.script = [{"match": {}, "reply": {"text": "Hello there, friend.\n\nÄ 👩‍🚀 end"}}]
        return asks("hello"), "Hello there, friend.\n\nÄ 👩‍🚀 end"

    def wants_tool(self) -> tuple[Request, str, dict[str, Any]]:
        call = {"type": "tool_use", "name": "get_weather", "input": {"city": "Zürich 👍"}}
        self.server.double.script = [
            {"match": {"tool_result": True}, "reply": {"text": "It is 42."}},
            {"match": {}, "reply": {"blocks": [{"type": "text", "text": "Let me look."}, call]}},
        ]
        return asks("weather?", tools=TOOLS), "get_weather", {"city": "Zürich 👍"}


BUSY_IN_STREAM = ("truncate", "disconnect", "error_event", "malformed")


class WireContract(ProviderContract):
    """Promises of every provider that speaks to a server."""

    family: str

    # --- what goes out ---

    @pytest.mark.requirement("R-12")
    async def test_the_request_carries_prompt_messages_length_and_tools(self, stage: WireStage) -> None:
        request, _, _ = stage.wants_tool()
        system = SystemPrompt("You are helpful.", "Ann likes tea.")
        await hear(stage.provider, replace(request, system=system, max_tokens=777, reminder="It is noon."))
        body = json.dumps(stage.server.bodies[0])
        for sent in ("You are helpful.", "Ann likes tea.", "weather?", "777", "It is noon."):
            assert sent in body
        assert "get_weather" in body
        assert "The weather of a city." in body
        assert body.index("It is noon.") < body.index("weather?")

    async def test_the_reminder_stays_with_the_newest_words_through_a_tool_loop(self, stage: WireStage) -> None:
        request, name, arguments = stage.wants_tool()
        loop = [
            text_message("user", "first words"),
            text_message("assistant", "an answer"),
            text_message("user", "newest words"),
            Message(role="assistant", parts=(ToolUse(id="c1", name=name, input=arguments),)),
            Message(role="user", parts=(ToolResult(tool_use_id="c1", content="42"),)),
        ]
        await hear(stage.provider, replace(request, messages=loop, reminder="It is noon."))
        holding = [
            json.dumps(message) for message in stage.server.bodies[0]["messages"] if "noon" in json.dumps(message)
        ]
        assert len(holding) == 1
        assert holding[0].index("It is noon.") < holding[0].index("newest words")

    @pytest.mark.requirement("Z-19", "W-37")
    async def test_the_same_history_is_the_same_bytes_in_the_next_request(self, stage: WireStage) -> None:
        history = [text_message("user", "one"), text_message("assistant", "two ä"), text_message("user", "three")]
        await hear(stage.provider, replace(asks(""), messages=history))
        longer = [*history, text_message("assistant", "four"), text_message("user", "five")]
        await hear(stage.provider, replace(asks(""), messages=longer))
        first, second = (body["messages"] for body in stage.server.bodies)
        assert second[: len(first)] == first

    async def test_blank_texts_and_empty_messages_are_no_mistake(self, stage: WireStage) -> None:
        history = [
            Message(role="user", parts=(TextPart(text=""),)),
            Message(role="assistant", parts=()),
            Message(role="assistant", parts=(TextPart(text=""), ToolUse(id="c1", name="get_weather"))),
            Message(role="user", parts=(TextPart(text="and"), ToolResult(tool_use_id="c1", content="", is_error=True))),
            Message(role="user", parts=(TextPart(text="half a pair: \ud83d"),)),
        ]
        heard = await hear(stage.provider, replace(asks("", tools=TOOLS), messages=history))
        assert heard.error is None

    async def test_repeated_and_odd_call_ids_are_made_unique(self, stage: WireStage) -> None:
        def loop(id: str) -> list[Message]:
            return [
                Message(role="assistant", parts=(ToolUse(id=id, name="get_weather", input={"city": "Rome"}),)),
                Message(role="user", parts=(ToolResult(tool_use_id=id, content="sunny"),)),
            ]

        odd = "functions.get_weather:0 " + "x" * 60
        history = [text_message("user", "go"), *loop("c1"), *loop("c1"), *loop(odd), *loop(odd)]
        heard = await hear(stage.provider, replace(asks("", tools=TOOLS), messages=history))
        assert heard.error is None
        assert len(stage.server.calls) == 1

    async def test_calls_in_the_history_do_not_need_tools_now(self, stage: WireStage) -> None:
        history = [
            text_message("user", "go"),
            Message(role="assistant", parts=(ToolUse(id="c1", name="get_weather", input={"city": "Rome"}),)),
            Message(role="user", parts=(ToolResult(tool_use_id="c1", content="sunny"),)),
        ]
        heard = await hear(stage.provider, replace(asks(""), messages=history))
        assert heard.error is None
        assert "sunny" in json.dumps(stage.server.bodies[0]["messages"])

    async def test_a_file_of_a_type_it_takes_goes_along_and_others_are_named(self, stage: WireStage, home: Any) -> None:
        (home / "media").mkdir()
        (home / "media" / "a.png").write_bytes(PNG)
        (home / "media" / "note.txt").write_text("remember the milk")
        (home / "media" / "b.zip").write_bytes(b"PK")

        def part(path: str, mime: str) -> FilePart:
            return FilePart(path=path, mime_type=mime, name=path.rsplit("/", 1)[-1], size=2)

        parts = (
            TextPart(text="look"),
            part("media/a.png", "image/png"),
            part("media/note.txt", "text/plain"),
            part("media/b.zip", "application/zip"),
            part("media/gone.png", "image/png"),
            part("../../etc/passwd", "text/plain"),
        )
        await hear(stage.provider, replace(asks(""), messages=[Message(role="user", parts=parts)]))
        body = json.dumps(stage.server.bodies[0])
        assert "iVBORw0KGgo" in body  # the picture, as base64
        assert "remember the milk" in body
        for name in ("b.zip", "gone.png", "passwd"):
            assert f"[file: {name}" in body
        assert "root:" not in body

    @pytest.mark.requirement("W-38")
    async def test_the_routing_hint_changes_nothing(self, stage: WireStage) -> None:
        request, _ = stage.wants_words()
        await hear(stage.provider, request)
        await hear(stage.provider, replace(request, routing_hint="premium:tool_heavy"))
        plain, hinted = stage.server.bodies
        assert plain == hinted

    # --- what comes in ---

    async def test_usage_is_what_the_provider_counted(self, stage: WireStage) -> None:
        stage.server.replies({"text": "one two three", "usage": {"input_tokens": 1234, "output_tokens": 56}})
        heard = await hear(stage.provider, asks("hi"))
        assert heard.usage == [Usage(prompt=1234, output=56)]

    async def test_several_calls_in_one_reply_keep_their_order(self, stage: WireStage) -> None:
        cities = ["Oslo", "Rome", "Lima"]
        blocks = [{"type": "tool_use", "name": "get_weather", "input": {"city": city}} for city in cities]
        stage.server.replies({"blocks": [{"type": "text", "text": "Looking."}, *blocks]})
        heard = await hear(stage.provider, asks("weather?", tools=TOOLS))
        assert [arguments["city"] for _, _, arguments in heard.calls] == cities
        assert len({id for id, _, _ in heard.calls}) == 3
        assert heard.kinds().count(ToolCallDone) == 3

    async def test_a_tool_call_without_arguments(self, stage: WireStage) -> None:
        stage.server.replies({"blocks": [{"type": "tool_use", "name": "get_weather", "input": {}}]})
        heard = await hear(stage.provider, asks("weather?", tools=TOOLS))
        assert [arguments for _, _, arguments in heard.calls] == [{}]

    @pytest.mark.parametrize(
        ("reason", "stop"), [("max_tokens", "max_tokens"), ("refusal", "refusal"), ("end_turn", "end_turn")]
    )
    async def test_stop_reasons(self, stage: WireStage, reason: str, stop: StopReason) -> None:
        stage.server.replies({"text": "so far", "stop_reason": reason})
        assert (await hear(stage.provider, asks("hi"))).stop == stop

    @pytest.mark.requirement("G-34")
    async def test_a_stop_reason_nobody_knows_is_no_failure(self, stage: WireStage) -> None:
        stage.server.replies({"text": "so far", "stop_reason": "moon_phase"})
        heard = await hear(stage.provider, asks("hi"))
        assert heard.error is None
        assert heard.text == "so far"

    # --- what goes wrong ---

    @pytest.mark.requirement("Z-33", "B-37", "R-18")
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            pytest.param(429, ProviderBusy, id="rate limit"),
            pytest.param(500, ProviderBusy, id="server error"),
            pytest.param(502, ProviderBusy, id="bad gateway"),
            pytest.param(503, ProviderBusy, id="unavailable"),
            pytest.param(529, ProviderBusy, id="overloaded"),
            pytest.param(408, ProviderBusy, id="time-out of the server"),
            pytest.param(400, RequestInvalid, id="bad request"),
            pytest.param(401, KeyRefused, id="bad key"),
            pytest.param(403, KeyRefused, id="not allowed"),
            pytest.param(404, ProviderRefused, id="no such model"),
        ],
    )
    async def test_a_refused_call_is_made_once_and_classified(
        self, stage: WireStage, status: int, kind: type[AgentError]
    ) -> None:
        stage.server.fails(kind="error", status=status, message="because I say so")
        heard = await hear(stage.provider, asks("hi"))
        assert type(heard.error) is kind
        assert heard.chunks == []
        assert len(stage.server.calls) == 1

    @pytest.mark.requirement("B-37")
    async def test_the_wait_a_provider_asks_for_is_told(self, stage: WireStage) -> None:
        stage.server.fails(kind="error", status=429, retry_after=7)
        heard = await hear(stage.provider, asks("hi"))
        assert isinstance(heard.error, ProviderBusy)
        assert heard.error.after_s == 7

    async def test_a_request_over_the_window_is_too_long(self, stage: WireStage) -> None:
        stage.server.double.settings["context_window"] = 10
        heard = await hear(stage.provider, asks("word " * 100))
        assert type(heard.error) is ContextTooLong

    async def test_a_person_who_quotes_such_an_error_is_answered(self, stage: WireStage) -> None:
        words = "prompt is too long: maximum context length context_length_exceeded"
        heard = await hear(stage.provider, asks(words))
        assert heard.error is None
        assert words in heard.text

    @pytest.mark.requirement("W-41", "W-42", "Z-33")
    @pytest.mark.parametrize("after", [0, 2])
    @pytest.mark.parametrize("kind", BUSY_IN_STREAM)
    async def test_a_broken_stream_is_a_failed_attempt(self, stage: WireStage, kind: str, after: int) -> None:
        stage.server.replies({"text": "one two three four five", "fault": {"kind": kind, "after_tokens": after}})
        heard = await hear(stage.provider, asks("hi"))
        assert type(heard.error) is ProviderBusy
        assert "one two three four five".startswith(heard.text)
        assert heard.stop is None

    @pytest.mark.requirement("W-42")
    async def test_a_stream_cut_inside_a_tool_call_is_a_failed_attempt(self, stage: WireStage) -> None:
        blocks = [{"type": "tool_use", "name": "get_weather", "input": {"city": "a long name of a city"}}]
        stage.server.replies({"blocks": blocks, "fault": {"kind": "truncate", "after_tokens": 2}})
        heard = await hear(stage.provider, asks("weather?", tools=TOOLS))
        assert type(heard.error) is ProviderBusy

    async def test_a_connection_dropped_before_any_answer(self, stage: WireStage) -> None:
        stage.server.fails(kind="drop")
        assert type((await hear(stage.provider, asks("hi"))).error) is ProviderBusy

    @pytest.mark.requirement("B-33")
    async def test_a_stream_that_stalls_ends_after_the_time_out(self, stage: WireStage) -> None:
        provider = stage.make(timeout_s=4)
        await provider.warm_up()
        stage.server.replies({"text": "one two three four", "fault": {"kind": "stall", "after_tokens": 2, "delay": 99}})
        with anyio.fail_after(60):
            heard = await hear(provider, asks("hi"))
        assert type(heard.error) is ProviderBusy
        assert heard.text == "one two"

    async def test_an_answer_that_does_not_come_ends_after_the_time_out(self, stage: WireStage) -> None:
        provider = stage.make(timeout_s=0.3)
        stage.server.fails(kind="slow", delay=120)
        with anyio.fail_after(60):
            assert type((await hear(provider, asks("hi"))).error) is ProviderBusy

    @pytest.mark.requirement("R-18")
    async def test_the_whole_stream_has_a_time_limit(self, stage: WireStage) -> None:
        provider = stage.make(stream_timeout_s=5)
        await provider.warm_up()
        stage.server.replies({"text": "word " * 4000, "token_delay": 0.05})
        with anyio.fail_after(60):
            heard = await hear(provider, asks("hi"))
        assert type(heard.error) is ProviderBusy
        assert heard.text.startswith("word word")

    async def test_a_server_that_is_not_there(self, stage: WireStage) -> None:
        provider = stage.make(base_url="http://127.0.0.1:9/v1")
        assert type((await hear(provider, asks("hi"))).error) is ProviderBusy

    async def test_leaving_closes_the_connection(self, stage: WireStage) -> None:
        stage.server.replies({"text": "word " * 2000, "token_delay": 0.005})
        async with aclosing(stage.provider.stream(asks("hi"))) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    break
        await _closed(stage.server)

    async def test_cancelling_closes_the_connection(self, stage: WireStage) -> None:
        stage.server.replies({"text": "one two three", "fault": {"kind": "stall", "after_tokens": 1, "delay": 120}})
        begun = anyio.Event()

        async def listen() -> None:
            async with aclosing(stage.provider.stream(asks("hi"))) as chunks:
                async for _ in chunks:
                    begun.set()

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            with anyio.fail_after(60):
                await begun.wait()
            group.cancel_scope.cancel()
        await _closed(stage.server)

    @pytest.mark.requirement("G-28")
    @pytest.mark.parametrize("status", [400, 401, 429, 500])
    async def test_the_key_is_in_no_error_and_no_repr(self, stage: WireStage, status: int) -> None:
        stage.server.fails(kind="error", status=status, message=f"Incorrect API key provided: {KEY}. Bearer {KEY}")
        heard = await hear(stage.provider, asks("hi"))
        assert heard.error is not None
        shown = "".join(traceback.format_exception(heard.error)) + repr(heard.error) + repr(stage.provider)
        shown += repr(vars(stage.provider))
        assert KEY not in shown

    # --- thinking ---

    async def thinks_and_calls(self, stage: WireStage) -> tuple[Heard, Sequence[Message]]:
        """One call in which the model thinks, speaks and calls a tool, and the history for the next one."""
        blocks = [
            {"type": "thinking", "thinking": "I need the  tool.\n\tÄ"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "name": "get_weather", "input": {"city": "Oslo"}},
        ]
        stage.server.replies({"blocks": blocks}, {"text": "It is sunny."})
        heard = await hear(stage.provider, asks("weather?", tools=TOOLS))
        assert heard.error is None
        parts: list[Any] = []
        for chunk in heard.chunks:
            if isinstance(chunk, ThinkingDone):
                parts.append(Thinking(thinking=chunk.thinking, signature=chunk.signature, family=stage.provider.family))
            elif isinstance(chunk, RedactedThinkingDone):
                parts.append(RedactedThinking(data=chunk.data, family=stage.provider.family))
        parts.append(TextPart(text=heard.text))
        parts += [ToolUse(id=id, name=name, input=arguments) for id, name, arguments in heard.calls]
        history = [
            text_message("user", "weather?"),
            Message(role="assistant", parts=tuple(parts)),
            Message(role="user", parts=(ToolResult(tool_use_id=heard.calls[0][0], content="sunny"),)),
        ]
        return heard, history

    @pytest.mark.requirement("Z-19")
    async def test_thinking_goes_back_byte_for_byte_in_a_tool_loop(self, stage: WireStage) -> None:
        heard, history = await self.thinks_and_calls(stage)
        assert [done.thinking for done in heard.thinking] == ["I need the  tool.\n\tÄ"]
        assert "".join(c.text for c in heard.chunks if isinstance(c, ThinkingDelta)) == "I need the  tool.\n\tÄ"
        again = await hear(stage.provider, replace(asks("", tools=TOOLS), messages=history))
        assert again.error is None
        sent = json.dumps(stage.server.bodies[1]["messages"], ensure_ascii=False)
        assert json.dumps(heard.thinking[0].thinking, ensure_ascii=False) in sent
        assert json.dumps(heard.thinking[0].signature)[1:-1] in sent

    @pytest.mark.requirement("Z-19")
    async def test_thinking_of_another_family_is_left_out_of_the_request_only(self, stage: WireStage) -> None:
        foreign = Thinking(thinking="in other words", signature="abc", family="somebody else")
        message = Message(role="assistant", parts=(foreign, TextPart(text="an answer")))
        alone = Message(role="assistant", parts=(foreign,))
        history = [
            text_message("user", "one"),
            message,
            text_message("user", "two"),
            alone,
            text_message("user", "three"),
        ]
        heard = await hear(stage.provider, replace(asks(""), messages=history))
        assert heard.error is None
        assert "in other words" not in json.dumps(stage.server.bodies[0])
        assert message.parts[0] is foreign


async def _closed(server: LlmServer) -> None:
    with anyio.fail_after(60):
        while not server.calls[-1].get("client_closed"):  # noqa: ASYNC110 - the server has no event for it
            await anyio.sleep(0.01)
