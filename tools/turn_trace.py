"""Counts what a plain turn passes: files, functions and changes of file of the running program.

`python -m tools.turn_trace` starts the program as shipped against the Telegram and model doubles, lets two turns go by
for everything that is loaded late, and counts the calls of the third "hello" from its arrival until nothing is left to
send. A comprehension counts for the function around it. Code at module level is left out.
"""

import json
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType

import anyio

ROOT = Path(__file__).parent.parent
LAYERS = ("agent", "gateway", "adapters")
WITHIN = frozenset({"<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
TRACE = "TIELINE_TURN_TRACE"  # the file that a traced program writes
FROM_START = "TIELINE_TURN_TRACE_FROM_START"  # if set, it is traced from its start on


@dataclass(frozen=True, slots=True)
class Passed:
    """The passage of one turn. `by_file` and `by_function` hold calls by path and by `path:name`."""

    files: int
    functions: int
    calls: int
    changes: int
    by_file: dict[str, int]
    by_function: dict[str, int]
    order: list[str]


class Tracer:
    """Sees each call of product code in every thread while it is switched on."""

    def __init__(self) -> None:
        self.on = False
        self._known: dict[CodeType, str | None] = {}
        self._seen: list[str] = []
        self._changes = 0
        self._last = threading.local()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if not self.on or event != "call":
            return
        code = frame.f_code
        try:
            name = self._known[code]
        except KeyError:
            name = self._known[code] = _named(code)
        if name is None:
            return
        self._seen.append(name)
        path = name.partition(":")[0]
        if getattr(self._last, "path", None) != path:
            self._last.path = path
            self._changes += 1

    def begin(self) -> None:
        """Forget what was seen, and see what follows."""
        self._seen, self._changes = [], 0
        self.on = True

    def passed(self) -> Passed:
        """The passage since the beginning."""
        by_function = Counter(self._seen)
        by_file: Counter[str] = Counter()
        for name, calls in by_function.items():
            by_file[name.partition(":")[0]] += calls
        return Passed(
            files=len(by_file),
            functions=len(by_function),
            calls=len(self._seen),
            changes=self._changes,
            by_file=dict(by_file.most_common()),
            by_function=dict(by_function.most_common()),
            order=list(dict.fromkeys(self._seen)),
        )


def _named(code: CodeType) -> str | None:
    if code.co_name in WITHIN:
        return None
    try:
        path = Path(code.co_filename).relative_to(ROOT)
    except ValueError:
        return None
    return f"{path}:{code.co_qualname}" if path.parts[0] in LAYERS else None


def traced_program() -> None:
    """`tieline run`, traced between each SIGUSR1 and SIGUSR2; at the latter it writes what it saw."""
    tracer = Tracer()

    def begin(*_: object) -> None:
        tracer.begin()

    def end(*_: object) -> None:
        tracer.on = False
        out = Path(os.environ[TRACE])
        whole = out.with_suffix(".part")
        whole.write_text(json.dumps(asdict(tracer.passed())))
        whole.replace(out)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    if os.environ.get(FROM_START):
        tracer.begin()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    from gateway.__main__ import main  # it must be traced from its first thread on

    sys.argv = ["tieline", "run"]
    main()


class Traced:
    """A program that is traced on demand: in place of `tieline run`, it runs this module."""

    def __init__(self, home: Path, *, from_start: bool = False) -> None:
        from tests.program.running import Program

        self._out = home.parent / f"{home.name}.trace.json"
        environ = {TRACE: str(self._out)} | ({FROM_START: "1"} if from_start else {})
        self.program = Program(home, "", environ)
        self.program.command = [sys.executable, "-m", "tools.turn_trace", "--program"]

    def begin(self) -> None:
        """Trace from now on."""
        self._signal(signal.SIGUSR1)

    async def passed(self) -> Passed:
        """End the trace; what was passed since `begin`."""
        from tests.program.doubles import until

        self._out.unlink(missing_ok=True)
        self._signal(signal.SIGUSR2)

        async def written() -> bool:
            return self._out.exists()

        await until(written, what="the trace")
        return Passed(**json.loads(self._out.read_text()))

    def _signal(self, which: signal.Signals) -> None:
        assert self.program.process is not None
        self.program.process.send_signal(which)


async def trace() -> Passed:
    """Run the program and trace its third "hello" over Telegram."""
    from tests.program import configs
    from tests.program.doubles import all_doubles
    from tests.program.people import OnTelegram

    with tempfile.TemporaryDirectory() as folder:
        traced = Traced(Path(folder) / "home")
        program = traced.program
        async with all_doubles() as doubles:
            program.write(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles))
            async with program:
                person = OnTelegram(doubles)
                for number in (1, 2, 3):
                    rule = {
                        "match": {"contains": f"hello {number}"},
                        "reply": {"text": f"Hello to you, number {number}."},
                    }
                    await doubles.llm.post("script", [rule], append="1")
                    if number == 3:
                        await anyio.sleep(8)  # what the turn before began in the background is over
                        traced.begin()
                    await person.say(f"hello {number}")
                    await person.hears(f"number {number}")
                    await program.settled()
                return await traced.passed()


def main() -> int:
    """Print the figures; `--all`: with each file and its calls."""
    passed = anyio.run(trace)
    print(f"{passed.files} files, {passed.functions} functions, {passed.changes} changes of file, {passed.calls} calls")
    if "--all" in sys.argv:
        for path, calls in passed.by_file.items():
            print(f"{calls:6} {path}")
    if "--functions" in sys.argv:
        print("\n".join(passed.order))
    return 0


if __name__ == "__main__":
    if "--program" in sys.argv:
        traced_program()
    else:
        sys.exit(main())
