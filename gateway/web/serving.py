"""Runs a uvicorn server as one of our own tasks: it stops when cancelled, in order, and leaves signals alone."""

import contextlib
import socket
from collections.abc import Iterator

import anyio
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DRAIN_S = 5
AT_ONCE = 1_000  # connections and running requests; more are answered 503


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, closing: anyio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    async def main_loop(self) -> None:
        """Keeps the date header right; uvicorn's own loop would wake ten times a second and end a tick late."""
        while not self._closing.is_set():
            await self.on_tick(0)
            with anyio.move_on_after(1.0):
                await self._closing.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals belong to the composition root


class _Ending:
    """Lets answers that would go on for ever (event streams) end in order when we stop: the client seems to go."""

    def __init__(self, app: ASGIApp, closing: anyio.Event) -> None:
        self._app = app
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        whole, is_open = False, False

        async def hear() -> Message:
            nonlocal whole
            if whole:
                return await self._gone(receive)
            message = await receive()
            whole = message["type"] == "http.request" and not message.get("more_body", False)
            return message

        async def tell(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or bool(message.get("more_body", False))
            await send(message)

        await self._app(scope, hear, tell)
        if is_open and self._closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _gone(self, receive: Receive) -> Message:
        """After the body nothing comes but the end of the connection, or ours."""
        message: Message = {"type": "http.disconnect"}

        async def hear() -> None:
            nonlocal message
            message = await receive()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(hear)
            await self._closing.wait()
            group.cancel_scope.cancel()
        return message


async def serve(app: ASGIApp, listening: socket.socket, closing: anyio.Event) -> None:
    """Serve until cancelled; then set `closing`, let running answers end for up to five seconds, and return."""
    config = uvicorn.Config(
        _Ending(app, closing),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # decided by `trusted_proxies`, in our own stack
        server_header=False,
        limit_concurrency=AT_ONCE,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = _Server(config, closing)

    async def run_to_the_end() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listening])

    async with anyio.create_task_group() as group:
        group.start_soon(run_to_the_end)
        try:
            await anyio.sleep_forever()
        finally:
            closing.set()
            server.should_exit = True
