"""`python -m tests.bench.memory`: feeds histories through the real memory and asks it (docs/memory-measured.md).

hit@k: a message that holds the answer is among the first k; all@10: every one of them is. In the block: it stands whole
in what a model is shown at shipped limits. Latency and CPU are of this machine as it is now. Works with any histories
of the same shape (--histories); a question without evidence is one that has nothing to do with the history.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean

import anyio

from tests.bench.memory import histories
from tests.bench.memory.feeding import Feed, Found
from tests.bench.memory.figures import figures, table
from tests.bench.memory.histories import History
from tests.bench.memory.turns import turn_cost


async def main() -> None:
    options = _options()
    ways = ["words", "both"] if options.vectors else ["words"]
    sets = {options.histories.stem: histories.read(options.histories)} if options.histories else histories.in_tree()
    results = []
    kept_ms: list[float] = []
    size = messages = 0
    vectors_s = 0.0
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        for set_name, given in sets.items():
            if options.only and set_name not in options.only:
                continue
            found, feeds = await _asked(given, Path(name) / set_name, ways, vectors=options.vectors)
            results += [(set_name, one) for one in figures(found, by_kind=options.kinds)]
            kept_ms += [ms for feed in feeds for ms in feed.cpu_ms]
            size += sum(feed.bytes for feed in feeds)
            messages += sum(len(history.messages) for history in given)
            vectors_s += sum(feed.vectors_cpu_s for feed in feeds)
        turns = [await turn_cost(Path(name) / f"turns{many}", many) for many in options.sizes]
    if options.json:
        rows = [{"set": name, **asdict(one)} for name, one in results]
        kept = {"cpu_ms_a_message": mean(kept_ms), "bytes_a_message": size / messages}
        print(json.dumps({"figures": rows, "kept": kept, "turns": [asdict(one) for one in turns]}))
        return
    print(f"{messages} messages; load {os.getloadavg()[0]:.1f}\n")
    print(table(results))
    print(f"\nKeeping a message: {mean(kept_ms):.2f} ms of CPU; {size / messages:,.0f} bytes, transcript included.")
    if options.vectors:
        print(f"Its vector: {vectors_s / messages * 1000:.1f} ms of CPU, in the background.")
    for one in turns:
        print(
            f"A turn in a history of {one.messages:,} messages: {one.keep_cpu_ms:.2f} ms of CPU to keep question and "
            f"answer, {one.recall_cpu_ms:.2f} ms to recall, {one.cpu_ms:.2f} ms in all; recall p50 {one.recall_ms:.1f} "
            f"ms (this machine takes {one.floor_ms:.2f} ms of CPU for an empty write and an empty read)"
        )


async def _asked(
    given: Sequence[History], home: Path, ways: Sequence[str], *, vectors: bool
) -> tuple[list[Found], list[Feed]]:
    found: list[Found] = []
    feeds = []
    for number, history in enumerate(given):
        async with Feed.of(history, home / str(number), vectors=vectors) as feed:
            for way in ways:
                found += await feed.asked(way)
            feeds.append(feed)
    return found, feeds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=Path, help="a JSON file; without it the sets of this tree")
    parser.add_argument("--only", action="append", help="a set of this tree; can be given again")
    parser.add_argument("--kinds", action="store_true", help="a row for each kind of question")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--vectors", action="store_true", help="also with the extra `semantic`")
    parser.add_argument("--sizes", type=int, nargs="*", default=[300, 5_000], help="of histories whose turns are timed")
    return parser.parse_args()


if __name__ == "__main__":
    anyio.run(main)
