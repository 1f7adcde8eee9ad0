"""Turns and deliveries as spans of OTLP, by the GenAI semantic conventions. Pure; loaded by name where it is needed.

Names and attributes of https://opentelemetry.io/docs/specs/semconv/gen-ai/, `tieline.*` for what has no word there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from agent.core.ids import RunId
from gateway.otel.contents import ModelContent, Redact, ToolContent, attributes_of
from gateway.otel.context import TurnContext
from gateway.otel.work import Delivery
from gateway.telemetry.metrics import operation_of
from gateway.traces.trace import FAILED, EndedTurn, Span

SCOPE = "tieline"
SAMPLED = 0x1  # W3C's flag, in the lowest bits of a span's flags
NO_REMOTE = 0x100  # it is known whether the parent is remote
REMOTE = 0x200  # and it is

Value = str | bool | int | float | Sequence[str] | None
Attributes = Mapping[str, Value]
Fields = dict[str, Any]  # of a message of the protocol


def resource_of(service_name: str, version: str, instance: str) -> Resource:
    """The program as collectors know it; `instance` names this start of it among all."""
    about: Attributes = {"service.name": service_name, "service.version": version, "service.instance.id": instance}
    return Resource(attributes=[KeyValue(**fields) for fields in _attributes(about)])


def body_of(resource: Resource, version: str, spans: Iterable[Fields]) -> tuple[bytes, int]:
    """The body of a request with these spans, and how many they are."""
    request = ExportTraceServiceRequest()
    told = request.resource_spans.add(resource=resource)
    scope = told.scope_spans.add(scope=InstrumentationScope(name=SCOPE, version=version))
    for fields in spans:
        scope.spans.add(**fields)  # made where they stay: put in later, each would be copied
    body: bytes = request.SerializeToString()
    return body, len(scope.spans)


def context_of(turn: EndedTurn) -> TurnContext:
    return TurnContext(turn.trace.run, turn.trace.attempt, turn.traceparent)


def spans_of(turn: EndedTurn, *, most: int, redact: Redact) -> Iterator[Fields]:
    """The turn and its parts, by the fields of OTLP's Span; texts have at most `most` characters."""
    trace, context = turn.trace, context_of(turn)
    trace_id, turn_id = context.trace_id, context.turn_id
    conversation = _whole(trace.conversation)
    yield _turn_span(turn, context)
    owners: dict[RunId, bytes] = {trace.run: turn_id}
    owners |= {request: context.part_id(place) for place, request in turn.made.items()}
    for place, (part, run) in enumerate(zip(turn.spans, turn.runs, strict=True)):
        name, kind, attributes = _told(part)
        content = turn.contents.get(place)
        texts = attributes_of(content, most, redact) if isinstance(content, ModelContent | ToolContent) else {}
        begun = (trace.started_at + part.start_ms * 1000) * 1000
        yield {
            "trace_id": trace_id,
            "span_id": context.part_id(place),
            # A sub-agent that was cut off has left no span of its own: what it did stands below the turn.
            "parent_span_id": owners.get(run, turn_id),
            "flags": SAMPLED | NO_REMOTE,
            "name": _whole(name),
            "kind": kind,
            "start_time_unix_nano": begun,
            "end_time_unix_nano": begun + part.ms * 1_000_000,
            "attributes": _attributes({"gen_ai.conversation.id": conversation, **attributes, **texts}),
            "status": _failed(_error_of(part)),
        }


def delivery_span(delivery: Delivery, context: TurnContext) -> Fields:
    """The delivery of a message, below the turn that wrote it."""
    told: Attributes = {
        "gen_ai.conversation.id": delivery.conversation,
        "tieline.platform": delivery.platform,
        "tieline.message.kind": delivery.kind,
        "tieline.attempt": delivery.attempt,
        "error.type": None if delivery.sent else "dead_letter",
    }
    return {
        "trace_id": context.trace_id,
        "span_id": context.delivery_id(delivery.row),
        "parent_span_id": context.turn_id,
        "flags": SAMPLED | NO_REMOTE,
        "name": "delivery",
        "kind": OtlpSpan.SPAN_KIND_CLIENT,
        "start_time_unix_nano": delivery.begun_at * 1000,
        "end_time_unix_nano": max(delivery.begun_at, delivery.ended_at) * 1000,
        "attributes": _attributes(told),
        "status": _failed("" if delivery.sent else "dead_letter"),
    }


