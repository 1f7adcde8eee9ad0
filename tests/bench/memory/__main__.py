"""`python -m tests.bench.memory`: feeds histories through the real memory and asks it the questions (docs/memory.md).

hit@k: a message that holds the answer is among the first k; all@10: every one of them is. Latency is of this machine as
it is now. Works with any histories of the same shape (--histories).
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import anyio

from tests.bench.memory import histories
from tests.bench.memory.feeding import Feed, Found, crowded
from tests.bench.memory.figures import figures, table

STRATEGIES = ("keyword", "semantic", "hybrid", "auto")


async def main() -> None:
    options = _options()
    given = histories.read(options.histories) if options.histories else histories.own()
    strategies = [options.strategy] if options.strategy else list(STRATEGIES)
    found: list[Found] = []
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        for number, history in enumerate(given):
            async with Feed.of(history, Path(name) / str(number), vectors=not options.no_vectors) as feed:
                for strategy in strategies:
                    found += await feed.asked(strategy)
                sizes[history.id] = feed.bytes
        large = await crowded(Path(name) / "large", options.size, vectors=not options.no_vectors)
    results = figures(found)
    questions = sum(len(history.questions) for history in given)
    messages = sum(len(history.messages) for history in given)
    if options.json:
        print(json.dumps({"figures": [asdict(one) for one in results], "bytes": sizes, "recall_ms": large}))
        return
    print(f"{len(given)} histories, {messages} messages, {questions} questions; load {os.getloadavg()[0]:.1f}\n")
    print(table(results))
    print(f"\nStorage: {sum(sizes.values()) / max(1, messages):,.0f} bytes a message, indexes and vectors included.")
    print(
        "".join(
            f"\nRecall at {options.size:,} things, {way}: p50 {ms:.1f} ms, {cpu:.1f} ms of CPU"
            for way, (ms, cpu) in large.items()
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=Path, help="a JSON file; without it the set of this tree")
    parser.add_argument("--strategy", choices=(*STRATEGIES, "graph"), help="one alone")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-vectors", action="store_true", help="as without the extra `semantic`")
    parser.add_argument("--size", type=int, default=10_000, help="things in the memory whose latency is measured")
    return parser.parse_args()


if __name__ == "__main__":
    anyio.run(main)
