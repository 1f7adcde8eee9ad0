"""One skill: a SKILL.md as it was read (SPEC §14.1). Holds words and numbers only; it reads and judges nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FILE = "SKILL.md"
EXAMPLE = "- Somebody wrote: "  # begins a line of a draft that quotes a request
SUMMARY = 300  # characters of a description that lists show

Origin = Literal["shipped", "operator", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Know-how that can be put before the model. `digest` names the bytes of its file, `body` is what stands in it.

    `tools` are those it works with (None: its author names none), `env` what it sets for tools, as (name, value).
    `invocable_by_model` False: only a person may call it up; `user_invocable` False: only the model may. What the
    house keeps and shows but does not act on (`effort`, `hooks` and the like) stands in `further`, as (key, value).
    `files` is what lies beside SKILL.md in its folder, by name, folders with a "/": never of a drafted one.
    """

    name: str
    description: str
    body: str
    origin: Origin
    folder: Path
    digest: str
    version: str = ""
    category: str = ""
    triggers: tuple[str, ...] = ()
    when_to_use: str = ""
    tools: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()
    model: str = ""
    arguments: tuple[str, ...] = ()
    argument_hint: str = ""
    user_invocable: bool = True
    invocable_by_model: bool = True
    further: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What it is for, as lists show it."""
        return self.description if len(self.description) <= SUMMARY else f"{self.description[: SUMMARY - 1]}…"

    @property
    def told(self) -> str:
        """What a model reads: of a drafted one without what people wrote, perhaps in a direct chat."""
        if self.origin != "auto":
            return self.body
        return "".join(line for line in self.body.splitlines(keepends=True) if not line.lstrip().startswith(EXAMPLE))

    @property
    def grants(self) -> frozenset[str]:
        """What it would touch: names of tools and of environment variables, told apart by their first letter."""
        return frozenset((*(f"tool:{name}" for name in self.tools or ()), *(f"env:{name}" for name, _ in self.env)))
