"""Tools that read the web: `web_fetch` gives a document as it is, `web_scrape` what a page is about."""

from collections.abc import Callable, Mapping
from typing import Any

from anyio import to_thread
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.tools import Appraisal, ToolContext, ToolSpec
from agent.tools.reach import WebSettings
from agent.tools.schemas import Arguments, parsed, schema_from
from agent.tools.web.article import article_of
from agent.tools.web.fetching import Document, Fetcher
from agent.tools.web.pages import page_of, text_of
from agent.tools.web.targets import target_of

_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/x-ndjson",
          "application/yaml", "application/x-yaml", "application/rss+xml", "application/atom+xml")  # fmt: skip
_HTML = ("text/html", "application/xhtml+xml")


class _Url(Arguments):
    url: str = Field(min_length=1, max_length=2_000, description="The whole address, beginning with https://.")


class WebFetch:
    """`web_fetch(url)`: a text document whole, a page with all its words."""

    def __init__(self, fetcher: Fetcher, settings: Callable[[], WebSettings]) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self.spec = ToolSpec(
            name="web_fetch",
            description="Fetches a document from the web: text, JSON, or a page with all its words and links. It is "
            "asked for as a stranger would: without any login.",
            schema=schema_from(_Url),
            category="info",
            risk="safe",
            core=True,
            retryable=True,
            untrusted=True,
            appraise=_grounded(settings),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        document = await self._fetcher.get(
            parsed(_Url, arguments).url, context.execution.section(WebSettings, self._settings)
        )
        text = await to_thread.run_sync(_text, document, abandon_on_cancel=True)
        if document.kind in _HTML:
            page = await to_thread.run_sync(lambda: page_of(text, document.url, whole=True), abandon_on_cancel=True)
            text = f"# {page.title}\n\n{page.text}" if page.title else page.text
        return _told(document, text)


class WebScrape:
    """`web_scrape(url)`: the article, without menus and the like."""

    def __init__(self, fetcher: Fetcher, settings: Callable[[], WebSettings]) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self.spec = ToolSpec(
            name="web_scrape",
            description="Reads a page on the web and gives what it is about as Markdown, without menus, forms and "
            "what else stands around it.",
            schema=schema_from(_Url),
            category="info",
            risk="safe",
            retryable=True,
            untrusted=True,
            appraise=_grounded(settings),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        document = await self._fetcher.get(
            parsed(_Url, arguments).url, context.execution.section(WebSettings, self._settings)
        )
        if document.kind not in _HTML:
            raise ToolError(f"{document.url} is no page but {document.kind or 'unnamed'}; use web_fetch")
        text = await to_thread.run_sync(_text, document, abandon_on_cancel=True)
        return _told(document, await _subject(text, document.url))


def _grounded(settings: Callable[[], WebSettings]) -> Any:
    """The call with the one address that is meant; a forbidden one is an error before anybody is asked anything."""

    async def appraise(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
        allowed = context.execution.section(WebSettings, settings)
        return Appraisal(arguments={"url": target_of(str(arguments["url"]), allowed).url})

    return appraise


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
