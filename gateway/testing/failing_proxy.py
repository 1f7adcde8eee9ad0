"""Proxy between an adapter and a double of its platform, on loopback: the connection that a person pulls out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

from gateway.testing.harness import eventually, running

FAILURES = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class FailingProxy:
    """Passes bytes on to `port` of loopback, as long as nothing is wrong.

    While it is `down`, new connections are closed at once. While it is `deaf`, they stay open and nothing comes from
    the platform: the failure that no error tells of. `cut` closes those that are open.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: set[SocketStream] = set()
        self._hears = anyio.Event()
        self._hears.set()
        self.port = 0
        self.down = False
        self.accepted = 0  # connections so far

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        async with running(self._run):
            await eventually(lambda: self.port != 0)
            yield

    @property
    def deaf(self) -> bool:
        return not self._hears.is_set()

    @deaf.setter
    def deaf(self, deaf: bool) -> None:
        if not deaf:
            self._hears.set()
        elif self._hears.is_set():
            self._hears = anyio.Event()

    async def cut(self) -> None:
        """Close every connection, in the middle of whatever passes."""
        for stream in list(self._open):
            await anyio.aclose_forcefully(stream)

    async def _run(self) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            self.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio, no query
            await listener.serve(self._connected)

    async def _connected(self, ours: SocketStream) -> None:
        self.accepted += 1
        async with ours:
            if self.down:
                return
            try:
                theirs = await anyio.connect_tcp("127.0.0.1", self._target)
            except OSError:
                return
            async with theirs, anyio.create_task_group() as group:
                self._open |= {ours, theirs}
                group.start_soon(self._pass, ours, theirs, False)
                await self._pass(theirs, ours, True)
                group.cancel_scope.cancel()
            self._open -= {ours, theirs}

    async def _pass(self, source: SocketStream, to: SocketStream, may_be_held: bool) -> None:
        """Until one of both ends; then the other is ended too."""
        try:
            async for chunk in source:
                if may_be_held:
                    await self._hears.wait()
                await to.send(chunk)
        except FAILURES:
            pass
        finally:
            await anyio.aclose_forcefully(to)
