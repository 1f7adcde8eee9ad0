"""Settings of providers, from the configuration or, without one, from the environment."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, ClassVar, Literal

from pydantic import SecretStr

from agent.core.phrases import needs_extra
from agent.core.settings_section import SECTION_CONFIG
from agent.providers.endpoints import is_url
from agent.providers.provider import Prices

ProviderType = Literal["anthropic", "openai", "litellm", "demo"]

MAX_WINDOW = 2_000_000  # tokens; no configuration exceeds it
MIN_THINKING = 1024  # tokens; the least that Anthropic accepts

# For a start with nothing but a key. Any configuration, or *_MODEL in the environment, overrides them.
ANTHROPIC_MODEL = "claude-sonnet-5-5"
OPENAI_MODEL = "gpt-5.4-mini"

NO_SECRET = SecretStr("")

_MARKUP = re.compile(r"[<>`*|\\\"]|\]\(")
LONGEST_MODEL = 200  # characters of a model's name

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def missing_extra(type_: ProviderType) -> str:
    """Why no provider of that type can be opened, with the command that helps; empty where its library is there."""
    return needs_extra('type "litellm"', "litellm", module="litellm") if type_ == "litellm" else ""


def is_model_name(text: str) -> bool:
    """Whether a model may be called so: the name is shown in chats, logs, terminals and pages, and is no markup."""
    return 0 < len(text) <= LONGEST_MODEL and text.isprintable() and not _MARKUP.search(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One `[[llm.providers]]` section. Raises ValueError with every mistake in it; secrets are never shown.

    `timeout_s` bounds the wait for the first byte and each silence after it, `stream_timeout_s` the whole stream.
    `api_keys` stand in place of `api_key` where there are several. `thinking` is Anthropic's: a budget in tokens, or
    "adaptive". `takes` lists the MIME types the model reads; without it they follow from the model.
    `prompt_cache_ttl` "auto" follows the request. `failover` names who stands in for this provider, in place of
    `[llm] failover`; an empty list: nobody.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    name: str
    type: ProviderType
    model: str = ""
    base_url: str = ""
    api_key: SecretStr = NO_SECRET
    api_keys: tuple[SecretStr, ...] = ()
    default: bool = False
    max_tokens: int | None = None
    context_window: int | None = None
    temperature: float | None = None
    thinking: int | Literal["off", "adaptive"] = "off"
    reasoning_effort: str = ""
    prompt_cache_ttl: Literal["auto", "none", "5m", "1h"] = "auto"
    prices: Prices | None = None
    failover: tuple[str, ...] | None = None
    takes: tuple[str, ...] | None = None
    timeout_s: float = 120.0
    stream_timeout_s: float = 300.0
    proxy: SecretStr = NO_SECRET
    extra_headers: Mapping[str, SecretStr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mistakes = tuple(self._mistakes())
        if mistakes:
            raise ValueError(f"provider {self.name!r}: " + "; ".join(mistakes))

    def _mistakes(self) -> list[str]:
        found: list[str] = []
        if not _NAME.fullmatch(self.name):
            found.append("name: use 1 to 64 letters, digits, dots, dashes or underscores")
        if not self.model and self.type != "demo":
            found.append('model is missing: set model = "…"')
        if self.model and not is_model_name(self.model):
            found.append(
                f"model: write it in at most {LONGEST_MODEL} characters that can be seen, without markup such as < or *"
            )
        found += self._mistakes_in_keys()
        if not self.keys and not self.base_url and self.type in ("anthropic", "openai"):
            found.append(f'api_key is missing: set api_key = "env:{self.type.upper()}_API_KEY"')
        if self.type == "litellm" and self.proxy.get_secret_value():
            found.append("proxy: litellm takes it from the environment only; set HTTPS_PROXY")
        if self.base_url and not is_url(self.base_url, "http", "https"):
            found.append("base_url: must be an address that begins with http:// or https://")
        if (proxy := self.proxy.get_secret_value()) and not is_url(proxy, "http", "https", "socks5"):
            found.append("proxy: must be an address that begins with http://, https:// or socks5://")
        if self.max_tokens is not None and self.max_tokens < 1:
            found.append(f"max_tokens = {self.max_tokens}: must be at least 1")
        if self.context_window is not None and not 1 <= self.context_window <= MAX_WINDOW:
            found.append(f"context_window = {self.context_window}: must lie between 1 and {MAX_WINDOW}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            found.append(f"temperature = {self.temperature}: must lie between 0 and 2")
        if isinstance(self.thinking, int) and self.thinking < MIN_THINKING:
            found.append(f'thinking = {self.thinking}: must be at least {MIN_THINKING} tokens, or "off" or "adaptive"')
        for key, seconds in (("timeout_s", self.timeout_s), ("stream_timeout_s", self.stream_timeout_s)):
            if not 0 < seconds <= 3600:
                found.append(f"{key} = {seconds}: must be above 0 and at most 3600 seconds")
        found += [
            f"prices.{key} = {price}: must be a finite amount of 0 or more"
            for key, price in (asdict(self.prices) if self.prices is not None else {}).items()
            if price is not None and not (isfinite(price) and price >= 0)
        ]
        return found

    def _mistakes_in_keys(self) -> list[str]:
        values = [key.get_secret_value() for key in self.api_keys]
        found: list[str] = []
        if self.api_key.get_secret_value() and values:
            found.append("api_key and api_keys are both set; write all keys into api_keys and remove api_key")
        empty = [str(number) for number, value in enumerate(values, 1) if not value.strip()]
        if empty:
            found.append(f"api_keys: key {', '.join(empty)} of {len(values)} is empty; set it, or take it out")
        elif len(set(values)) < len(values):
            found.append("api_keys: a key stands there twice; each must be another one")
        return found

    @property
    def keys(self) -> tuple[SecretStr, ...]:
        """The keys in the order in which they are tried."""
        return self.api_keys or ((self.api_key,) if self.api_key.get_secret_value() else ())

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets of the section: for redaction only."""
        held = (self.api_key, *self.api_keys, self.proxy, *self.extra_headers.values())
        return tuple(value for secret in held if (value := secret.get_secret_value()))


def from_environment(environ: Mapping[str, str]) -> tuple[ProviderSettings, ...]:
    """The providers of a start without configuration: those whose key is in `environ`, else the demo.

    Anthropic comes first and so is the default if both keys are there. `ANTHROPIC_MODEL`, `OPENAI_MODEL` and the
    usual `*_BASE_URL` are honoured.
    """
    known: tuple[tuple[ProviderType, str], ...] = (("anthropic", ANTHROPIC_MODEL), ("openai", OPENAI_MODEL))
    found = tuple(
        ProviderSettings(
            name=type_,
            type=type_,
            model=environ.get(f"{type_.upper()}_MODEL") or model,
            base_url=environ.get(f"{type_.upper()}_BASE_URL", ""),
            api_key=SecretStr(key),
        )
        for type_, model in known
        if (key := environ.get(f"{type_.upper()}_API_KEY", "").strip())
    )
    return found or (ProviderSettings(name="demo", type="demo"),)
