"""Refusals of the doors, in the one form that OpenAI's clients read.

platform.openai.com/docs/guides/error-codes: `{"error": {"message", "type", "param", "code"}}`. A client of OpenAI's
repeats 408, 409, 429 and 5xx by itself unless `x-should-retry` says no.
"""

from starlette.responses import JSONResponse

from agent.core.errors import ContextTooLong, Refused, Transient
from agent.storage.errors import StorageError

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class BadRequest(Exception):
    """The request cannot be carried out; the text says why and names the field."""

    def __init__(self, text: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(text)
        self.param, self.code, self.status = param, code, status


def refusal(
    status: int,
    text: str,
    *,
    code: str | None = None,
    param: str | None = None,
    retry_after_s: int | None = None,
) -> JSONResponse:
    """The answer that says so. It may be asked again only where a time is named."""
    headers = {"x-should-retry": "true" if retry_after_s is not None else "false"}
    if retry_after_s is not None:
        headers["retry-after"] = str(retry_after_s)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse({"error": error_of(status, text, code=code, param=param)}, status_code=status, headers=headers)


def error_of(status: int, text: str, *, code: str | None = None, param: str | None = None) -> dict[str, str | None]:
    """The object of an error."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"message": text, "type": kind, "param": param, "code": code}


def of_agent(error: Exception) -> tuple[int, str, str]:
    """Status, sentence and code of a call that failed."""
    match error:
        case ContextTooLong():
            return 400, str(error), "context_length_exceeded"
        case Refused():
            return 429, str(error), "budget_exceeded"
        case StorageError():
            return 503, "the database cannot be reached now; nothing was lost", "unavailable"
        case Transient() | TimeoutError():
            return 503, str(error) or "no answer came in time", "model_unavailable"
        case _:
            return 502, str(error), "model_failed"
