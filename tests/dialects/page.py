"""The pages docs/model-quirks*.md, from the rows that are played. `python -m tests.dialects.page` writes them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.dialects import calls, messages, refusals, streams
from tests.dialects.quirk import Quirk

PAGES = Path(__file__).parents[2] / "docs"
INDEX = "model-quirks.md"
PARTS = (
    ("Streams", streams.FRAMING),
    ("Ends", streams.ENDS),
    ("Usage", streams.NUMBERS),
    ("Thoughts", streams.THOUGHTS),
    ("Calls of tools", calls.FORMS),
    ("Parts that are sent back", calls.BACK),
    ("Features that are refused", refusals.CONCESSIONS),
    ("Requests that are too long", refusals.TOO_LONG),
    ("Waits", refusals.WAITS),
    ("Keys, money, filters, odd errors", refusals.REFUSED),
    ("The Messages API", messages.ROWS),
)
ROWS: tuple[Quirk, ...] = tuple(row for _, rows in PARTS for row in rows)
INTRODUCTION = """\
# The quirks of model servers

How model servers differ from each other, and how Tieline handles each difference. Choosing a service:
[models.md](models.md).

Each row of these pages is a conversation of the test suite (`tests/dialects`): the real client, and a real server that
plays the quirk. `python -m tests.dialects.page` writes the pages from the rows.
"""


@dataclass(frozen=True, slots=True)
class Family:
    """Servers that share a page."""

    page: str
    title: str
    servers: tuple[str, ...]


FAMILIES = (
    Family(
        page="model-quirks-local.md",
        title="Servers that you run yourself",
        servers=("Ollama", "vLLM", "SGLang", "llama.cpp", "llama-cpp-python", "LM Studio", "DS4"),
    ),
    Family(
        page="model-quirks-openai-google-anthropic.md",
        title="OpenAI, Google, Anthropic and their clouds",
        servers=("OpenAI", "Azure", "GitHub Copilot", "Gemini", "Anthropic", "Bedrock"),
    ),
    Family(
        page="model-quirks-vendors.md",
        title="Other makers of models",
        servers=("Mistral", "DeepSeek", "xAI", "Kimi", "Qwen", "z.ai", "MiniMax", "Cohere", "Perplexity"),
    ),
    Family(
        page="model-quirks-hosts.md",
        title="Services that host models of several makers",
        servers=("OpenRouter", "Groq", "Together"),
    ),
    Family(
        page="model-quirks-proxies.md",
        title="Proxies, and any server",
        servers=(
            "any",
            "a proxy",
            "a proxy of Anthropic",
            "litellm",
            "an old gateway",
            "a web server",
            "Cloudflare",
            "a hostile server",
        ),
    ),
)


def pages() -> dict[str, str]:
    """Every page by its file name. Raises ValueError for a server of no family."""
    known = {server for family in FAMILIES for server in family.servers}
    if strangers := {row.server for row in ROWS} - known:
        raise ValueError(f"give these servers a family: {sorted(strangers)}")
    return {INDEX: _index()} | {family.page: _page(family) for family in FAMILIES}


def _index() -> str:
    lines = ["| servers | page |", "| --- | --- |"]
    lines += [f"| {', '.join(family.servers)} | [{family.title}]({family.page}) |" for family in FAMILIES]
    return INTRODUCTION + "\n" + "\n".join(lines) + "\n"


def _page(family: Family) -> str:
    return f"# {family.title}: quirks\n\nAll servers, and how rows are tested: [{INDEX}]({INDEX}).\n" + "".join(
        f"{line}\n"
        for title, rows in PARTS
        if (own := [row for row in rows if row.server in family.servers])
        for line in _table(title, own)
    )


def _table(title: str, rows: Sequence[Quirk]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield "| quirk | server | reaction |"
    yield "| --- | --- | --- |"
    by_words = groupby(sorted(rows, key=_place(rows)), key=lambda row: (row.says, row.does))
    for (says, does), same in by_words:
        yield f"| {_cell(says)} | {_cell(', '.join(dict.fromkeys(row.server for row in same)))} | {_cell(does)} |"


def _place(rows: Sequence[Quirk]) -> Callable[[Quirk], int]:
    first: dict[tuple[str, str], int] = {}
    for at, row in enumerate(rows):
        first.setdefault((row.says, row.does), at)
    return lambda row: first[row.says, row.does]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    for name, text in pages().items():
        (PAGES / name).write_text(text, "utf-8")
