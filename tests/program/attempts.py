"""Every attempt to connect of the default install, by what was going on: seen by strace, or by Python's audit hooks.

strace sees the system calls of all processes and threads, native libraries included. Audit hooks see those of Python's
own sockets alone; so the program then runs without uvloop, whose connections are native.
`python -m tests.program.attempts FOLDER` prints them as JSON. `tests/program/test_connections.py` runs it without a
network, where nobody but the doubles answers.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import httpx2

from tests.adapters.web.visitor import Visitor, text_of
from tests.fakes.waiting import PATIENCE_S
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.running import Program

Seen = Mapping[str, Sequence[str]]  # what was going on -> what was tried meanwhile, each once

IDLE_S = 75.0  # the first upkeep is a minute after the start; a window that was not told is asked for after one, too
SYSTEM_CALLS = "connect,sendto,sendmsg,sendmmsg,bind"
LISTENS = "listens on "
LONG = "🚲" * 31_000  # it fills a quarter of the window, from which on the real tokenizer counts
HOOK = """
import sys, time
sys.modules["uvloop"] = None
_log = open({log!r}, "a", buffering=1)

def _hook(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind") and args[1] is not None:
        address = args[1]
        where = address if isinstance(address, str) else "%s:%s" % tuple(address[:2])
        where = ("listens on " if event == "socket.bind" else "") + where
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = args[0]
        if host is None or not str(host).strip("0123456789.:abcdef"):
            return
        where = "lookup of %s" % host
    else:
        return
    _log.write("%f %s\\n" % (time.time(), where))

sys.addaudithook(_hook)
"""
_UNIX = re.compile(r'sa_family=AF_UNIX, sun_path=(@?)"([^"]*)"')
_IPV4 = re.compile(r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\)')
_IPV6 = re.compile(r'sin6_port=htons\((\d+)\),.*?inet_pton\(AF_INET6, "([^"]+)"')
_MOMENT = re.compile(r"^\s*(?:\d+ +)?(\d+\.\d+) ")


@dataclass(slots=True)
class Watch:
    """Watches programs that are started with `environ` and `command`; `during` says what goes on."""

    folder: Path
    by: Literal["strace", "hooks"]
    begins: list[tuple[float, str]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "attempts"

    @property
    def environ(self) -> dict[str, str]:
        if self.by == "strace":
            return {}
        hook = self.folder / "hook"
        hook.mkdir(exist_ok=True)
        (hook / "sitecustomize.py").write_text(HOOK.format(log=str(self.log)))
        return {"PYTHONPATH": str(hook)}

    @property
    def command(self) -> list[str]:
        if self.by == "hooks":
            return []
        calls = ["-e", f"trace={SYSTEM_CALLS}", "-e", "signal=none", "-s", "4096"]
        return ["strace", "-D", "-f", "-ttt", "-qq", "-A", *calls, "-o", str(self.log)]

    def during(self, what: str) -> None:
        self.begins.append((time.time(), what))

    def seen(self, named: Callable[[str], str]) -> Seen:
        """Attempts in each, as `named` calls them."""
        found: dict[str, list[str]] = {what: [] for _, what in self.begins}
        for moment, address in self._attempts():
            what = [what for began, what in self.begins if began <= moment][-1]
            name = named(address)
            if name not in found[what]:
                found[what].append(name)
        return found

    async def has_tried(self, address: str) -> bool:
        """Whether something was tried there since what goes on now began."""
        began, _ = self.begins[-1]
        return any(tried == address for moment, tried in self._attempts() if moment >= began)

    def _attempts(self) -> Iterator[tuple[float, str]]:
        for line in self.log.read_text(errors="replace").splitlines() if self.log.exists() else ():
            if self.by == "hooks":
                moment, _, address = line.partition(" ")
                yield float(moment), address
            elif (began := _MOMENT.match(line)) and (tried := address_in(line)):
                yield float(began[1]), tried


def address_in(line: str) -> str | None:
    """The address in a line of strace; None where there is none, or only the kernel's own (netlink)."""
    what = LISTENS if " bind(" in line else ""
    if unix := _UNIX.search(line):
        return what + unix[1] + unix[2]
    if inet := _IPV4.search(line) or _IPV6.search(line):
        return f"{what}{inet[2]}:{inet[1]}"
    return None


async def attempts(folder: Path, by: Literal["strace", "hooks"], *, idle_s: float, first_look: bool) -> Seen:
    """The default install from the wizard to the end, with a model on loopback; then a first look without any."""
    watch = Watch(folder, by)
    async with AsyncExitStack() as stack:
        doubles = await stack.enter_async_context(all_doubles())
        program = Program(folder / "h", provider(doubles), watch.environ)
        stack.push_async_exit(program.__aexit__)  # whatever fails, it does not go on
        program.command = [*watch.command, *program.command]
        base = f"http://127.0.0.1:{doubles.llm.port}/v1"
        answers = ["compatible", "a-model", base, "sk-double", "n", "n", "n", "pairing", ""]
        watch.during("init")
        written = await told(program, watch, "init", "--home", str(folder / "w"), stdin="\n".join(answers) + "\n")
        assert "Written: " in written, written
        watch.during("start")
        program.start()
        await program.ready()
        await until(partial(watch.has_tried, f"127.0.0.1:{doubles.llm.port}"), what="a question for the model's window")
        watch.during("turn")
        await one_turn(program)
        if idle_s:
            watch.during("idle")
            await anyio.sleep(idle_s)
        watch.during("backup")
        await told(program, watch, "backup")
        watch.during("doctor")
        await told(program, watch, "doctor", "--drill")
        watch.during("stop")
        assert await program.stop() == 0
        if first_look:
            program.write("")
            (program.home / "tieline.db").unlink()
            watch.during("first look")
            program.start()
            await program.ready()
            await one_turn(program)
            assert await program.stop() == 0
        return watch.seen(lambda address: named(address, doubles, program))


def provider(doubles: Doubles) -> str:
    """As the wizard writes it."""
    base = f"http://127.0.0.1:{doubles.llm.port}/v1"
    keys = f'name = "main"\ntype = "openai"\nmodel = "a-model"\nbase_url = "{base}"\napi_key = "sk-double"\n'
    return f"[[llm.providers]]\n{keys}"


def named(address: str, doubles: Doubles, program: Program) -> str:
    """As docs/connections.md calls it; anything else as it is."""
    known = {
        f"127.0.0.1:{doubles.llm.port}": "the provider",
        f"127.0.0.1:{program.port}": "its own web page",
        str(program.home / "tieline.sock"): "its own control socket",
    }
    listens = LISTENS if address.startswith(LISTENS) else ""
    place = address.removeprefix(LISTENS)
    return listens + known.get(place, place)


async def told(program: Program, watch: Watch, *args: str, stdin: str | None = None) -> str:
    """The output of another command, which is watched as well."""
    command = [*watch.command, sys.executable, "-m", "gateway", *args]
    ran = await anyio.run_process(
        command, input=(stdin or "").encode(), env=program.environ, check=False, start_new_session=True
    )
    output = ran.stdout.decode() + ran.stderr.decode()
    assert ran.returncode in (0, 1), output
    return output


async def one_turn(program: Program) -> None:
    """A person signs in, asks and is answered."""
    link = program.sign_in_link()
    async with httpx2.AsyncClient(base_url=program.url, timeout=PATIENCE_S, trust_env=False) as client:
        page = await client.get(link, follow_redirects=True)
        token = re.search(r'name="csrf" content="([^"]+)"', page.text)
        assert token, page.text
        ann = Visitor(client, token[1])
        await ann.say("what is new? " + LONG)

        async def answered() -> bool:
            said = [one for one in (await ann.state())["messages"] if one["who"] == "bot"]
            return any(text_of(block) for one in said for block in one["blocks"])

        await until(answered, what="an answer")


if __name__ == "__main__":
    below = Path(sys.argv[1])
    print(json.dumps(anyio.run(lambda: attempts(below, "strace", idle_s=IDLE_S, first_look=True)), indent=1))
