"""Errors of providers: from an answer to the error that tells the caller what to do next. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from agent.core.errors import (
    AgentError,
    ContextTooLong,
    KeyRefused,
    ProviderBusy,
    ProviderRefused,
    QuotaUsedUp,
    RequestFiltered,
    RequestInvalid,
)
from agent.core.untrusted_text import whole

CONTEXT_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "model_max_prompt_tokens_exceeded",
        "request_too_large",
    }
)
CONTEXT_WORDS = re.compile(
    r"maximum number of tokens|maximum context length|context_length_exceeded|prompt is too long|input(?: is)? too long"
    r"|exceeds? (?:the |this model's )?(?:available |maximum )?context|context (?:window|size|length) (?:exceeded|of)"
    # xAI, Ollama, vLLM and SGLang, Together
    r"|maximum prompt length|exceeded max context|longer than the (?:maximum model|model's context) length"
    r"|too long to fit into the model|tokens \+ `max_new_tokens` must be"
    # LM Studio, Groq and DeepSeek, OpenRouter, GitHub Copilot, MiniMax, Kimi, Qwen, DS4
    r"|greater than the context length|reduce the length of the messages|exceeds the maximum allowed input length"
    r"|token count of [\d,]{1,12} exceeds the limit|context window exceeds limit|exceeded model token limit"
    r"|range of input length should be|configured context size is",
    re.IGNORECASE,
)
# Answers of some servers with 429 although waiting does not help: there is no money left.
QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "billing_error",
        "billing_not_active",
        "billing_hard_limit_reached",
        "credit_balance_too_low",
    }
)
REFUSED_KINDS = frozenset(
    {"invalid_request_error", "authentication_error", "permission_error", "not_found_error", "invalid_api_key"}
)
# Answers of some servers with 400 although nothing in the request's messages is wrong.
LOGIN_CODES = frozenset({"invalid_api_key", "model_not_found", "permission_denied"})
LOGIN_KINDS = frozenset({"authentication_error", "permission_error", "not_found_error", "invalid_api_key"})
KEY_STATUS = frozenset({401, 403})
KEY_CODES = frozenset({"invalid_api_key", "permission_denied"})
KEY_KINDS = frozenset({"authentication_error", "permission_error", "invalid_api_key"})
NO_CREDIT = "the account has no credit left or has reached a limit of its own; add credit or raise the limit"
# The same where only the wording tells. Anthropic: credit, limits, organisation; Google: the key. Looked for at the
# beginning alone, since some servers repeat what they were sent.
ACCOUNT_WORDS = (
    (
        re.compile(r"credit balance is too low|you have reached your specified \w+ usage limits", re.IGNORECASE),
        NO_CREDIT,
    ),
    (
        re.compile(r"organization has been disabled", re.IGNORECASE),
        "the account is disabled; ask the service why, or set the api_key of another",
    ),
    (
        re.compile(r"api key (?:not valid|expired)", re.IGNORECASE),
        "the API key was refused; check the api_key set for it",
    ),
)
FILTER_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "data_inspection_failed",  # Qwen
        "invalid_prompt",  # OpenAI
        "moderation_blocked",
        "ResponsibleAIPolicyViolation",
    }
)
FILTER_WORDS = re.compile(r"content violates usage guidelines|content exists risk", re.IGNORECASE)  # xAI, DeepSeek
# The model wrote a call that its service could not read (Groq): the next attempt may go better, and is paid for.
UNREADABLE_CODES = frozenset({"tool_use_failed"})
BUSY_STATUS = frozenset({408, 409, 423, 425, 429})
BROKEN_STATUS = frozenset({500, 502})  # a server that breaks over a request, and what a proxy says of one
WORDY_STATUS = frozenset({0, 200, 400, 403})
ACCOUNT_STATUS = frozenset({401, 402, 403, 404})  # the key, the account or the model, whatever the request says
LONGEST = 300  # characters of the provider's own words in an error
MOST_READ = 4_000  # of those that are looked at

# How long to wait, where no header tells: OpenAI and Groq ("Please try again in 1m3.5s"), Google ("Please retry in").
_WAIT = re.compile(
    r"(?:try again|retry) in (?:(\d{1,4})h)?(?:(\d{1,4})m(?!s))?(?:(\d{1,9}(?:\.\d{1,12})?)(ms|s))?", re.IGNORECASE
)

# Headers with a service's own id of a request, by which its support finds it.
_REQUEST_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-generation-id", "cf-ray")
_REQUEST_ID = re.compile(r"[\w.:/-]{1,80}")
_TAG = re.compile(r"<[^<>]*>")
_TITLE = re.compile(r"<title>([^<]{0,200})", re.IGNORECASE)

_KEYLIKE = re.compile(
    r"\b(?:sk|pk|rk|key|xai|gsk|hf|AIza)[-_][\w\-*.]{6,}|\bAIza[\w-]{10,}|(?i:bearer)\s+[\w\-.~+/=]{8,}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The facts of a failure. `status` 0: the error came inside a stream that had begun well."""

    status: int
    kind: str = ""
    code: str = ""
    message: str = ""
    after_s: float | None = None
    request: str = ""  # how the service calls it


