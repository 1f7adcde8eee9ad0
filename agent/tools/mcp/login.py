"""Logins at servers that ask for OAuth: a person makes one, a file keeps it, the running gateway renews it.

The authorization code flow with PKCE, the discovery of the authorization server (RFC 9728, RFC 8414) and the
registration of the client (RFC 7591) are the SDK's. Renewing is done here: the SDK forgets over a restart when a token
ends and who gave it, and begins a whole flow where nobody is there to follow it.
"""

import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import parse_qs, quote, urljoin, urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from agent.core.clock import Clock
from agent.core.files.safe import put_whole

EARLY_S = 30.0  # a token is renewed before it ends: the request is on its way for a while
VERSION = "2025-06-18"  # of the protocol: the first that says how a server asks for a login
LARGEST_SENT_BACK = 8_192  # characters of an address

log = logging.getLogger("tieline.mcp")


class LoginFailed(Exception):
    """There is no login; the text says why and holds no secret."""


class Kept(BaseModel):
    """The content of the file. It counts for this `url` only: no other server is ever sent its token.

    `ends_at` is in POSIX seconds, None where the server named no end.
    """

    url: str
    tokens: OAuthToken
    ends_at: float | None
    client: OAuthClientInformationFull
    token_endpoint: str
    resource: str | None

    def has_ended(self, clock: Clock) -> bool:
        return self.ends_at is not None and clock.now().timestamp() >= self.ends_at - EARLY_S


def read(path: Path, url: str) -> Kept | None:
    """The login for this address; None without one. Blocking. A file that is none is told in the log."""
    try:
        kept = Kept.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:  # the texts of both name what they read; a path holds no secret
        reason = error.strerror if isinstance(error, OSError) else "it is not what `tieline mcp login` writes"
        log.warning("the login in %s cannot be used: %s", path.name, reason)
        return None
    return kept if kept.url == url else None


def write(path: Path, kept: Kept) -> None:
    """Whole or not at all, readable by the owner only. Blocking. Raises OSError."""
    put_whole(path, kept.model_dump_json())


class Login(httpx2.Auth):
    """Sends the token of the file with each request of one connection, and renews it when it ends or is refused."""

    def __init__(self, path: Path, url: str, clock: Clock, sync: Callable[[], Awaitable[None]] | None = None) -> None:
        """`sync` brings the file to the state that other processes know, which may renew the same login."""
        self._sync = sync
        self._path = path
        self._url = url
        self._clock = clock
        self._kept: Kept | None = None
        self._is_read = False
        self._renewing = anyio.Lock()  # a token for renewing is often good once

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self._renewing:
            if not self._is_read or (self._sync is not None and self._kept and self._kept.has_ended(self._clock)):
                self._kept = await self._read()
                self._is_read = True
            if self._kept is not None and self._kept.has_ended(self._clock) and self._kept.tokens.refresh_token:
                await self._renewed(self._kept, (yield renewal(self._kept)))
            sent = self._kept
        if sent is None:
            yield request
            return
        request.headers["Authorization"] = f"Bearer {sent.tokens.access_token}"
        if (yield request).status_code != 401:
            return
        async with self._renewing:
            if self._kept is sent:
                self._kept = await self._read()
            now = self._kept or sent
            if now.tokens == sent.tokens:  # else somebody has logged in, or another request renewed it
                if not sent.tokens.refresh_token:
                    return
                if not await self._renewed(sent, (yield renewal(sent))):
                    return
                now = self._kept or sent
        sent = now
        request.headers["Authorization"] = f"Bearer {sent.tokens.access_token}"
        yield request

    async def _read(self) -> Kept | None:
        if self._sync is not None:
            await self._sync()
        return await anyio.to_thread.run_sync(read, self._path, self._url)

    async def _renewed(self, before: Kept, response: httpx2.Response) -> bool:
        """Whether there is a new token; it is kept for the next start."""
        answer = await response.aread()
        if response.status_code != 200:
            log.warning("the login in %s was not renewed (HTTP %d)", self._path.name, response.status_code)
            return False
        try:
            tokens = OAuthToken.model_validate_json(answer)
        except ValidationError:  # its text holds the tokens
            log.warning("the login in %s was not renewed: the answer is no token", self._path.name)
            return False
        tokens.refresh_token = tokens.refresh_token or before.tokens.refresh_token
        tokens.scope = tokens.scope or before.tokens.scope
        self._kept = before.model_copy(update={"tokens": tokens, "ends_at": _end_of(tokens, self._clock)})
        try:
            await anyio.to_thread.run_sync(write, self._path, self._kept)
        except OSError as error:
            log.warning("the renewed login in %s is lost with the next restart: %s", self._path.name, error.strerror)
        if self._sync is not None:
            await self._sync()
        return True


