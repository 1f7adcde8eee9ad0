"""The section `[otel]`. Light: the configuration imports it before anything slow is loaded."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from agent.core.phrases import needs_extra
from agent.core.settings_section import SECTION_CONFIG

LONGEST_NAME = 100  # characters
MOST_CONTENT = 100_000  # characters of one text
LONGEST_S = 3600.0
PATHS = ("/v1/traces", "/v1/metrics", "/v1/logs")  # https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # a token of RFC 9110, section 5.6.2
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_OURS = frozenset({"content-type", "content-length", "content-encoding", "host", "user-agent", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelSettings:
    """`[otel]`: turns as spans, and the metrics, sent to a collector by OTLP/HTTP where `endpoint` names one.

    `endpoint` is the address without `/v1/traces`; `headers` go along with each request. `traces` and `metrics` say
    what is sent. With `capture_content` texts go along: of models and tools, at most `content_chars` of each.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    endpoint: str = ""
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    service_name: str = "tieline"
    traces: bool = True
    metrics: bool = True
    metrics_every_s: float = 60.0
    capture_content: bool = False
    content_chars: int = 8_000

    @property
    def sends_traces(self) -> bool:
        return bool(self.endpoint) and self.traces

    @property
    def sends_metrics(self) -> bool:
        return bool(self.endpoint) and self.metrics

    @property
    def sends_content(self) -> bool:
        return self.sends_traces and self.capture_content

    @property
    def host(self) -> str:
        """The collector's host and port, which may be told."""
        return urlsplit(self.endpoint).netloc

    @property
    def hostname(self) -> str:
        """The collector's host alone."""
        return urlsplit(self.endpoint).hostname or ""

    @property
    def secrets(self) -> frozenset[str]:
        """Values of headers."""
        return frozenset(value.get_secret_value() for value in self.headers.values())

    def address(self, path: str) -> str:
        """The address for one of PATHS."""
        return self.endpoint.rstrip("/") + path

    def mistakes(self) -> Iterator[str]:
        """Mistakes, one line each, without the values of headers."""
        if not 0 < len(self.service_name.strip()) <= LONGEST_NAME:
            yield f"otel.service_name: must have 1 to {LONGEST_NAME} characters"
        if not 1 <= self.metrics_every_s <= LONGEST_S:
            yield f"otel.metrics_every_s: {self.metrics_every_s:g} must be 1 to {LONGEST_S:g}"
        if not 100 <= self.content_chars <= MOST_CONTENT:
            yield f"otel.content_chars: {self.content_chars} must be 100 to {MOST_CONTENT}"
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name):
                yield f'otel.headers: {name!r} is no name of a header; write it as "x-api-key"'
            elif name.lower() in _OURS:
                yield f"otel.headers.{name}: is set by the gateway itself; leave it out"
            elif not _VALUE.fullmatch(value.get_secret_value()):
                yield f"otel.headers.{name}: may hold letters, digits and signs of ASCII alone, and must not be empty"
        if not self.endpoint:
            if self.headers or self.capture_content:
                yield "otel.endpoint: is missing; name the collector's address"
            return
        if wrong := _wrong(self.endpoint):
            yield f"otel.endpoint: {wrong}"
        if missing := needs_extra("otel.endpoint", "otel", module="opentelemetry.proto"):
            yield missing


def _wrong(endpoint: str) -> str:
    """The mistake of an address; "" where there is none."""
    try:
        parts = urlsplit(endpoint)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or any(character.isspace() for character in endpoint):
        return 'is no address; write it as "http://127.0.0.1:4318"'
    if parts.username or parts.password:
        return "holds a name or a password; use otel.headers"
    if parts.query or parts.fragment:
        return "must have neither ? nor #"
    ending = next((path for path in PATHS if parts.path.rstrip("/").endswith(path)), "")
    return f'ends in "{ending}", which is added by itself; leave it out' if ending else ""
