"""The hook of mkdocs.yml: the pages of docs/ stay as readers of the repository see them, and the site shows the same.

Links to files of the repository become links to its address, each page lies beside its HTML as Markdown, and `llms.txt`
and `llms-full.txt` (https://llmstxt.org) list and hold all pages in the order of the navigation.
"""

import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tools.docs import anchor_of

ROOT = Path(__file__).parent.parent
ICON = ROOT / "gateway/web/pages/static/icon.svg"
CONFIGURATION = ROOT / "config"
IN_REPOSITORY = "repository:"  # as a scheme: MkDocs looks for no such page, and a link can be told from its text
ON_SITE = (".md", ".svg", ".png", ".css")
_CODE_OR_LINK = re.compile(
    r"(?P<code>^(?P<fence>```|~~~).*?^(?P=fence)|(?P<ticks>`+)[^`].*?(?P=ticks))|(?P<before>\]\()(?P<link>[^()\s]+)(?=\))",
    re.MULTILINE | re.DOTALL,
)
_NAMED_BY_FILE = re.compile(r"\[(?P<name>[\w-]+\.md)\]\((?P<path>(?:[\w-]+/)*(?P=name))(?P<anchor>#[^()\s]+)?\)")
_NO_PROSE = re.compile(r"^(?:[#|>!]| {4}|```|- |\d+\. )")
_SENTENCE = re.compile(r"(.+?[.:?!])(?= [A-Z`\"]|$)", re.DOTALL)
_CONFIGURATION = re.compile(r"([\"(])repository:(config/[^\"#)]*\.\w+)")


class File(Protocol):
    src_uri: str
    dest_uri: str
    abs_src_path: str | None


class NavigationItem(Protocol):
    """A page or a group: `children` is None for a page, `file` is missing in a group."""

    title: str | None
    children: list[Any] | None


class Navigation(Protocol):
    items: list[NavigationItem]


class Page(Protocol):
    file: File
    is_homepage: bool
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A page of the navigation. `groups` are the titles above it, `path` is that of its HTML."""

    groups: tuple[str, ...]
    path: str
    source: str
    text: str


def on_config(config: Any) -> None:
    """Anchors as `tools.docs` checks them and as readers of the repository make them."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda heading, separator: anchor_of(heading)


def on_nav(nav: Navigation, config: Any, files: Any) -> None:
    """Write the icon, the Markdown of all pages, and the two lists of them."""
    entries = list(_entries(nav.items, ()))
    site, base = Path(config.site_dir), config.site_url or ""
    site.mkdir(parents=True, exist_ok=True)
    shutil.copy(ICON, site)
    shutil.copytree(CONFIGURATION, site / CONFIGURATION.name, dirs_exist_ok=True)
    titles = {entry.source: described(entry.text)[0] for entry in entries}
    pages = {}
    for entry in entries:
        titled = with_titles(entry.text, entry.source, lambda path: titles[path])
        text = with_repository_links(titled, entry.source)
        pages[entry.path] = resolved(as_markdown_links(text), entry.path, config.extra["repository"])
        target = site / f"{entry.path}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(pages[entry.path], encoding="utf-8")
    listed = llms(config.site_name, config.site_description, entries, base, config.extra["optional_groups"])
    (site / "llms.txt").write_text(listed, encoding="utf-8")
    full = "\n\n".join(f"<!-- {base}{path} -->\n\n{text.strip()}" for path, text in pages.items())
    (site / "llms-full.txt").write_text(full + "\n", encoding="utf-8")


def on_page_markdown(markdown: str, page: Page, config: Any, files: Any) -> str:
    """The page in the dialect of Python-Markdown, its links to pages with their titles."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    for beginning, boost in config.extra["search_boosts"].items():
        if page.file.src_uri.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    docs = Path(config.docs_dir)
    titled = with_titles(markdown, page.file.src_uri, lambda path: described((docs / path).read_text("utf-8"))[0])
    return for_python_markdown(with_repository_links(titled, page.file.src_uri))


def on_page_content(html: str, page: Page, config: Any, files: Any) -> str:
    """Addresses for links into the repository; an empty corner of a table is no heading; doors on the first page."""
    html = html.replace("<th></th>", "<td></td>")
    if page.is_homepage:
        html = html.replace("<ul>", '<ul class="doors">', 1)
    return resolved(html, page.file.dest_uri, config.extra["repository"])


def on_post_page(output: str, page: Page, config: Any) -> str:
    """The theme's search is a dialog without a name."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def for_python_markdown(text: str) -> str:
    """`text` (CommonMark) with what belongs to an item of a list indented by four, and no bars escaped in code."""
    lines: list[str] = []
    offsets: list[int] = []  # where the text of each list item begins that is open here
    fence, gap = (
        "",
        True,
    )  # a list that follows a paragraph at once, and an item after one of several blocks, need a blank
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            lines.append("")
            gap = True
            continue
        while not fence and offsets and indent < offsets[-1]:
            offsets.pop()
        beyond = max(indent - (offsets[-1] if offsets else 0), 0)
        shown = " " * (4 * len(offsets) + beyond) + line.lstrip()
        if mark := re.match(r" *(```|~~~)", line):
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and beyond < 4 and (item := re.match(r" *(?:[-*+]|\d+[.)]) +", line)):
            if gap and lines and lines[-1]:
                lines.append("")
            offsets.append(len(item[0]))
            gap = False
        elif not fence and not offsets:
            gap = True
        if not fence and line.startswith("|"):
            shown = re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), shown)
        lines.append(shown)
    return "\n".join(lines)


