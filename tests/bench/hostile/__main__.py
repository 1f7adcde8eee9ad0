"""Tries hostile inputs: `python -m tests.bench.hostile [--cases FILE …]`; without files all that are shipped.

A file is TOML: groups of a `kind` (one of `judges.JUDGES`), what to `expect`, and `cases`: texts, or tables with one.
"""

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from tests.bench.hostile.judges import JUDGES, Case

SHIPPED = Path(__file__).parent / "cases"
CONTROL = frozenset({"allow", "inside", "public", "shown", "taken"})  # what must go on working


def read(file: Path) -> Iterator[Case]:
    """The cases of a file, each with its kind and what is expected. Raises ValueError for what is none."""
    for group in tomllib.loads(file.read_text(encoding="utf-8"))["group"]:
        if group["kind"] not in JUDGES:
            raise ValueError(f"{file}: there is no kind {group['kind']!r}; known: {', '.join(JUDGES)}")
        for case in group["cases"]:
            one = {"text": case} if isinstance(case, str) else case
            yield {"kind": group["kind"], "expect": group["expect"], **one}


async def tried(cases: Sequence[Case]) -> list[tuple[Case, str]]:
    """The product's verdict on each."""
    return [(case, await JUDGES[case["kind"]](case)) for case in cases]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hostile", description=__doc__)
    parser.add_argument("--cases", type=Path, action="append", help="a TOML file; may be given several times")
    files = parser.parse_args().cases or sorted(SHIPPED.glob("*.toml"))
    outcomes = anyio.run(tried, [case for file in files for case in read(file)])
    counts: Counter[tuple[str, str]] = Counter((case["kind"], case["expect"]) for case, _ in outcomes)
    wrong = [(case, found) for case, found in outcomes if found != case["expect"]]
    for (kind, expect), count in sorted(counts.items()):
        failed = sum(case["kind"] == kind and case["expect"] == expect for case, _ in wrong)
        print(f"{kind:12} {expect:9} {count:4}   {f'{failed} WRONG' if failed else 'ok'}")
    for case, found in wrong:
        print(f"WRONG {case['kind']}: {case['text']!r} is {found}, not {case['expect']}")
    hostile = sum(count for (_, expect), count in counts.items() if expect not in CONTROL)
    print(f"{hostile} hostile inputs, {sum(counts.values()) - hostile} harmless ones, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