def _turn_span(turn: EndedTurn, context: TurnContext) -> Fields:
    trace = turn.trace
    answered_by = _answered_by(turn)
    failure = trace.outcome if trace.outcome in FAILED else ""
    told: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": trace.provider,
        "gen_ai.request.model": answered_by.model if answered_by is not None else None,
        "gen_ai.agent.name": turn.agent or None,
        "gen_ai.conversation.id": trace.conversation,
        "gen_ai.usage.input_tokens": trace.tokens_in,
        "gen_ai.usage.output_tokens": trace.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": trace.tokens_cached or None,
        "tieline.run": trace.run,
        "tieline.attempt": trace.attempt,
        "tieline.outcome": trace.outcome,
        "tieline.waited_ms": trace.waited_ms,
        "tieline.first_token_ms": trace.first_token_ms,
        "tieline.model_calls": trace.model_calls,
        "tieline.tool_calls": trace.tool_calls,
        "tieline.cost_usd": trace.cost_usd,
        "error.type": failure or None,
    }
    has_caller = bool(context.parent_id)
    return {
        "trace_id": context.trace_id,
        "span_id": context.turn_id,
        "parent_span_id": context.parent_id,
        "flags": SAMPLED | NO_REMOTE | (REMOTE if has_caller else 0),
        "name": f"invoke_agent {turn.agent}".strip(),
        "kind": OtlpSpan.SPAN_KIND_SERVER if has_caller else OtlpSpan.SPAN_KIND_INTERNAL,
        "start_time_unix_nano": trace.started_at * 1000,
        "end_time_unix_nano": (trace.started_at + trace.elapsed_ms * 1000) * 1000,
        "attributes": _attributes(told),
        "status": _failed(failure),
    }


def _answered_by(turn: EndedTurn) -> Span | None:
    """The last call of the turn itself."""
    calls = (part for part in reversed(turn.spans) if part.kind == "model" and not (part.subagent or part.beside))
    return next(calls, None)


def _told(part: Span) -> tuple[str, OtlpSpan.SpanKind.ValueType, Attributes]:
    """Name, kind and attributes of a part."""
    error = _error_of(part) or None
    match part.kind:
        case "model":
            return _model(part)
        case "tool":
            told: Attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": part.name,
                "gen_ai.tool.type": "function",
                "tieline.result_chars": part.size,
                "error.type": error,
            }
            return f"execute_tool {part.name}", OtlpSpan.SPAN_KIND_INTERNAL, told
        case "subagent":
            told = {"gen_ai.operation.name": "invoke_agent", "tieline.steps": part.size, "error.type": error}
            return "invoke_agent", OtlpSpan.SPAN_KIND_INTERNAL, told
        case "recall":
            told = {"tieline.recall.strategy": part.name, "tieline.recall.results": part.size}
        case "context":
            told = {"tieline.tokens": part.size}
        case "retry":
            told = {"gen_ai.provider.name": part.name, "error.type": error}
        case "compaction":
            told = {"tieline.compaction.stage": part.name, "tieline.tokens_freed": part.size}
        case "approval":
            told = {"tieline.outcome": part.outcome}
        case "queue" | "commit" | "delivery":
            told = {}
    return part.kind, OtlpSpan.SPAN_KIND_INTERNAL, told


def _model(part: Span) -> tuple[str, OtlpSpan.SpanKind.ValueType, Attributes]:
    operation = operation_of(part.purpose)
    told: Attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": part.name,
        "gen_ai.request.model": part.model,
        "gen_ai.usage.input_tokens": part.tokens_in,
        "gen_ai.usage.output_tokens": part.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": part.tokens_cached or None,
        "gen_ai.response.finish_reasons": (part.outcome,) if part.outcome else None,
        "tieline.purpose": part.purpose,
        "tieline.first_token_ms": part.first_token_ms,
        "tieline.cost_usd": part.cost_usd,
        "tieline.retries": part.retries or None,
        "tieline.instead_of": part.instead_of or None,
        "tieline.estimated": part.estimated or None,
        "tieline.beside": part.beside or None,
    }
    return f"{operation} {part.model}", OtlpSpan.SPAN_KIND_CLIENT, told


def _error_of(part: Span) -> str:
    """The kind of error that the part ended with; "" for none."""
    if part.kind == "retry":
        return part.outcome or "_OTHER"
    return "_OTHER" if part.is_error else ""


def _failed(error: str) -> Status | None:
    """The status of a part that ended with an error. No message: its words are nobody's business here."""
    return Status(code=Status.STATUS_CODE_ERROR) if error else None


def _attributes(values: Attributes) -> list[Fields]:
    """The attributes by the fields of KeyValue: given so, they take half the time of messages of their own."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Value) -> Fields:
    match value:
        case str():
            return {"string_value": _whole(value)}
        case bool():
            return {"bool_value": value}
        case int():
            return {"int_value": value}
        case float():
            return {"double_value": value}
        case None:
            return {}
        case _:
            return {"array_value": {"values": [{"string_value": _whole(one)} for one in value]}}


def _whole(text: str) -> str:
    """The text without halves of characters, for which UTF-8 has no bytes: one would refuse the whole batch."""
    return text if text.isascii() else text.encode(errors="replace").decode()
