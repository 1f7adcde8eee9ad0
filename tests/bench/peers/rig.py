"""One system under measurement: doubles, home, process, and the watch over what its users see."""

import re
import shutil
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import anyio

from tests.bench.peers.doubles import TOKEN, TOKEN_RE, Llm, Telegram, listening
from tests.bench.peers.driver import Driver, Launch, Site
from tests.bench.peers.process import Process

DONE = re.compile(r"Reply to ((?:q\d+n\d+ ?)+) ?over")
WARM_CHAT = 999_000
QUIET = 0.03  # share of a core below which a process counts as quiet
QUIET_S = 3.0  # for so long; longer than an agent lingers for the next message, and than its clean-up after that


class Rig:
    """A fresh installation. Use it as an async context manager; the home of a measure that failed is kept."""

    def __init__(self, driver: Driver, people: Sequence[int] = (), quiet_s: float = QUIET_S) -> None:
        """`people` write to it; it is quiet when it needed next to no CPU for `quiet_s`."""
        self.driver = driver
        self.telegram, self.llm = Telegram(), Llm()
        self.answered: dict[str, dict[int, float]] = defaultdict(dict)  # token -> message id -> first seen whole
        self.order: dict[int, list[str]] = defaultdict(list)  # chat -> tokens in the order of their answers
        self.texts: dict[int, list[tuple[float, int, str]]] = defaultdict(list)  # chat -> when, message, text
        self.home = Path(tempfile.mkdtemp(prefix=f"bench-{driver.name}-"))
        self.launch: Launch | None = None
        self._people = (*people, WARM_CHAT)
        self._quiet_s = quiet_s
        self._running: Process | None = None
        self._awaited: dict[str, anyio.Event] = {}
        self._changed = anyio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Rig":
        telegram, llm = [await self._stack.enter_async_context(listening(one)) for one in (self.telegram, self.llm)]
        self.site = Site(
            home=self.home, telegram=telegram, llm=llm, token=TOKEN, port=_free_port(), people=self._people
        )
        self.telegram.on_visible = self._see
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running:
            self._running.kill()
        await self._stack.aclose()
        if kind is None:
            shutil.rmtree(self.home, ignore_errors=True)

    # --- the process ---

    @property
    def process(self) -> Process:
        assert self._running is not None, "it was never started"
        return self._running

    def spawn(self) -> Process:
        """Start the system and wait for nothing."""
        self.telegram.watch_start()
        self.launch = self.driver.prepare(self.site)
        self._running = Process(self.launch, self.home / "process.log")
        return self._running

    async def start(self, *, patience: float = 120) -> float:
        """Start the system; the seconds until its first getUpdates. Raises RuntimeError when there is none."""
        process = self.spawn()
        deadline = time.time() + patience
        while not self.telegram.first_poll.is_set():
            with anyio.move_on_after(0.2):
                await self.telegram.first_poll.wait()
            if not process.alive() or time.time() > deadline:
                ending = "never polled" if process.alive() else "ended"
                raise RuntimeError(f"{self.driver.name} {ending}: {self.log()[-2000:]}")
        return self.telegram.first_poll_at - process.started_at

    async def stop(self, patience: float = 30) -> float:
        """End the system in order; the seconds that it took."""
        return await anyio.to_thread.run_sync(self.process.stop, patience)

    def log(self) -> str:
        return (self.home / "process.log").read_text(errors="replace")

    async def ready(self) -> None:
        """Start, make a few turns that are not measured (lazy imports, first connections), be quiet, forget them."""
        await self.start()
        await self.warm()
        await self.settle()
        self.clear()

    async def warm(self, turns: int = 5, chat: int = WARM_CHAT) -> None:
        for number in range(1, turns + 1):
            await self.ask(chat, number, patience=60)

    async def settle(self, limit: float = 60.0) -> None:
        """Wait until the process needs next to no CPU: housekeeping after the start, what a turn left to do."""
        deadline = time.time() + limit
        before = self.process.cpu()
        while time.time() < deadline:
            await anyio.sleep(self._quiet_s)
            now = self.process.cpu()
            if now - before < QUIET * self._quiet_s:
                return
            before = now

    async def idle_share(self, seconds: float = 10.0) -> float:
        """The share of a core that it needs while nobody writes."""
        before = self.process.cpu()
        await anyio.sleep(seconds)
        return (self.process.cpu() - before) / seconds

    # --- what users see ---

    def _see(self, chat: int, message: int, text: str, at: float) -> None:
        self.texts[chat].append((at, message, text))
        for match in DONE.finditer(text):
            for token in TOKEN_RE.finditer(match[1]):
                if message > 0:
                    if not self.answered[token[0]]:
                        self.order[chat].append(token[0])
                    self.answered[token[0]].setdefault(message, at)
                    if token[0] in self._awaited:
                        self._awaited[token[0]].set()
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, condition: Callable[[], object], patience: float) -> bool:
        """Wait until what users see makes it true; whether it did in time."""
        with anyio.move_on_after(patience):
            while not condition():
                await self._changed.wait()
        return bool(condition())

    async def ask(self, chat: int, number: int, *, patience: float = 30) -> float | None:
        """One turn of one conversation: seconds until the whole reply is visible, None if it never is."""
        token = f"q{chat}n{number}"
        answered = self._awaited[token] = anyio.Event()
        begun = time.time()
        self.telegram.inject(chat, f"Please answer {token}")
        with anyio.move_on_after(patience):
            await answered.wait()
        del self._awaited[token]
        return min(self.answered[token].values()) - begun if self.answered[token] else None

    def clear(self) -> None:
        """Forget what was seen so far (the system's own memory stays)."""
        self.answered.clear()
        self.order.clear()
        self.texts.clear()
        self.telegram.forget()
        self.llm.calls.clear()
        self.llm.crosstalk = 0


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
