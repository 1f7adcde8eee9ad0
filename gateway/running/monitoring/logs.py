"""The log in the database, and its levels: who writes what waits, and when levels fall back."""

from dataclasses import dataclass

from agent.core.clock import Clock
from agent.memory.records import Forgotten
from gateway.logs.buffer import LogBuffer
from gateway.logs.levels import LogLevels
from gateway.logs.recorder import EVERY_S, LogRecorder
from gateway.running.basics import Basics


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """`is_kept`: warnings and errors go into the database."""

    clock: Clock
    buffer: LogBuffer
    recorder: LogRecorder
    levels: LogLevels
    is_kept: bool

    async def watch_levels(self) -> None:
        """End levels whose time is over, until cancelled."""
        while True:
            await self.clock.sleep(EVERY_S)
            await self.levels.fall_back()

    async def aclose(self) -> None:
        """Write what waits, and hear no more."""
        self.levels.close()
        await self.recorder.write()
        self.buffer.uninstall()


async def install_logs(basics: Basics, buffer: LogBuffer, forgotten: Forgotten) -> LogServices:
    """From now on lines are kept, where the configuration does not switch that off; chosen levels hold."""
    settings = basics.settings.logging
    if not settings.keep:
        buffer.uninstall()
    forgotten.listen(buffer.forget)
    recorder = LogRecorder(
        basics.database,
        basics.clock,
        buffer,
        forgotten=forgotten,
        days=lambda: basics.settings.retention.within(settings.keep_days),
        most=settings.keep_lines,
    )
    levels = LogLevels(basics.database, basics.clock)
    await levels.load()
    return LogServices(clock=basics.clock, buffer=buffer, recorder=recorder, levels=levels, is_kept=settings.keep)
