"""The documentation site: dead links, requests to elsewhere, pages that read otherwise than in the repository."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.tools.built_site import REPOSITORY, ROOT, build_site
from tools.docs import anchors
from tools.site import (
    Entry,
    as_markdown_links,
    described,
    for_python_markdown,
    llms,
    resolved,
    with_repository_links,
    with_titles,
)

DOCS = sorted((ROOT / "docs").rglob("*.md"), key=lambda path: path.relative_to(ROOT / "docs").as_posix())
COUNTED = {"li", "table", "tr", "th", "td", "pre", "code", "h1", "h2", "h3", "h4", "img", "em", "strong"}


@dataclass
class Html(HTMLParser):
    """The elements, words, anchors and links of a page, and all that a browser fetches for it."""

    elements: Counter[str] = field(default_factory=Counter)
    words: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    in_mark: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements[tag] += tag in COUNTED
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self.in_mark = given.get("class") == "headerlink"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.fetched += [given[name] for name in ("src", "srcset", "poster") if given.get(name)]
        if tag == "link" and given.get("rel") not in {"canonical", "prev", "next"}:
            self.fetched.append(given["href"])

    def handle_endtag(self, tag: str) -> None:
        self.in_mark = False

    def handle_data(self, data: str) -> None:
        if not self.in_mark:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join("".join(self.words).split())


def parsed(html: str) -> Html:
    page = Html()
    page.feed(html)
    return page


def article(html: str) -> str:
    """The part of a page that was made of its Markdown."""
    return html[html.index("<h1", html.index("<article")) : html.index("</article>")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def test_the_navigation_has_each_page_once() -> None:
    listed = re.findall(r"^ +- (?:.+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == [path.relative_to(ROOT / "docs").as_posix() for path in DOCS]


@pytest.mark.slow
def test_no_link_and_no_anchor_of_the_site_is_dead(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): parsed(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) == len(DOCS) + 1  # the page that a server shows for a wrong address
    dead = []
    for name, page in pages.items():
        for link in page.links + page.fetched:
            if link.startswith(REPOSITORY):
                if not (ROOT / unquote(urlsplit(link).path.removeprefix(urlsplit(REPOSITORY).path))).exists():
                    dead.append(f"{name}: {link}")
                continue
            if urlsplit(link).scheme:
                continue
            target = urlsplit(urljoin(f"/{name}", link))
            path = unquote(target.path).lstrip("/") or "index.html"
            known = path in pages if path.endswith(".html") else (site / path).is_file()
            if not known or (target.fragment and unquote(target.fragment) not in pages[path].anchors):
                dead.append(f"{name}: {link}")
    assert dead == []
    assert sum(link.startswith(REPOSITORY) for page in pages.values() for link in page.links) > 5


@pytest.mark.slow
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        html = path.read_text()
        assert [link for link in parsed(html).fetched if urlsplit(link).scheme or link.startswith("//")] == [], path
        assert 'class="mermaid"' not in html  # the theme would fetch what draws it
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles) == []


@pytest.mark.slow
def test_a_page_reads_as_it_does_in_the_repository(site: Path) -> None:
    """Lists, code, tables and words are those that CommonMark makes of the page, and so are the anchors."""
    reader = MarkdownIt("commonmark").enable("table")
    for path in DOCS:
        source = path.relative_to(ROOT / "docs").as_posix()
        text = path.read_text()
        titled = with_titles(text, source, lambda name: described((ROOT / "docs" / name).read_text())[0])
        expected = parsed(reader.render(titled))
        built = parsed(article((site / source).with_suffix(".html").read_text()))
        empty = expected.elements["td"] + expected.elements["th"] - built.elements["td"] - built.elements["th"]
        for page in (expected, built):
            page.elements.pop("td", None), page.elements.pop("th", None)
        assert built.elements == expected.elements, source
        assert built.text == expected.text, source
        assert empty == 0, source
        assert anchors(text) - built.anchors == set(), source


@pytest.mark.slow
def test_programs_find_each_page_once_in_the_order_of_the_navigation(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    assert re.match(r"# Tieline\n\n> .+\n\n.+\n\n## ", listed)
    for line in listed.partition("\n## ")[2].splitlines()[1:]:
        assert re.fullmatch(r"(## .+|- \[.+\]\([\w/.-]+\.html\.md\)(: .+)?|)", line), line
    links = re.findall(r"^- \[.+?\]\((.+?)\)", listed, re.MULTILINE)
    assert len(links) == len(set(links)) == len(DOCS)
    assert listed.rindex("\n## ") == listed.index("\n## Optional")
    full = (site / "llms-full.txt").read_text()
    for link in links:
        page = (site / link).read_text()
        assert page.strip() in full
        for inner in re.findall(r"\]\(([\w./-]+\.html\.md)[#)]", page):
            assert ((site / link).parent / inner).exists(), (link, inner)


@pytest.mark.slow
def test_the_index_of_the_search_is_a_script_that_holds_each_page(site: Path) -> None:
    index = json.loads((site / "search/search_index.js").read_text().removeprefix("var __index = "))
    found = {entry["location"].partition("#")[0] or "index.html" for entry in index["docs"]}
    assert found == {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in DOCS}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\n- b\n- c", "a\n\n- b\n- c", id="a list after a paragraph"),
        pytest.param("- a\n  b\n  - c", "- a\n    b\n    - c", id="what belongs to an item"),
        pytest.param("2. a\n\n       code\n3. b", "2. a\n\n        code\n\n3. b", id="code in an item"),
        pytest.param("- a\n\nb\n  c", "- a\n\nb\n  c", id="the list is over"),
        pytest.param("```\n- a\n  - b\n```", "```\n- a\n  - b\n```", id="code is left alone"),
        pytest.param("    - a\n", "    - a\n", id="indented code is left alone"),
        pytest.param("| `a \\| b` | c \\| d |", "| `a | b` | c \\| d |", id="bars in the code of a table"),
    ],
)
def test_commonmark_in_the_dialect_of_the_site(text: str, shown: str) -> None:
    assert for_python_markdown(text) == shown


@pytest.mark.parametrize(
    ("text", "source", "shown"),
    [
        pytest.param("[a](b.md#c)", "a.md", "[a](b.md#c)", id="a page"),
        pytest.param("[a](../b.md)", "decisions/a.md", "[a](../b.md)", id="a page above"),
        pytest.param("![a](figures/b.svg)", "a.md", "![a](figures/b.svg)", id="a picture"),
        pytest.param("[a](#b)", "a.md", "[a](#b)", id="a heading"),
        pytest.param("[a](https://example.org)", "a.md", "[a](https://example.org)", id="an address"),
        pytest.param("[a](../README.md#b)", "a.md", "[a](repository:README.md#b)", id="a file of the repository"),
        pytest.param("[a](../../tools/x.py)", "decisions/a.md", "[a](repository:tools/x.py)", id="from a folder"),
        pytest.param("[a](requirements.toml)", "a.md", "[a](repository:docs/requirements.toml)", id="no page"),
        pytest.param("`[a](../b.py)`", "a.md", "`[a](../b.py)`", id="code"),
    ],
)
def test_links_that_leave_the_site_lead_to_the_repository(text: str, source: str, shown: str) -> None:
    assert with_repository_links(text, source) == shown


@pytest.mark.parametrize(
    ("repository", "path", "shown"),
    [
        pytest.param("https://x.org/blob/main/", "decisions/a.html", "https://x.org/blob/main/", id="an address"),
        pytest.param("../../", "a.html", "../../", id="the clone that it was built in"),
        pytest.param("../../", "decisions/a.html", "../../../", id="the same from a folder"),
    ],
)
def test_the_address_of_the_repository_stands_in_one_place(repository: str, path: str, shown: str) -> None:
    assert resolved('<a href="repository:b.py">', path, repository) == f'<a href="{shown}b.py">'
    assert resolved("[a](repository:b.py)", path, repository) == f"[a]({shown}b.py)"


def test_files_that_people_copy_are_part_of_the_site() -> None:
    for repository in ("https://x.org/blob/main/", "../../"):
        assert resolved("[a](repository:config/b.toml)", "a.html", repository) == "[a](config/b.toml)"
        assert resolved('"repository:config/c/b.toml#x"', "e/a.html", repository) == '"../config/c/b.toml#x"'
    assert resolved("[a](repository:config/skills)", "a.html", "../../") == "[a](../../config/skills)", "no file"


def test_a_link_named_after_a_file_gets_the_title_of_the_page() -> None:
    text = "[b.md](b.md#c), [b](b.md), [c.md](e/c.md)"
    titles = {"d/b.md": "B", "d/e/c.md": "C"}
    assert with_titles(text, "d/a.md", titles.__getitem__) == "[B](b.md#c), [b](b.md), [C](e/c.md)"


@pytest.mark.parametrize(
    ("text", "heading", "sentence"),
    [
        pytest.param(
            "# `a` b\n\nOne [link](c.md), *two*\nlines. More.", "a b", "One link, two lines.", id="a sentence"
        ),
        pytest.param("# a\n\n| b | c |", "a", "", id="a table"),
        pytest.param("# a\n\nLives in `b.toml`. More.", "a", "Lives in `b.toml`.", id="a point in a name"),
    ],
)
def test_a_page_is_described_by_its_heading_and_first_sentence(text: str, heading: str, sentence: str) -> None:
    assert described(text) == (heading, sentence)


def test_what_may_be_left_out_comes_last() -> None:
    entries = [
        Entry(groups=("I build", "Decisions"), path="d/a.html", source="d/a.md", text="# A\n\nWhy."),
        Entry(groups=("I run it",), path="b.html", source="b.md", text="# B"),
    ]
    assert llms("T", "S", entries, "https://t.org/", ["Decisions"]) == (
        "# T\n\n> S\n\nAll pages in one file: [llms-full.txt](https://t.org/llms-full.txt).\n\n"
        "## I run it\n\n- [B](https://t.org/b.html.md)\n\n"
        "## Optional\n\n- [A](https://t.org/d/a.html.md): Why.\n"
    )
    assert as_markdown_links("[a](../b.md#c) [d](repository:e.md)") == "[a](../b.html.md#c) [d](repository:e.md)"