def classify(provider: str, answer: Answer, secrets: Iterable[str] = ()) -> AgentError:
    """The error for `answer`, with the fix in its words. The class comes from codes and status before any wording."""
    said = clean(answer.message, secrets)
    tail = (f": {said}" if said else "") + (f" [request {answer.request}]" if answer.request else "")
    if _is_context(answer):
        return ContextTooLong(f"{provider}: the request is larger than the model's context window{tail}")
    if answer.code in QUOTA_CODES or answer.kind in QUOTA_CODES:
        return QuotaUsedUp(f"{provider}: the account has no quota left{tail}")
    if _is_filter(answer):
        return RequestFiltered(f"{provider}: a content filter keeps the request back{tail}")
    if (trouble := _account_trouble(answer)) == NO_CREDIT:
        return QuotaUsedUp(f"{provider}: {trouble}{tail}")
    if trouble:
        return KeyRefused(f"{provider}: {trouble}{tail}")
    if answer.code in UNREADABLE_CODES:
        return ProviderBusy(f"{provider}: the model wrote a call that its service could not read{tail}", retries=1)
    if _is_busy(answer):
        limited = answer.status == 429 or answer.kind == "rate_limit_error"
        return ProviderBusy(
            f"{provider}: {_busy_words(answer)}{tail}",
            after_s=answer.after_s,
            limited=limited,
            unanswered=answer.status in BROKEN_STATUS,
        )
    words = f"{provider}: {_refused_words(answer)}{tail}"
    if answer.status == 402:
        return QuotaUsedUp(words)
    if _is_invalid(answer):
        return RequestInvalid(words)
    if answer.status in KEY_STATUS or answer.code in KEY_CODES or answer.kind in KEY_KINDS:
        return KeyRefused(words, doubtful=answer.status == 403)
    return ProviderRefused(words, any_request=answer.status in ACCOUNT_STATUS or _is_login(answer))


def busy(
    provider: str, what: str, secrets: Iterable[str] = (), *, sent: bool = True, unanswered: bool = False
) -> ProviderBusy:
    """The connection failed, was cut, timed out, or carried nonsense. `sent`: the request may have been worked on;
    `unanswered`: the connection ended before a byte came.
    """
    return ProviderBusy(f"{provider}: {clean(what, secrets)}", sent=sent, unanswered=unanswered)


