"""Step pictures of docs/platforms.md, schematic drawings of the pages on which an account is set up.

`python -m tools.set_up_steps` writes them. The platforms' own pages look otherwise. A drawing names what one presses
there, and what is copied to where; a test finds each of these names in docs/platforms.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from tools.drawings import FOLDER as FIGURES
from tools.drawings import figure

FOLDER = FIGURES / "set-up"

WIDE, GAP = 364, 18  # pixels: a step, and the space around it
BAR, MENU, ROW = 26, 148, 30  # pixels: the bar with the address, the menu beside the page, a row of the page
TOP = 28  # pixels above a step, for its number and title
NOTE = "Schematic: the platform's own pages look otherwise. Green: what is copied, and where it goes."

STYLE = """
  .window { fill: #f6f8fa; stroke: #818b98 }
  .bar { fill: #eaeef2; stroke: #818b98 }
  .field { fill: #ffffff; stroke: #818b98 }
  .press { fill: #0969da }
  .pressed { fill: #ffffff; font-weight: 600 }
  .chosen { fill: #ddf4ff }
  .number { fill: #0969da }
  .off { fill: #afb8c1 }
  .on { fill: #1a7f37 }
  .knob { fill: #ffffff }
  .goes { fill: #1a7f37; font-weight: 600; font-size: 11px }
  .item { font-size: 11px }
  .chosen-item { font-size: 11px; font-weight: 600 }
  .code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 11px }
  @media (prefers-color-scheme: dark) {
    .window { fill: #151b23; stroke: #656c76 }
    .bar { fill: #212830; stroke: #656c76 }
    .field { fill: #0d1117; stroke: #656c76 }
    .press { fill: #1f6feb }
    .pressed { fill: #ffffff }
    .chosen { fill: #0c2d6b }
    .number { fill: #1f6feb }
    .off { fill: #3d444d }
    .on { fill: #238636 }
    .knob { fill: #f0f6fc }
    .goes { fill: #3fb950 }
  }
"""

Kind = Literal["button", "field", "copy", "on", "off", "person", "bot", "code", "words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing on a page. `goes` is where what is copied goes to."""

    kind: Kind
    text: str
    goes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One page: its `title` above it, `where` in its bar, a menu of which the first item is chosen, and its rows."""

    title: str
    where: str
    menu: tuple[str, ...] = ()
    rows: tuple[Row, ...]


def _toml(kind: str, *lines: str) -> Step:
    code = ("[[channels]]", f'type = "{kind}"', *lines)
    return Step(
        title="Name the account",
        where="gateway.toml",
        rows=tuple(Row(kind="code", text=line) for line in code),
    )


TELEGRAM = (
    Step(
        title="Make a bot",
        where="Telegram: @BotFather",
        rows=(
            Row(kind="person", text="/newbot"),
            Row(kind="bot", text="asks for a name"),
            Row(kind="person", text="the name of your bot"),
        ),
    ),
    Step(
        title="Copy its token",
        where="Telegram: @BotFather",
        rows=(
            Row(kind="bot", text="the bot is made, its token:"),
            Row(kind="copy", text="123456:ABC-def…", goes="TELEGRAM_TOKEN"),
        ),
    ),
    _toml("telegram", 'token = "env:TELEGRAM_TOKEN"'),
    Step(
        title="Write to it, let yourself in",
        where="Telegram: your bot",
        rows=(
            Row(kind="person", text="hello"),
            Row(kind="bot", text="a pairing code"),
            Row(kind="words", text="In a second shell:"),
            Row(kind="code", text="tieline pair approve NUMBER --admin"),
        ),
    ),
)
DISCORD_MENU = "General Information"
DISCORD = (
    Step(
        title="Make an application",
        where="discord.com/developers/applications",
        rows=(Row(kind="button", text="New Application"), Row(kind="field", text="the name of your bot")),
    ),
    Step(
        title="Copy the token",
        where="discord.com/developers/applications",
        menu=("Bot", DISCORD_MENU),
        rows=(
            Row(kind="button", text="Reset Token"),
            Row(kind="copy", text="the token", goes="DISCORD_TOKEN"),
        ),
    ),
    Step(
        title="Let it read messages",
        where="discord.com/developers/applications",
        menu=("Bot", DISCORD_MENU),
        rows=(
            Row(kind="words", text="Privileged Gateway Intents"),
            Row(kind="on", text="Message Content Intent"),
            Row(kind="off", text="Server Members Intent"),
        ),
    ),
    Step(
        title="Invite it to your server",
        where="discord.com/developers/applications",
        menu=(DISCORD_MENU, "Bot"),
        rows=(
            Row(kind="copy", text="your application's id", goes="APPLICATION_ID"),
            Row(kind="words", text="Interactions Endpoint URL"),
            Row(kind="field", text="(empty)"),
        ),
    ),
)
SLACK = (
    Step(
        title="Make an app of the manifest",
        where="api.slack.com/apps",
        rows=(
            Row(kind="button", text="Create New App"),
            Row(kind="button", text="From a manifest"),
            Row(kind="field", text="paste manifest.yaml here"),
            Row(kind="button", text="Create"),
        ),
    ),
    Step(
        title="Copy the token of the app",
        where="api.slack.com/apps",
        menu=("Basic Information", "Install App"),
        rows=(
            Row(kind="words", text="App-Level Tokens"),
            Row(kind="button", text="Generate Token"),
            Row(kind="field", text="connections:write"),
            Row(kind="copy", text="xapp-…", goes="SLACK_APP_TOKEN"),
        ),
    ),
    Step(
        title="Copy the token of the bot",
        where="api.slack.com/apps",
        menu=("Install App", "Basic Information"),
        rows=(
            Row(kind="button", text="Install to Workspace"),
            Row(kind="words", text="Bot User OAuth Token"),
            Row(kind="copy", text="xoxb-…", goes="SLACK_BOT_TOKEN"),
        ),
    ),
    _toml("slack", 'bot_token = "env:SLACK_BOT_TOKEN"', 'app_token = "env:SLACK_APP_TOKEN"'),
)
PLATFORMS = {"telegram": TELEGRAM, "discord": DISCORD, "slack": SLACK}


def drawn(steps: Sequence[Step]) -> str:
    """The steps side by side in two columns, in the order of their numbers."""
    lines: list[str] = []
    y = GAP
    for at in range(0, len(steps), 2):
        beside = steps[at : at + 2]
        high = max(map(_high, beside))
        for column, step in enumerate(beside):
            lines += _step(at + column + 1, step, GAP + column * (WIDE + GAP), y, high)
        y += TOP + high + GAP
    width, height = 2 * (WIDE + GAP) + GAP, y + 14
    lines.append(f'<text class="note" x="{GAP}" y="{height - 12}">{escape(NOTE)}</text>')
    return figure(width, height, lines, STYLE)


def _high(step: Step) -> int:
    """The height of its page in pixels."""
    return BAR + 12 + sum(map(_room, step.rows)) + 6


def _room(row: Row) -> int:
    """The height of a row and of the space below it."""
    return 2 * ROW if row.goes else 24 if row.kind in {"code", "words"} else ROW + 6


def _step(number: int, step: Step, x: int, y: int, high: int) -> list[str]:
    lines = [
        f'<circle class="number" cx="{x + 10}" cy="{y + 10}" r="10"/>',
        f'<text class="pressed" x="{x + 10}" y="{y + 14}" text-anchor="middle">{number}</text>',
        f'<text class="head" x="{x + 28}" y="{y + 14}">{escape(step.title)}</text>',
    ]
    top = y + TOP
    lines.append(f'<rect class="window" x="{x}" y="{top}" width="{WIDE}" height="{high}" rx="7"/>')
    lines.append(f'<path class="bar" d="M{x} {top + BAR}v-19a7 7 0 0 1 7 -7h{WIDE - 14}a7 7 0 0 1 7 7v19z"/>')
    lines.append(f'<text class="note" x="{x + 12}" y="{top + 17}">{escape(step.where)}</text>')
    left = x + 14
    if step.menu:
        lines.append(f'<path class="lane" d="M{x + MENU} {top + BAR}V{top + high}"/>')
        for place, item in enumerate(step.menu):
            at = top + BAR + 10 + place * 28
            if place == 0:
                lines.append(f'<rect class="chosen" x="{x + 6}" y="{at}" width="{MENU - 12}" height="24" rx="5"/>')
            kind = "chosen-item" if place == 0 else "item"
            lines.append(f'<text class="{kind}" x="{x + 12}" y="{at + 16}">{escape(item)}</text>')
        left = x + MENU + 14
    at = top + BAR + 12
    for row in step.rows:
        lines += _row(row, left, at, x + WIDE - 14 - left)
        at += _room(row)
    return lines


def _row(row: Row, x: int, y: int, width: int) -> list[str]:
    """The row with its left upper corner there, `width` pixels wide at most."""
    text, middle = escape(row.text), y + 19
    fitting = min(width, 7 * len(row.text) + 24)
    match row.kind:
        case "words":
            return [f'<text class="head" x="{x}" y="{y + 15}">{text}</text>']
        case "code":
            return [f'<text class="code" x="{x}" y="{y + 15}">{text}</text>']
        case "button":
            return [
                f'<rect class="press" x="{x}" y="{y}" width="{fitting}" height="{ROW - 2}" rx="6"/>',
                f'<text class="pressed" x="{x + fitting // 2}" y="{middle}" text-anchor="middle">{text}</text>',
            ]
        case "field":
            return [
                f'<rect class="field" x="{x}" y="{y}" width="{width}" height="{ROW - 2}" rx="4"/>',
                f'<text class="note" x="{x + 10}" y="{middle}">{text}</text>',
            ]
        case "copy":
            return [
                f'<rect class="stored" x="{x}" y="{y}" width="{width}" height="{ROW - 2}" rx="4"/>',
                f'<text class="code" x="{x + 10}" y="{middle}">{text}</text>',
                f'<text class="goes" x="{x + 4}" y="{y + ROW + 14}">copy → {escape(row.goes)}</text>',
            ]
        case "on" | "off":
            knob = x + (22 if row.kind == "on" else 9)
            return [
                f'<rect class="{row.kind}" x="{x}" y="{y + 5}" width="31" height="18" rx="9"/>',
                f'<circle class="knob" cx="{knob}" cy="{y + 14}" r="6"/>',
                f'<text x="{x + 40}" y="{middle}">{text}</text>',
            ]
        case "person" | "bot":
            left = x + width - fitting if row.kind == "person" else x
            kind = "chosen" if row.kind == "person" else "field"
            return [
                f'<rect class="{kind}" x="{left}" y="{y}" width="{fitting}" height="{ROW - 2}" rx="10"/>',
                f'<text x="{left + fitting // 2}" y="{middle}" text-anchor="middle">{text}</text>',
            ]


def set_ups() -> dict[str, str]:
    """The drawing of each platform by the name of its file."""
    return {f"{name}.svg": drawn(steps) for name, steps in PLATFORMS.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, made in set_ups().items():
        (FOLDER / name).write_text(made)
