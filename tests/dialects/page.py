"""The tables of docs/model-quirks.md, from the rows that are played. `python -m tests.dialects.page` writes them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tests.dialects import calls, messages, refusals, streams
from tests.dialects.quirk import Quirk

PAGE = Path(__file__).parents[2] / "docs" / "model-quirks.md"
BEGIN, END = "<!-- quirks: made by tests/dialects/page.py -->", "<!-- quirks end -->"
PARTS = (
    ("Streams", streams.FRAMING),
    ("Ends", streams.ENDS),
    ("Usage", streams.NUMBERS),
    ("Thoughts", streams.THOUGHTS),
    ("Calls of tools", calls.FORMS),
    ("What goes back", calls.BACK),
    ("Features that are refused", refusals.CONCESSIONS),
    ("Requests that are too long", refusals.TOO_LONG),
    ("Waits", refusals.WAITS),
    ("Keys, money, filters, odd errors", refusals.REFUSED),
    ("The Messages API", messages.ROWS),
)
ROWS: tuple[Quirk, ...] = tuple(row for _, rows in PARTS for row in rows)


def with_table(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join((f"{before}{BEGIN}", *_table(), f"{END}{after}"))


def _table() -> Iterator[str]:
    for title, rows in PARTS:
        yield f"\n## {title}\n"
        yield "| what it does | which servers | what becomes of it |"
        yield "| --- | --- | --- |"
        by_words = groupby(sorted(rows, key=_place(rows)), key=lambda row: (row.says, row.does))
        for (says, does), same in by_words:
            yield f"| {_cell(says)} | {_cell(', '.join(dict.fromkeys(row.server for row in same)))} | {_cell(does)} |"
    yield ""


def _place(rows: Sequence[Quirk]) -> Callable[[Quirk], int]:
    first: dict[tuple[str, str], int] = {}
    for at, row in enumerate(rows):
        first.setdefault((row.says, row.does), at)
    return lambda row: first[row.says, row.does]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
