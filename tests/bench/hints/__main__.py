"""`python -m tests.bench.hints`: how often a hinted skill fits, and one that fits is hinted.

`--requests FILE` are labelled requests, `--skills FOLDER` the skills they are about; without both the sixty of this
folder, to the shipped skills and those beside them. Nothing is drawn: a hint counts as right where every skill that
could be drawn fits.
"""

import argparse
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.skills.folders import Root, load
from agent.skills.matching import Index, hintable
from agent.skills.settings import SkillSettings
from gateway.config.live import SHIPPED_SKILLS

HERE = Path(__file__).parent
LABELLED = HERE / "labelled.toml"
FOLDERS = (*SHIPPED_SKILLS, HERE / "skills")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request, the skills that fit it, and those of which one would be hinted."""

    text: str
    fitting: frozenset[str]
    hinted: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether a hint is given, and whatever is drawn fits."""
        return bool(self.hinted) and self.fitting.issuperset(self.hinted)


@dataclass(frozen=True, slots=True)
class Figures:
    cases: Sequence[Case]

    @property
    def precision(self) -> float:
        """The share of hints that fit."""
        hinted = [case for case in self.cases if case.hinted]
        return sum(case.right for case in hinted) / len(hinted) if hinted else 1.0

    @property
    def recall(self) -> float:
        """The share of requests that a skill fits which get a right hint."""
        fitting = [case for case in self.cases if case.fitting]
        return sum(case.right for case in fitting) / len(fitting) if fitting else 1.0


def index_of(folders: Sequence[Path]) -> Index:
    """All skills of these folders."""
    found = load([Root(folder, "shipped") for folder in folders])
    return Index([found[name] for name in sorted(found)])


def figures(requests: Path = LABELLED, folders: Sequence[Path] = FOLDERS) -> Figures:
    """At the settings that are shipped."""
    index, settings = index_of(folders), SkillSettings()
    asked = tomllib.loads(requests.read_text("utf-8"))["request"]
    return Figures([
        Case(
            text=one["text"],
            fitting=frozenset(one["skills"]),
            hinted=hintable(index.scores(one["text"]), settings),
        )
        for one in asked
    ])  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.hints")
    options.add_argument("--requests", type=Path, default=LABELLED, help="a file as labelled.toml is")
    options.add_argument("--skills", type=Path, action="append", help="a folder of <name>/SKILL.md; may be repeated")
    options.add_argument("--misses", action="store_true", help="show what was hinted wrongly, and what was not")
    chosen = options.parse_args()
    folders = tuple(chosen.skills or FOLDERS)
    found = figures(chosen.requests, folders)
    index = index_of(folders)
    index.warm()
    texts = [case.text for case in found.cases] * 20
    for text in texts:
        index.scores(text)  # stems are made once
    began = time.perf_counter()
    for text in texts:
        index.scores(text)
    each_us = (time.perf_counter() - began) / len(texts) * 1e6
    fitting = sum(bool(case.fitting) for case in found.cases)
    print(f"{len(found.cases)} requests, {fitting} of them fit one of {len(index.skills)} skills")
    print(f"precision {found.precision:.3f}, recall {found.recall:.3f}, {each_us:.0f} us a request")
    if chosen.misses:
        for case in found.cases:
            if case.right != bool(case.fitting) or (case.hinted and not case.right):
                fits = ", ".join(sorted(case.fitting)) or "-"
                print(f"  {case.text!r}: {', '.join(case.hinted) or '-'}; fits: {fits}")


if __name__ == "__main__":
    main()
