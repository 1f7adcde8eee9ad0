"""Draws the figures of docs/architecture*.md into docs/figures: `python -m tools.drawings`.

A flow is a list of steps. Each step stands in a column (who does it) and on a row of its own; an arrow leads from
each step to the next. The colours of every figure follow the reader's light or dark mode.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "figures"

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .ground { fill: #ffffff }
  .head { font-weight: 600 }
  .note { font-size: 11px; fill: #59636e }
  .box { fill: #ddf4ff; stroke: #0969da }
  .stored { fill: #dafbe1; stroke: #1a7f37 }
  .outside { fill: #fff8c5; stroke: #9a6700 }
  .lane { stroke: #818b98; stroke-dasharray: 3 5; fill: none }
  .arrow { stroke: #59636e; fill: none }
  .tip { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 }
    text { fill: #f0f6fc }
    .note { fill: #b1bac4 }
    .box { fill: #0c2d6b; stroke: #58a6ff }
    .stored { fill: #033a16; stroke: #3fb950 }
    .outside { fill: #4b2900; stroke: #d29922 }
    .arrow { stroke: #b1bac4 }
    .tip { fill: #b1bac4 }
  }
"""
WIDE, HIGH, GAP, TOP = 180, 30, 12, 44  # pixels: a step, the space around it, the headings
LONG = 24  # characters that fill a step

Step = tuple[str, str]  # the column and the words; "*" before the words: on disk, "!": outside the process

MESSAGE = (
    ("Platform", "!a person writes"),
    ("Adapter", "update → inbound message"),
    ("Gateway", "command? allowed? too fast?"),
    ("Database", "*inbox row"),
    ("Platform", "!update acknowledged"),
    ("Gateway", "lease and epoch, agent woken"),
    ("Agent", "turn begins: typing, status line"),
    ("Database", "*run and the person's words"),
    ("Agent", "hooks, plan, skill, recall"),
    ("Agent", "window within its size"),
    ("Database", "*journal: this call may cost"),
    ("Model", "!request and streamed answer"),
    ("Agent", "tool calls? then approval"),
    ("Database", "*approval, question in outbox"),
    ("Platform", "!the person presses Allow"),
    ("Agent", "tool runs, model asked again"),
    ("Database", "*answer, cost, outbox, inbox"),
    ("Gateway", "render, guard, split"),
    ("Adapter", "rate limit, send"),
    ("Platform", "!the answer stands in the chat"),
    ("Database", "*outbox row sent"),
)
COMPACTION = (
    ("Turn", "count prompt, tools, messages"),
    ("Policy", "pressure → the next stage"),
    ("Turn", "pre_compact hooks"),
    ("Stages", "apply summaries made ahead"),
    ("Stages", "prune the least telling results"),
    ("Stages", "clear old results"),
    ("Stages", "choose the oldest part"),
    ("Turn", "status line: compacting"),
    ("Model", "!summarise the oldest part"),
    ("Stages", "read, redact, probe summary"),
    ("Stages", "replace the oldest messages"),
    ("Stages", "subgoals follow, pairs whole"),
    ("Policy", "enough? else the next stage"),
    ("Database", "*summary, hidden messages"),
    ("Model", "!the turn's own request"),
)
CRASH = (
    ("Old process", "!killed while the model answers"),
    ("New process", "take the database's lock"),
    ("Ledger", "enter the journal's open call"),
    ("New process", "read which sends had begun"),
    ("New process", "clear leases, find open rows"),
    ("New process", "remove previews, reactions"),
    ("Conversation", "lease again, next epoch"),
    ("Conversation", "wake the agent with its row"),
    ("Conversation", "take the run over"),
    ("Conversation", "window as it was stored"),
    ("Conversation", "open tool calls are finished"),
    ("Conversation", "ask the model again"),
    ("Database", "*one commit within the epoch"),
    ("Platform", "!the answer, once"),
)
LAYERS = (
    ("adapters", "telegram · discord · slack · web · console"),
    ("gateway", "access, commands, queues, delivery, schedules, configuration, web pages"),
    ("agent", "turn, compaction, tools, providers, memory, skills, goals, plans, storage"),
)


def flow(steps: Sequence[Step]) -> str:
    """A figure of steps in columns; the columns stand in the order of their first step."""
    columns = list(dict.fromkeys(column for column, _ in steps))
    step, width = HIGH + GAP, len(columns) * (WIDE + GAP) + GAP
    height = TOP + len(steps) * step + GAP
    left = {column: GAP + number * (WIDE + GAP) for number, column in enumerate(columns)}
    lines = []
    for column in columns:
        middle = left[column] + WIDE // 2
        lines.append(f'<text class="head" x="{middle}" y="24" text-anchor="middle">{escape(column)}</text>')
        lines.append(f'<path class="lane" d="M{middle} 34V{height - GAP}"/>')
    for number, (column, words) in enumerate(steps):
        x, y = left[column], TOP + number * step
        kind = {"*": "stored", "!": "outside"}.get(words[0], "box")
        middle = x + WIDE // 2
        lines.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="5"/>')
        lines.append(
            f'<text x="{middle}" y="{y + 19}" text-anchor="middle"{_squeezed(words)}>'
            f"{escape(words.lstrip('*!'))}</text>"
        )
        if number + 1 < len(steps):
            other = left[steps[number + 1][0]] + WIDE // 2
            below = y + HIGH
            lines.append(f'<path class="arrow" d="M{middle} {below}L{other} {below + GAP - 5}"/>')
            lines.append(f'<path class="tip" d="M{other - 4} {below + GAP - 6}h8l-4 6z"/>')
    return figure(width, height, lines)


def _squeezed(words: str) -> str:
    """Long words are drawn as wide as their box and no wider, whatever font a reader has."""
    return f' textLength="{WIDE - 14}"' if len(words) > LONG else ""


def layers(rows: Sequence[tuple[str, str]]) -> str:
    """A figure of layers: each imports from those below it alone."""
    width, high = 620, 54
    lines = []
    for number, (name, holds) in enumerate(rows):
        y = GAP + number * (high + 2 * GAP)
        lines.append(f'<rect class="box" x="{GAP}" y="{y}" width="{width - 2 * GAP}" height="{high}" rx="5"/>')
        lines.append(f'<text class="head" x="{width // 2}" y="{y + 22}" text-anchor="middle">{escape(name)}</text>')
        lines.append(f'<text class="note" x="{width // 2}" y="{y + 42}" text-anchor="middle">{escape(holds)}</text>')
        if number + 1 < len(rows):
            lines.append(f'<path class="arrow" d="M{width // 2} {y + high}v{2 * GAP - 6}"/>')
            lines.append(f'<path class="tip" d="M{width // 2 - 4} {y + high + 2 * GAP - 7}h8l-4 6z"/>')
    return figure(width, GAP + len(rows) * (high + 2 * GAP), lines)


def figure(width: int, height: int, lines: Sequence[str], style: str = "") -> str:
    """An SVG file of this size in pixels; `style` is CSS beside that of all figures."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    ground = f'<rect class="ground" width="{width}" height="{height}"/>'
    return "\n".join([head, f"<style>{STYLE}{style}</style>", ground, *lines, "</svg>", ""])


def figures() -> dict[str, str]:
    """Each figure by the name of its file."""
    return {
        "layers.svg": layers(LAYERS),
        "message.svg": flow(MESSAGE),
        "compaction.svg": flow(COMPACTION),
        "crash.svg": flow(CRASH),
    }


if __name__ == "__main__":
    for name, drawn in figures().items():
        (FOLDER / name).write_text(drawn)
