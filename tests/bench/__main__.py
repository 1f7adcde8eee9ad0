"""`make bench`: the budgets of DESIGN §11 and today's figures. Prints a table; asserts nothing about time."""

import sys
import tempfile
from pathlib import Path

import anyio

from tests.bench import idle, schedules, startup, turns
from tests.bench.measure import Line, Machine, table
from tests.program.doubles import all_doubles


async def main(chosen: set[str]) -> None:
    lines: list[Line] = []

    def wanted(name: str) -> bool:
        return not chosen or name in chosen

    machine = Machine()
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        async with all_doubles() as doubles:
            lines.append(await turns.floor_line(doubles))
            if wanted("startup"):
                lines += [startup.help_time(), *await startup.start_times(folder)]
            if wanted("memory"):
                lines += await startup.memory(doubles, folder)
            if wanted("openai"):
                lines += await turns.cpu_per_turn(doubles, folder, "openai", 8, long=1000)
            if wanted("anthropic"):
                lines += await turns.cpu_per_turn(doubles, folder, "anthropic", 10, long=1000)
            if wanted("litellm"):
                lines += await turns.cpu_per_turn(doubles, folder, "litellm", 30)
            if wanted("latency"):
                lines += await turns.latency(doubles, folder)
            if wanted("crowd"):
                lines += await turns.crowd(doubles, folder)
            if wanted("idle"):
                lines += await idle.idle(doubles, folder)
            if wanted("schedules"):
                lines += await schedules.schedules(doubles, folder)
        others = machine.since()
    print(table(lines))
    print(f"\n{others}")


if __name__ == "__main__":
    anyio.run(main, set(sys.argv[1:]))
