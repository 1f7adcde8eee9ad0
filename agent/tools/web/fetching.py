"""Gets one document from the web: the checked address is the one connected to, on every hop, within time and size.

The name goes into the Host header and the certificate check only; cookies, proxies of the environment and credentials
of the gateway are never used. The HTTP library is loaded with the first request.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any
from urllib.parse import urljoin

import anyio

from agent.core.errors import ToolError
from agent.tools.settings import WebSettings
from agent.tools.web.addresses import Address, NotAllowed, Target, target_of
from agent.tools.web.resolve import Lookup, look_up, resolved

MOST_REDIRECTS = 3
MEBIBYTE = 1024 * 1024
AGENT = "Mozilla/5.0 (compatible; Tieline)"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {"User-Agent": AGENT, "Accept": "text/html,text/*,application/json,*/*;q=0.5",
            "Accept-Encoding": "gzip, deflate"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The document fetched. `url` is where from, after redirects; `cut`: there was more than is taken."""

    url: str
    status: int
    kind: str  # of the content, without its parameters, in small letters
    charset: str
    data: bytes
    cut: bool = False


class Fetcher:
    """Asks for documents. `proxy` is the operator's, and is given addresses, never names."""

    def __init__(self, proxy: str | None = None, lookup: Lookup = look_up) -> None:
        self._proxy = proxy
        self._lookup = lookup
        self._tls: Any = None  # made once: it reads a file of certificates

    async def get(self, url: str, settings: WebSettings) -> Document:
        """Raises NotAllowed, or ToolError with what went wrong."""
        most = int(settings.max_mb * MEBIBYTE)
        try:
            with anyio.fail_after(settings.timeout_s):
                return await self._follow(target_of(url, settings), settings, most)
        except TimeoutError as error:
            raise ToolError(f"{url} did not answer within {settings.timeout_s:g} s", transient=True) from error

    async def _follow(self, target: Target, settings: WebSettings, most: int) -> Document:
        for _ in range(MOST_REDIRECTS + 1):
            found = await self._ask(target, most)
            if isinstance(found, Document):
                return found
            next_target = target_of(urljoin(target.url, found), settings)
            if target.scheme == "https" and next_target.scheme == "http":
                raise NotAllowed(f"{target.host} leads from https:// to http://{next_target.host}")
            target = next_target
        raise ToolError(f"more than {MOST_REDIRECTS} redirects")

    async def _ask(self, target: Target, most: int) -> Document | str:
        """A document, or the address that another one has."""
        addresses = await resolved(target, self._lookup)
        http: Any = await anyio.to_thread.run_sync(import_module, "httpx2")
        if self._tls is None:
            self._tls = await anyio.to_thread.run_sync(http.create_ssl_context)
        for number, address in enumerate(addresses, 1):
            try:
                return await self._ask_at(http, target, address, most)
            except http.ConnectError as error:
                if number == len(addresses):
                    raise ToolError(f"{target.host} cannot be reached: {error}", transient=True) from error
            except http.HTTPError as error:
                raise ToolError(f"{target.host} did not answer properly: {error}", transient=True) from error
        raise AssertionError("unreachable: there is at least one address")

    async def _ask_at(self, http: Any, target: Target, address: Address, most: int) -> Document | str:
        pinned = replace(target, host=str(address))
        headers: Mapping[str, str] = {**_HEADERS, "Host": target.authority}
        async with (
            http.AsyncClient(
                trust_env=False, verify=self._tls, proxy=self._proxy, follow_redirects=False, timeout=None
            ) as client,
            client.stream("GET", pinned.url, headers=headers, extensions={"sni_hostname": target.host}) as answer,
        ):
            if answer.status_code in _REDIRECTS and (location := answer.headers.get("location")):
                return str(location)
            data, cut = await _body(answer, most)
            kind, charset = _content_type(answer.headers.get("content-type", ""))
            return Document(
                url=target.url, status=answer.status_code, kind=kind, charset=charset, data=data, cut=cut
            )  # fmt: skip


async def _body(answer: Any, most: int) -> tuple[bytes, bool]:
    """Up to `most` bytes, unpacked here: a small packed body may hold more than there is memory."""
    unpack = _unpacker(answer.headers.get("content-encoding", ""))
    taken = bytearray()
    async for piece in answer.aiter_raw():
        try:
            taken += unpack(piece, most + 1 - len(taken))
        except zlib.error as error:
            raise ToolError(f"the content is not packed as its server says: {error}") from error
        if len(taken) > most:
            return bytes(taken[:most]), True
    return bytes(taken), False


def _unpacker(encoding: str) -> Any:
    """A function of packed bytes and the most to give."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda piece, most: piece
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(wbits=47).decompress  # either, by its first bytes
        case other:
            raise ToolError(f"the content is packed in a way that is not known: {other[:40]}")


def _content_type(header: str) -> tuple[str, str]:
    kind, *parameters = header.split(";")
    charset = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
    return kind.strip().lower(), charset
