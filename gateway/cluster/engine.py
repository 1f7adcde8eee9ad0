"""The engine that carries wake-ups of conversations to workers: Procrastinate, one job per conversation with work.

Its lock keeps two workers from one conversation, its queueing lock two wake-ups from standing in line. Jobs hold no
messages: those are rows of ours. Recovery of jobs whose worker died is ours to call (its issue 740).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import procrastinate
import psycopg
from procrastinate import exceptions, jobs
from procrastinate.worker import Worker
from sqlalchemy import URL, Connection, bindparam, select, text

from agent.core.ids import ConversationId
from agent.storage.database import TROUBLE, Database
from agent.storage.process_tables import conversation_host
from gateway.cluster.connection import address_of
from gateway.cluster.schema import ANYBODY, TASK

AT_ONCE = 5000  # conversations that one worker has at a time; turns are bounded by the dispatcher
POLL_S = 1.0  # for jobs whose notification was lost, and for one that waited for its lock
LOOK_S = 1.0  # for what a dead worker left, and for work that nobody was woken for
HEARTBEAT_S = 1.0
STALLED_AFTER_S = 4.0

# Work without a job: whatever was written with a moment to wait for, or whose wake-up was lost.
_ORPHANS = text(
    """
    select distinct conv from (
      select conv from inbox where status = 'new' and (not_before is null or not_before <= tieline_now())
      union all select conv from arrival
    ) waiting
    where not exists (
      select 1 from procrastinate_jobs jobs where jobs.lock = waiting.conv and jobs.status in ('todo', 'doing')
    )
    """
)
_HOST = select(conversation_host.c.process).where(conversation_host.c.conv == bindparam("conversation"))
_WAKE = text("select tieline_wake(:conversation)")
# Who was woken by name, and is gone before it looked: a wake-up that began while it lived may be committed afterwards.
_HAND_OVER = text(
    """
    update procrastinate_jobs set queue_name = 'turns'
    where status = 'todo' and queue_name like 'host.%'
      and not exists (select 1 from process where queue_name = 'host.' || process.id)
    """
)

_log = logging.getLogger("tieline.cluster")


def wake(conn: Connection, conversation: ConversationId) -> None:
    """Have its worker, or any, look for work there."""
    conn.execute(_WAKE, {"conversation": conversation})


class _Worker(Worker):
    """A worker that tells when it fetches no more: it stops when the server does, and then waits for its last job."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fetches_no_more = anyio.Event()

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        self.fetches_no_more.set()
        await super()._shutdown(side_tasks)


async def _do_jobs(worker: _Worker) -> None:
    try:
        await worker.run()  # type: ignore[no-untyped-call] # the library's own
    except (exceptions.ProcrastinateException, psycopg.Error, OSError) as error:
        _log.warning("the queue cannot be read, tried again: %s", type(error).__name__)
    finally:
        worker.fetches_no_more.set()


class Engine:
    """Runs `host` for each conversation that this worker gets, for as long as that takes."""

    def __init__(
        self, url: URL, database: Database, process: str, host: Callable[[ConversationId], Awaitable[None]]
    ) -> None:
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=address_of(url), min_size=1, max_size=4)
        )
        self._database = database
        self._queues = [ANYBODY, f"host.{process}"]
        self._worker: Worker | None = None
        self._is_stopped = False
        self._process = process
        self._hosted: set[str] = set()  # conversations whose job runs here
        self._ghosts: set[int] = set()  # jobs of ours that nobody was found to do
        self.ended = anyio.Event()  # `run` has returned

        @self._app.task(name=TASK, queue=ANYBODY)
        async def task(conversation: str) -> None:
            self._hosted.add(conversation)
            try:
                await host(ConversationId(conversation))
            finally:
                self._hosted.discard(conversation)

    async def run(self) -> None:
        """Fetch and do jobs until `stop`, over every trouble of the database."""
        try:
            await self._run()
        finally:
            self.ended.set()

    async def _run(self) -> None:
        while not self._is_stopped:
            try:
                await self._app.open_async()
                break
            except (exceptions.ProcrastinateException, psycopg.Error, OSError) as error:
                _log.warning("the queue cannot be opened, tried again: %s", type(error).__name__)
                await self._app.close_async()  # what is half open counts as open
                await anyio.sleep(POLL_S)
        try:
            async with anyio.create_task_group() as tasks:
                while not self._is_stopped:
                    worker = self._worker = _Worker(
                        self._app,
                        queues=self._queues,
                        concurrency=AT_ONCE,
                        fetch_job_polling_interval=POLL_S,
                        delete_jobs="always",
                        install_signal_handlers=False,
                        update_heartbeat_interval=HEARTBEAT_S,
                        stalled_worker_timeout=STALLED_AFTER_S * 15,
                    )
                    tasks.start_soon(_do_jobs, worker)
                    await worker.fetches_no_more.wait()
                    if not self._is_stopped:
                        await anyio.sleep(POLL_S)
        finally:
            await self._app.close_async()

    def stop(self) -> None:
        """Fetch no more; `run` returns when the jobs under way are done."""
        self._is_stopped = True
        if self._worker is not None:
            self._worker.stop()  # type: ignore[no-untyped-call]

    async def keep_recovering(self) -> None:
        """Give what dead workers had, and work that has no job, to whoever is free; until cancelled."""
        while True:
            await anyio.sleep(LOOK_S)
            for look in (self._revive, self._end_ghosts, self._hand_over, self._wake_orphans):
                try:
                    await look()
                except (exceptions.ProcrastinateException, *TROUBLE) as error:
                    _log.warning("could not look for work: %s", type(error).__name__)

    async def _hand_over(self) -> None:
        await self._database.write(lambda conn: conn.execute(_HAND_OVER))

    async def _wake_orphans(self) -> None:
        for conversation in await self._database.read(lambda conn: conn.execute(_ORPHANS).scalars().all()):
            await self._database.write(partial(wake, conversation=ConversationId(conversation)))

    async def _revive(self) -> None:
        manager = self._app.job_manager
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_AFTER_S):
            if job.lock is None or await self._is_hosted(job.lock):
                continue
            try:
                await manager.retry_job(job=job, queue=ANYBODY)
                _log.warning("%s goes on at another worker", job.lock)
            except exceptions.ConnectorException:  # it waits in line already: that one serves both
                with suppress(exceptions.ConnectorException):
                    await manager.finish_job(job=job, status=jobs.Status.FAILED, delete_job=True)

    async def _is_hosted(self, conversation: str) -> bool:
        """Whether a process that lives has it: the queue was out of its reach for a while, and nothing else."""
        if conversation in self._hosted:
            return True
        process = await self._database.read(
            lambda conn: conn.execute(_HOST, {"conversation": conversation}).scalar_one_or_none()
        )
        return process not in (None, self._process)

    async def _end_ghosts(self) -> None:
        """End jobs of ours that nobody does: that they were done could not be written."""
        worker = self._worker.worker_id if self._worker is not None else None
        if worker is None:
            return
        manager = self._app.job_manager
        found = {job.id: job for job in await manager.list_jobs_async(status="doing", worker_id=worker)}
        ghosts = {id for id, job in found.items() if id is not None and job.lock not in self._hosted}
        for id in ghosts & self._ghosts:
            _log.warning("%s was done, and did not count as such", found[id].lock)
            await manager.finish_job(job=found[id], status=jobs.Status.FAILED, delete_job=True)
        self._ghosts = ghosts