def renewal(kept: Kept) -> httpx2.Request:
    """The request of RFC 6749 §6, authenticated as the client was registered."""
    client, headers = kept.client, dict[str, str]()
    form = {
        "grant_type": "refresh_token",
        "refresh_token": kept.tokens.refresh_token or "",
        "client_id": client.client_id or "",
    }
    if kept.resource:
        form["resource"] = kept.resource
    if client.client_secret and client.token_endpoint_auth_method == "client_secret_basic":  # noqa: S105 - a method's name
        pair = f"{quote(client.client_id or '', safe='')}:{quote(client.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    elif client.client_secret and client.token_endpoint_auth_method != "none":  # noqa: S105 - a method's name
        form["client_secret"] = client.client_secret
    return httpx2.Request("POST", kept.token_endpoint, data=form, headers=headers)


class _Fresh:
    """Tokens of one login. The SDK's `TokenStorage`; nothing of an earlier login counts."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def code_in(address: str) -> AuthorizationCodeResult:
    """The code that the authorization server sent in the address. Raises ValueError where there is none."""
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address[:LARGEST_SENT_BACK].strip()).query).items()}
    if "error" in asked:
        raise LoginFailed(f"the server says: {asked.get('error_description') or asked['error']}"[:300])
    if "code" not in asked or "state" not in asked:
        raise ValueError("this address holds no code; copy the whole address to which the browser was sent")
    return AuthorizationCodeResult(code=asked["code"], state=asked["state"], iss=asked.get("iss"))


async def log_in(
    client: httpx2.AsyncClient,
    url: str,
    clock: Clock,
    *,
    redirect: str,
    show: Callable[[str], Awaitable[None]],
    sent_back: Callable[[], Awaitable[str]],
    registered: tuple[str, str] | None = None,
) -> Kept | None:
    """A login at the server of this address; None when it asks for none.

    `show` is given the address that the person opens, `sent_back` waits for the one they are sent to, which begins with
    `redirect`. `registered` are the id and the secret ("" for none) of a client that somebody registered there by hand.
    Raises LoginFailed.
    """
    known = None
    if registered is not None:
        name, secret = registered
        known = OAuthClientInformationFull(
            client_id=name,
            client_secret=secret or None,
            redirect_uris=[AnyUrl(redirect)],
            token_endpoint_auth_method="client_secret_post" if secret else "none",
        )
    fresh = _Fresh(known)

    async def returned() -> AuthorizationCodeResult:
        return code_in(await sent_back())

    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(client_name="Tieline", redirect_uris=[AnyUrl(redirect)]),
        fresh,
        redirect_handler=show,
        callback_handler=returned,
    )
    try:
        async with _first_word(client, url, provider) as response:
            status = response.status_code
    except (OAuthFlowError, httpx2.HTTPError, ValidationError, ValueError, OSError) as error:
        reason = "an answer is not what OAuth says" if isinstance(error, ValidationError) else str(error)
        raise LoginFailed(" ".join(reason.split())[:300] or type(error).__name__) from error
    if fresh.tokens is None or fresh.client is None:
        if status >= 400:
            raise LoginFailed(f"the server refused and named no way to log in (HTTP {status})")
        return None
    context = provider.context
    metadata = context.oauth_metadata
    asked_for = context.protected_resource_metadata
    return Kept(
        url=url,
        tokens=fresh.tokens,
        ends_at=_end_of(fresh.tokens, clock),
        client=fresh.client,
        token_endpoint=str(metadata.token_endpoint) if metadata is not None else urljoin(url, "/token"),
        resource=context.get_resource_url() if asked_for is not None else None,
    )


def _first_word(
    client: httpx2.AsyncClient, url: str, auth: httpx2.Auth
) -> AbstractAsyncContextManager[httpx2.Response]:
    """A client's first message, so that the server asks for a login."""
    if speaks_sse(url):
        return client.stream("GET", url, headers={"Accept": "text/event-stream"}, auth=auth)
    about = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "tieline", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
    return client.stream("POST", url, json=body, headers=headers, auth=auth)


def speaks_sse(url: str) -> bool:
    return urlsplit(url).path.rstrip("/").endswith("/sse")


def _end_of(tokens: OAuthToken, clock: Clock) -> float | None:
    return clock.now().timestamp() + tokens.expires_in if tokens.expires_in is not None else None