def refused(provider: str, what: str, secrets: Iterable[str] = ()) -> ProviderRefused:
    """No call can work until somebody changes the configuration."""
    return ProviderRefused(f"{provider}: {clean(what, secrets)}", any_request=True)


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` on one line, short, of signs that can be seen, without secrets: ours, or what looks like one (G-28)."""
    for secret in sorted((secret for secret in secrets if len(secret) > 3), key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    text = _KEYLIKE.sub("[redacted]", whole(text))[:MOST_READ]
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def without_markup(text: str) -> str:
    """Of a web page its title, which says what a proxy has to say, else its words; any other text as it is."""
    if text.lstrip()[:1] != "<":
        return text
    found = _TITLE.search(text)
    return found[1] if found else _TAG.sub(" ", text)


def request_id(headers: Mapping[str, str]) -> str:
    """The service's id of the request; "" where it does not say, or says more than a name."""
    return _named(next((value for name in _REQUEST_HEADERS if (value := headers.get(name))), ""))


def _named(value: Any) -> str:
    return value if isinstance(value, str) and _REQUEST_ID.fullmatch(value) else ""


def read_error(body: Any, status: int, after_s: float | None = None, request: str = "") -> Answer:
    """The error object of either API's family, in any of the shapes that servers send."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]  # Google's form of Chat Completions
    error = body.get("error", body) if isinstance(body, dict) else body
    request = request or (_named(body.get("request_id")) if isinstance(body, dict) else "")
    if not isinstance(error, dict):
        message = error if isinstance(error, str) else ""
        return Answer(status=status, message=message, after_s=after_s, request=request)
    code = error.get("code")
    if status == 0 and isinstance(code, int) and 400 <= code < 600:
        status = code  # inside a stream some servers put the HTTP status here
    message = error.get("message") or error.get("detail") or ""
    further = error.get("metadata")
    if isinstance(further, dict) and isinstance(further.get("raw"), str):
        message = f"{message}: {further['raw']}"  # OpenRouter: what the service behind it said
    if isinstance(further, dict) and "flagged_input" in further:
        code = "content_filter"  # OpenRouter's moderation, as 403
    return Answer(
        status=status,
        kind=error["type"] if isinstance(error.get("type"), str) else "",
        code=code if isinstance(code, str) else "",
        message=message if isinstance(message, str) else str(message),
        after_s=_asked_wait(error, message) if after_s is None else after_s,
        request=request,
    )


def _asked_wait(error: Mapping[str, Any], message: Any) -> float | None:
    """Seconds that the error itself asks to wait: Google's RetryInfo, or the wording."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay.endswith("s") and delay[:-1].replace(".", "", 1).isdecimal():
            return float(delay[:-1])
    found = _WAIT.search(message) if isinstance(message, str) else None
    if found is None or not any(found.groups()):
        return None
    hours, minutes, rest, unit = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(rest or 0) / (1000 if unit == "ms" else 1)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait: `retry-after-ms`, or `retry-after` as seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            return _until(value, headers.get("date"))
        return seconds if 0 <= seconds < float("inf") else None
    return None


def _until(moment: str, sent: str | None) -> float | None:
    try:
        return max(0.0, (parsedate_to_datetime(moment) - parsedate_to_datetime(sent or "")).total_seconds())
    except (ValueError, TypeError):
        return None


def _is_context(answer: Answer) -> bool:
    if answer.code in CONTEXT_CODES or answer.kind in CONTEXT_CODES or answer.status == 413:
        return True
    return answer.status in (0, 400, 422) and bool(CONTEXT_WORDS.search(answer.message))


def _is_filter(answer: Answer) -> bool:
    if answer.code in FILTER_CODES or answer.kind in FILTER_CODES:
        return True
    return answer.status in (0, 200, 400, 403) and bool(FILTER_WORDS.search(answer.message))


def _is_busy(answer: Answer) -> bool:
    if answer.status in (0, 200):  # mid-stream (200: as an SDK reports it): the request was good enough to begin with
        return answer.kind not in REFUSED_KINDS
    return answer.status in BUSY_STATUS or answer.status >= 500


def _account_trouble(answer: Answer) -> str:
    """The trouble with the account or the key, by the words alone; "" where there is none, or a code tells."""
    if answer.status not in WORDY_STATUS:
        return ""
    said = answer.message[:LONGEST]
    return next((trouble for pattern, trouble in ACCOUNT_WORDS if pattern.search(said)), "")


def _is_login(answer: Answer) -> bool:
    return answer.code in LOGIN_CODES or answer.kind in LOGIN_KINDS


def _is_invalid(answer: Answer) -> bool:
    if _is_login(answer):
        return False
    return answer.status in (400, 422) or (answer.status in (0, 200) and answer.kind == "invalid_request_error")


def _busy_words(answer: Answer) -> str:
    match answer.status, answer.kind:
        case 429, _:
            return "rate limited (429)"
        case _, "overloaded_error":
            return "overloaded"
        case 529, _:
            return "overloaded (529)"
        case ((0 | 200), kind):
            return f"failed in the middle of its answer ({kind or 'no reason given'})"
        case status, _:
            return f"failed (HTTP {status})"


def _refused_words(answer: Answer) -> str:
    match answer.status:
        case 401:
            return "the API key was refused (401); check the api_key set for it"
        case 402:
            return "the account must be paid up (402)"
        case 403:
            return "the API key may not do this (403); check the key's permissions and the model"
        case 404:
            return "no such model or address (404); check model and base_url"
        case 301 | 302 | 303 | 307 | 308:
            return f"leads to another address (HTTP {answer.status}); set base_url to that one"
        case 0 | 200:
            return f"refused the request ({answer.kind})"
        case status:
            return f"refused the request (HTTP {status})"
