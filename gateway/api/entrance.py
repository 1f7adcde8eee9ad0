"""The way into each door: a key with the scope, and errors in the form that clients read."""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agent.core.errors import AgentError
from agent.storage.errors import StorageError
from gateway.api.keys import ApiKeys, Key, Refused, Scope
from gateway.api.refusals import BadRequest, of_agent, refusal
from gateway.api.turns import NotTaken
from gateway.channels.errors import GatewayUnavailable

SCHEME = "bearer "

_log = logging.getLogger("tieline.api")

Handler = Callable[[Request, Key], Awaitable[Response]]


class Entrance:
    """One for all doors."""

    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    def door(self, scope: Scope | None, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint that asks for a key with that scope (None: any key), and tells each error as one."""

        async def endpoint(request: Request) -> Response:
            try:
                return await handler(request, await self.key_of(request, scope))
            except ClientDisconnect:
                return refusal(400, "the client went away")
            except Exception as error:  # noqa: BLE001 - the channel seam
                return told(error)

        return endpoint

    async def key_of(self, request: Request, scope: Scope | None) -> Key:
        """The key that the request brings. Raises Refused."""
        given = request.headers.get("authorization", "")
        if not given.lower().startswith(SCHEME):
            text = (
                "give an API key: `Authorization: Bearer sk-tieline-…`; the operator makes one by `tieline key create`"
            )
            raise Refused(text, status=401, code="missing_api_key")
        return await self._keys.enter(given[len(SCHEME) :].strip(), scope or "")


def told(error: Exception) -> Response:
    """The answer that tells the error; one that nobody expected has a reference, which the log has too."""
    match error:
        case Refused() | NotTaken():
            return refusal(error.status, str(error), code=error.code, retry_after_s=error.retry_after_s)
        case BadRequest():
            return refusal(error.status, str(error), code=error.code, param=error.param)
        case HTTPException():
            return refusal(error.status_code, str(error.detail))
        case AgentError() | TimeoutError():
            status, text, code = of_agent(error)
            return refusal(status, text, code=code)
        case StorageError() | GatewayUnavailable():
            return refusal(503, "the database cannot be reached now; nothing was lost", retry_after_s=5)
    ref = hashlib.sha256(secrets.token_bytes(8)).hexdigest()[:8]
    _log.error("a request broke", exc_info=error, extra={"ref": ref})
    return refusal(500, f"this request broke something here (reference {ref})", code="internal_error")