def with_titles(text: str, source: str, title_of: Callable[[str], str]) -> str:
    """A link whose text is the name of a page's file gets the title of that page."""

    def titled(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["path"]))
        return f"[{title_of(path)}]({found['path']}{found['anchor'] or ''})"

    return _NAMED_BY_FILE.sub(titled, text)


def with_repository_links(text: str, source: str) -> str:
    """Links to files that are no part of the site begin with IN_REPOSITORY; `source` is the page's path below docs/."""

    def changed(link: str) -> str:
        if re.match(r"[a-z]+:|#", link):
            return link
        path, mark, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), path))
        if target.startswith("docs/") and target.endswith(ON_SITE):
            return f"{posixpath.relpath(target, posixpath.join('docs', posixpath.dirname(source)))}{mark}{anchor}"
        return f"{IN_REPOSITORY}{target}{mark}{anchor}"

    return _with_links(text, changed)


def as_markdown_links(text: str) -> str:
    """Links to pages lead to their Markdown, which lies beside the HTML."""
    return _with_links(text, lambda link: link if ":" in link else re.sub(r"\.md(?=#|$)", ".html.md", link))


def resolved(text: str, path: str, repository: str) -> str:
    """`text` with the address of the repository before its paths; a relative one counts from the site's first page.

    Files of `config/`, which people copy, are part of the site.
    """
    root = "../" * path.count("/")
    text = _CONFIGURATION.sub(rf"\1{root}\2", text)
    up = "" if "://" in repository else root
    return text.replace(f'"{IN_REPOSITORY}', f'"{up}{repository}').replace(f"]({IN_REPOSITORY}", f"]({up}{repository}")


def llms(name: str, summary: str, entries: Sequence[Entry], base: str, optional: Sequence[str]) -> str:
    """`llms.txt`: a list of pages for each group of the navigation, last what a model may leave out."""
    titles = {entry.source: described(entry.text)[0] for entry in entries}
    sections: dict[str, list[str]] = {}
    for entry in entries:
        title = "Optional" if set(entry.groups) & set(optional) else (entry.groups or ("Start",))[0]
        heading, about = described(with_titles(entry.text, entry.source, lambda path: titles[path]))
        line = f"- [{heading}]({base}{entry.path}.md)" + (f": {about}" if about else "")
        sections.setdefault(title, []).append(line)
    if "Optional" in sections:
        sections["Optional"] = sections.pop("Optional")
    lists = [f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items()]
    full = f"All pages in one file: [llms-full.txt]({base}llms-full.txt)."
    return "\n\n".join([f"# {name}", f"> {summary}", full, *lists]) + "\n"


def described(text: str) -> tuple[str, str]:
    """The heading of a page, and its first sentence without markup (empty if it begins with a table or code)."""
    heading, *blocks = re.split(r"\n{2,}", text.strip())
    prose = blocks[0] if blocks and not _NO_PROSE.match(blocks[0]) else ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose).replace("*", "").replace("\n", " ")
    sentence = _SENTENCE.match(plain)
    return heading.removeprefix("# ").replace("`", ""), sentence[1] if sentence else plain


def _with_links(text: str, changed: Callable[[str], str]) -> str:
    return _CODE_OR_LINK.sub(
        lambda found: found["code"] or f"{found['before']}{changed(found['link'])}",
        text,
    )


def _entries(items: Sequence[Any], groups: tuple[str, ...]) -> Iterator[Entry]:
    for item in items:
        if item.children is not None:
            yield from _entries(item.children, (*groups, item.title))
        else:
            text = Path(item.file.abs_src_path).read_text(encoding="utf-8")
            yield Entry(groups=groups, path=item.file.dest_uri, source=item.file.src_uri, text=text)
