"""Tools of the web: `web_fetch` gives a document as it is, `web_scrape` its article, and a search."""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

import anyio
from anyio import to_thread
from pydantic import Field

from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.tools import Appraisal, ToolContext
from agent.tools.settings import WebSettings
from agent.tools.web.addresses import target_of
from agent.tools.web.article import article_of
from agent.tools.web.fetching import Document, Fetcher
from agent.tools.web.pages import page_of, text_of

_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/x-ndjson",
          "application/yaml", "application/x-yaml", "application/rss+xml", "application/atom+xml")  # fmt: skip
_HTML = ("text/html", "application/xhtml+xml")


# Searches go to the operator's provider: SearXNG, Brave or Tavily.
BASES = {"brave": "https://api.search.brave.com", "tavily": "https://api.tavily.com"}
MOST_BYTES = 2 * 1024 * 1024
LONGEST_SNIPPET = 400  # characters

_Url = Annotated[str, Field(min_length=1, max_length=2_000, description="The whole address, beginning with https://.")]


class WebTools:
    """Tools that read the web. `settings` are for calls outside of a turn."""

    def __init__(self, settings: Callable[[], WebSettings], fetcher: Fetcher, proxy: str | None = None) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._proxy = proxy

    @tool(category="info", risk="safe", touches="outside", effects=[], core=True, retryable=True, untrusted=True)
    async def web_fetch(self, context: ToolContext, *, url: _Url) -> str:
        """Fetches a document from the web: text, JSON, or a page with all its words and links. It is asked for as a
        stranger would: without any login."""
        document = await self._fetcher.get(url, context.execution.section(WebSettings, self._settings))
        text = await to_thread.run_sync(_text, document, abandon_on_cancel=True)
        if document.kind in _HTML:
            page = await to_thread.run_sync(lambda: page_of(text, document.url, whole=True), abandon_on_cancel=True)
            text = f"# {page.title}\n\n{page.text}" if page.title else page.text
        return _told(document, text)

    @tool(category="info", risk="safe", touches="outside", effects=[], retryable=True, untrusted=True)
    async def web_scrape(self, context: ToolContext, *, url: _Url) -> str:
        """Reads a page on the web and gives what it is about as Markdown, without menus, forms and what else stands
        around it."""
        document = await self._fetcher.get(url, context.execution.section(WebSettings, self._settings))
        if document.kind not in _HTML:
            raise ToolError(f"{document.url} is no page but {document.kind or 'unnamed'}; use web_fetch")
        text = await to_thread.run_sync(_text, document, abandon_on_cancel=True)
        return _told(document, await _subject(text, document.url))

    @web_fetch.appraised_by
    @web_scrape.appraised_by
    async def _appraise(self, arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        """The call with the one address that is meant; a forbidden one is an error before anybody is asked anything."""
        allowed = context.execution.section(WebSettings, self._settings)
        return Appraisal(arguments={"url": target_of(str(arguments["url"]), allowed).url})

    @tool(category="info", risk="safe", touches="outside", effects=[], core=True, retryable=True, untrusted=True)
    async def web_search(
        self,
        context: ToolContext,
        *,
        query: Annotated[str, Field(min_length=1, max_length=400, description="What to look for, in a few words.")],
    ) -> str:
        """Searches the web. Read what looks right with web_scrape or web_fetch."""
        settings = context.execution.section(WebSettings, self._settings)
        if not settings.search:
            raise ToolError("no search provider is set ([tools.web] search)")
        try:
            with anyio.fail_after(settings.timeout_s):
                answer = await self._ask(query, settings)
        except TimeoutError as error:
            raise ToolError(f"the search did not answer within {settings.timeout_s:g} s", transient=True) from error
        return told(found_in(answer, settings.search)[: settings.search_results])

    async def _ask(self, query: str, settings: WebSettings) -> Any:
        http: Any = await anyio.to_thread.run_sync(import_module, "httpx2")
        own = settings.search == "searxng"  # one's own instance is not beyond the proxy
        try:
            async with (
                http.AsyncClient(trust_env=False, proxy=None if own else self._proxy, timeout=None) as client,
                client.stream(**request_for(query, settings)) as answer,
            ):
                data = await whole_body(answer.aiter_bytes(), MOST_BYTES)
                if answer.status_code != 200:
                    busy = answer.status_code == 429 or answer.status_code >= 500
                    raise ToolError(f"the search answered with HTTP {answer.status_code}", transient=busy)
                return json.loads(data)
        except BodyTooLarge as error:
            raise ToolError(f"the search answered with more than {error.most} bytes") from error
        except http.HTTPError as error:
            raise ToolError(f"the search cannot be reached ({type(error).__name__})", transient=True) from error
        except ValueError as error:
            raise ToolError("the search did not answer in JSON; does it allow format=json?") from error


async def _subject(html: str, url: str) -> str:
    """By the library of the `web` extra where it is installed, which knows more pages; else by our own reading."""
    page = await to_thread.run_sync(lambda: page_of(html, url, whole=False), abandon_on_cancel=True)
    text = await article_of(html, url) or page.text
    return f"# {page.title}\n\n{text}" if page.title else text


def _text(document: Document) -> str:
    if document.kind and not document.kind.startswith(_TEXTS) and document.kind not in _HTML and not _is_xml(document):
        raise ToolError(f"{document.url} is no text but {document.kind} ({len(document.data)} bytes)")
    if b"\0" in document.data[:4096] and "16" not in document.charset:
        raise ToolError(f"{document.url} is no text ({len(document.data)} bytes)")
    return text_of(document.data, document.charset)


def _is_xml(document: Document) -> bool:
    return document.kind.endswith(("+xml", "+json"))


def _told(document: Document, text: str) -> str:
    cut = ", cut off at the most that is taken" if document.cut else ""
    return (
        f"[{document.url}: HTTP {document.status}, {document.kind or 'unnamed'}{cut}]\n\n{text.strip() or '(nothing)'}"
    )


def request_for(query: str, settings: WebSettings) -> dict[str, Any]:
    """The request, in the provider's own way."""
    base = (settings.search_url or BASES.get(settings.search, "")).rstrip("/")
    key = settings.search_key.get_secret_value() if settings.search_key is not None else ""
    match settings.search:
        case "brave":
            params = {"q": query, "count": str(settings.search_results)}
            headers = {"X-Subscription-Token": key, "Accept": "application/json"}
            return {"method": "GET", "url": f"{base}/res/v1/web/search", "params": params, "headers": headers}
        case "tavily":
            body = {"query": query, "max_results": settings.search_results}
            headers = {"Authorization": f"Bearer {key}"}
            return {"method": "POST", "url": f"{base}/search", "json": body, "headers": headers}
        case _:
            return {"method": "GET", "url": f"{base}/search", "params": {"q": query, "format": "json"}}


def found_in(answer: Any, provider: str) -> list[tuple[str, str, str]]:
    """Title, address and snippet of each hit; what has no address is left out."""
    hits = answer.get("web", {}) if provider == "brave" and isinstance(answer, dict) else answer
    listed = hits.get("results", []) if isinstance(hits, dict) else []
    found = []
    for hit in listed if isinstance(listed, list) else []:
        if isinstance(hit, dict) and str(hit.get("url", "")).startswith(("http://", "https://")):
            snippet = hit.get("content") or hit.get("description") or ""
            found.append((_line(hit.get("title")), str(hit["url"]), _line(snippet)[:LONGEST_SNIPPET]))
    return found


def told(hits: list[tuple[str, str, str]]) -> str:
    """The hits as a model reads them."""
    return "\n\n".join(f"{number}. {title}\n   {url}\n   {snippet}" for number, (title, url, snippet) in
                       enumerate(hits, 1)) or "Nothing was found."  # fmt: skip


def _line(value: Any) -> str:
    return " ".join(str(value or "").split())
