"""Questions in a terminal: a choice by number or name, and secrets, which are not shown while they are typed."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click


class _Option(click.ParamType[str]):
    name = "option"

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self._names:
            return str(value)
        if str(value).isdecimal() and 1 <= int(value) <= len(self._names):
            return self._names[int(value) - 1]
        raise click.BadParameter(f"type a number from 1 to {len(self._names)}, or one of: {', '.join(self._names)}")


def choose(question: str, options: Mapping[str, str], default: str) -> str:
    """The name of one of the options, which are shown with what they mean."""
    width = max(map(len, options))
    for number, (name, meaning) in enumerate(options.items(), start=1):
        click.echo(f"  {number} {name:<{width}}  {meaning}")
    chosen: str = click.prompt(question, type=_Option(options), default=default, show_choices=False)
    return chosen


def secret(question: str, *, needed: bool, before: str = "") -> str:
    """The words typed; Enter keeps what was typed `before`. Asks again for what is needed."""
    shown = f"{question} (Enter keeps the one you typed)" if before else question
    while True:
        # Where nobody watches there is nothing to hide, and the terminal that would hide it is not there.
        typed = click.prompt(shown, default="", hide_input=sys.stdin.isatty(), show_default=False).strip() or before
        if typed or not needed:
            return str(typed)
        click.secho("  It does not work without; Ctrl-C leaves.", fg="yellow")


def tell(problems: Iterable[str]) -> None:
    """Say what is wrong with what was typed."""
    for line in problems:
        click.secho(f"  ✗ {line}", fg="yellow")
