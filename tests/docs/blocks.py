"""The blocks of code of the documentation: every fenced and every indented one, and the kind that tells who runs it.

A kind follows from a block's language and content. A block of no kind fails `test_inventory.py`.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from markdown_it import MarkdownIt

from gateway.commands.all import all_commands
from gateway.config.settings import Sections
from tools.docs import ROOT, pages

# Programs whose lines are run here where that needs no root, no network and no other server; else parsed.
PROGRAMS = (
    "apt-get", "cp", "createdb", "createuser", "curl", "docker", "git", "install", "journalctl", "kubectl", "make",
    "openssl", "pg_dump", "pg_restore", "pip", "psql", "pytest", "python", "python3", "sudo", "systemctl",
    "systemd-run", "tieline", "tieline-new-adapter", "useradd", "uvx",
)  # fmt: skip
SHELL = ("cd", "export", "set", ".", "body", "sign")  # and words of the shell itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block. `line` is its first line of text, from 1; `kind` a key of KINDS, or empty."""

    page: str
    line: int
    language: str
    text: str
    kind: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def lines_of(text: str) -> list[str]:
    """Lines of a block of commands: continued ones joined, without comments and empty ones."""
    joined: list[str] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if joined and joined[-1].count('"') % 2:  # a text over two lines
            joined[-1] += " " + line.strip()
        else:
            joined.append(re.sub(r"(^|\s+)# .*$", "", line).rstrip())
    return [line for line in joined if line]


def program_of(line: str) -> str:
    """The program that a line of a shell begins with; `export` and an assignment are the shell's own."""
    word = re.split(r"[\s=;]", line, maxsplit=1)[0]
    return word if word in SHELL else word.rpartition("/")[2]


def table_of(text: str) -> Mapping[str, Any] | None:
    """The table that the text is in TOML; None where it is none, or an empty one."""
    try:
        return tomllib.loads(text) or None
    except tomllib.TOMLDecodeError:
        return None


def _is_console(block: Block) -> bool:
    lines = lines_of(block.text)
    known = [program_of(line) in (*PROGRAMS, *SHELL) for line in lines]
    return bool(lines) and all(known)


def _is_configuration(block: Block) -> bool:
    table = table_of(block.text)
    return table is not None and set(table) <= {*Sections.model_fields, "channels"}


def _is_chat(block: Block) -> bool:
    names = [name for one in all_commands().all for name in (one.name, *one.aliases)]
    return any(re.match(rf"/{name}(?![\w/-])", block.text) for name in names)


def _is_environment(block: Block) -> bool:
    return bool(block.text) and all(re.match(r"[A-Z][A-Z_]+=", line) for line in block.text.splitlines())


# Pages that show, in a block without a language, what the program prints, or puts into a request to a model.
SAYS = (
    "docs/adapter-package.md", "docs/agents.md", "docs/configuration.md", "docs/documents.md", "docs/group-context.md",
    "docs/model-catalogue.md", "docs/skill-learning.md", "docs/to-postgresql.md", "docs/upgrading.md",
)  # fmt: skip

# kind: whether a block is of it. The first that fits counts.
KINDS: Mapping[str, Callable[[Block], bool]] = {
    "json": lambda block: block.language == "json" or block.text.startswith("{"),
    "python": lambda block: block.language == "python" or bool(re.match(r"(from \w+ )?import |\w+ = hmac", block.text)),
    "environment": _is_environment,
    "console": _is_console,
    "configuration": _is_configuration,
    "keys": lambda block: table_of(block.text) is not None and not block.text.startswith("["),
    "breakage": lambda block: block.text.startswith("[[breakage]]"),
    "hostile cases": lambda block: block.text.startswith("[[group]]"),
    "entry point": lambda block: block.text.startswith("[project.entry-points."),
    "chat": _is_chat,
    "path": lambda block: bool(re.fullmatch(r"~/\.tieline/[\w<>/.-]+", block.text)),
    "front matter": lambda block: block.text.startswith("---\n"),
    "address": lambda block: bool(re.fullmatch(r"https://\S+", block.text)),
    "server": lambda block: bool(re.match(r"FROM |server \{|[a-z.]+ \{", block.text)),
    "arithmetic": lambda block: all(re.match(r"[\w ]+= [\w ]+ × [\d.]+$", line) for line in block.text.splitlines()),
    "said": lambda block: block.page in SAYS,
}

# Blocks of these kinds on these pages are run by another test, which reads the page.
ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("docs/adapter-package.md", "console"): "tests/tools/test_template.py",
    ("docs/adapter-package.md", "configuration"): "tests/tools/test_template.py",
    ("docs/adapter-package.md", "entry point"): "tests/tools/test_template.py",
    ("docs/adapter-package.md", "said"): "tests/tools/test_template.py",
    ("docs/events.md", "json"): "tests/gateway/events/test_page.py",
    ("docs/events.md", "python"): "tests/gateway/events/test_page.py",
    ("docs/performance-systems.md", "json"): "tests/bench/test_page.py",
}


def _blocks_of(page: Path) -> Iterator[Block]:
    where = page.relative_to(ROOT).as_posix()
    for token in MarkdownIt("commonmark").parse(page.read_text()):
        if token.type in ("fence", "code_block") and token.map is not None:
            line = token.map[0] + (2 if token.type == "fence" else 1)
            yield Block(page=where, line=line, language=token.info.strip(), text=dedent(token.content).rstrip("\n"))


@cache
def blocks() -> tuple[Block, ...]:
    """All blocks of README.md, CONTRIBUTING.md, SECURITY.md, docs/ and deploy/, each with its kind."""
    found = []
    for page in pages(ROOT):
        for block in _blocks_of(page):
            kind = next((kind for kind, fits in KINDS.items() if fits(block)), "")
            found.append(Block(page=block.page, line=block.line, language=block.language, text=block.text, kind=kind))
    return tuple(found)


def of_kind(kind: str) -> tuple[Block, ...]:
    """The blocks of a kind that no other test runs."""
    return tuple(block for block in blocks() if block.kind == kind and (block.page, kind) not in ELSEWHERE)
