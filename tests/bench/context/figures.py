"""What the sessions of one strategy came to, as figures, as a line of a table, and as JSON."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tests.bench.context.replay import Measured

COLUMNS = (
    "strategy",
    "peak cut",
    "lowest",
    "sent",
    "prefix kept",
    "provenance",
    "in window",
    "lowest",
    "values",
    "checked",
    "asked",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One strategy over a set of sessions. Shares are 0 to 1."""

    strategy: str
    sessions: Sequence[Measured]

    @property
    def cut(self) -> float:
        """How much lower the highest request of a session is, on average."""
        return fmean(one.cut for one in self.sessions)

    @property
    def sent(self) -> float:
        """Tokens sent in all, against no compaction."""
        return sum(sum(one.sizes) for one in self.sessions) / sum(sum(one.bare) for one in self.sessions)

    @property
    def survival(self) -> float:
        """The share of a request that begins the next one too, and can come from a prompt cache."""
        return fmean(share for one in self.sessions for share in one.survived)

    @property
    def values(self) -> int:
        return sum(one.values for one in self.sessions)

    @property
    def in_window(self) -> float:
        """Of the values that calls took from earlier results: those still in the request."""
        return sum(one.in_window for one in self.sessions) / max(1, self.values)

    @property
    def provenance(self) -> float:
        """Those in the request, or in what one recall gives."""
        return sum(one.in_window + one.recalled for one in self.sessions) / max(1, self.values)

    @property
    def calls(self) -> Counter[str]:
        """What the summariser was asked for, by purpose; there is no other model."""
        return sum((one.calls for one in self.sessions), Counter())

    def line(self) -> tuple[str, ...]:
        lowest = min(one.in_window / max(1, one.values) for one in self.sessions)
        return (
            self.strategy,
            f"{-self.cut:.1%}",
            f"{-min(one.cut for one in self.sessions):.1%}",
            f"{self.sent:.1%}",
            f"{self.survival:.1%}",
            f"{self.provenance:.1%}",
            f"{self.in_window:.1%}",
            f"{lowest:.1%}",
            str(self.values),
            str(sum(one.checked for one in self.sessions)),
            ", ".join(f"{count} {purpose}" for purpose, count in sorted(self.calls.items())) or "nothing",
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "peak_cut": round(self.cut, 4),
            "sent": round(self.sent, 4),
            "prefix_survival": round(self.survival, 4),
            "provenance": round(self.provenance, 4),
            "in_window": round(self.in_window, 4),
            "values": self.values,
            "model_calls": dict(self.calls),
            "sessions": [
                {
                    "id": one.id,
                    "messages": one.messages,
                    "window": one.window,
                    "peak": max(one.sizes),
                    "peak_without": max(one.bare),
                    "peak_cut": round(one.cut, 4),
                    "values": one.values,
                    "in_window": one.in_window,
                    "recalled": one.recalled,
                    "missed": one.missed,
                    "byte_equal": one.checked,
                }
                for one in self.sessions
            ],
        }


def table(lines: Sequence[Figures]) -> str:
    """All strategies below each other, as Markdown."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *(figures.line() for figures in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    )
