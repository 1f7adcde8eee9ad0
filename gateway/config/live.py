"""The configuration in force, and its change while running: checked whole before it counts.

What is read for every message or turn changes at once, between turns; the rest is named and waits for a restart.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from pydantic import SecretStr

from agent.compaction.settings import MemorySettings
from agent.core.clock import Clock
from agent.ledger.spending import Spending
from agent.plans.settings import PlanSettings
from agent.providers.retry_policy import RetryPolicy
from agent.providers.settings import ProviderSettings
from agent.run.settings import Settings as TurnSettings
from agent.skills.settings import LearningSettings
from agent.tools.settings import ApprovalSettings, HookSettings
from gateway.channels.adapter import ChannelSettings
from gateway.config.errors import ConfigError
from gateway.config.read import default_file, load
from gateway.config.settings import Sections, Settings

LOOK_EVERY_S, SETTLE_S = 1.0, 0.5
# Sections that are read when they are needed; a change of any other one needs a restart.
RELOADABLE = (
    "access",
    "places",
    "people",
    "llm",
    "agent",
    "timeouts",
    "budget",
    "spending",
    "transcription",
    "speech",
    "images",
    "documents",
    "context",
    "group_context",
    "ambient",
    "memory",
    "skills",
    "tools",
    "approvals",
    "roles",
    "hooks",
    "webhooks",
    "retry",
    "queue",
    "delivery",
    "scheduler",
    "retention",
    "backup",
    "alerts",
    "events",
    "traces",
    "otel",
)
# Keys of those sections that are fixed at the start all the same.
FIXED = {"queue": ("linger_ms",), "retention": ("attachment_mb",), "context": ("tokenizer",),
         "tools": ("shell.mode", "web.search"), "images": ("provider",)}  # fmt: skip
_PACKAGE = Path(__file__).parent.parent
# In a checkout, and where an installed package carries them (pyproject.toml, force-include).
SHIPPED_AGENTS = (_PACKAGE.parent / "config" / "agents", _PACKAGE / "agents")
SHIPPED_SKILLS = (_PACKAGE.parent / "config" / "skills", _PACKAGE / "skills")

_log = logging.getLogger("tieline.config")


class Live:
    """Holds the settings; `settings` is replaced as a whole."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str] = os.environ,
        *,
        load: Callable[[Path | None, Mapping[str, str]], Settings] = load,
    ) -> None:
        """`load` reads and checks the file; None: that of the data directory, if it is there."""
        self.settings = settings
        self._environ = environ
        self._load = load
        self._listeners: list[Callable[[Settings], None]] = []
        self._read_listeners: list[Callable[[ConfigError | None], None]] = []
        # From the load on, and kept beyond a `watch` that broke: what changes before the next one counts.
        self._seen = _signature(self.file)

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment, in which the data directory is the one of the start, also where an option named that."""
        return {**self._environ, "TIELINE_HOME": str(self.settings.home)}

    @property
    def file(self) -> Path:
        """Where the configuration is, or would be."""
        return self.settings.source or default_file(self.environ, self.settings.home)

    def listen(self, listener: Callable[[Settings], None]) -> None:
        """Hear of every change that counts."""
        self._listeners.append(listener)

    def listen_to_reads(self, listener: Callable[[ConfigError | None], None]) -> None:
        """Hear of every reading of the changed file: why it is not used, or None."""
        self._read_listeners.append(listener)

    # Sections as they are now, for parts that ask anew each time they need one.

    def turn(self) -> TurnSettings:
        return self.settings.turn

    def limits(self) -> Spending:
        return self.settings.limits

    def retry(self) -> RetryPolicy:
        return self.settings.retry

    def memory(self) -> MemorySettings:
        return self.settings.memory

    def skills_enabled(self) -> bool:
        return self.settings.skills.enabled

    def learning(self) -> LearningSettings:
        return self.settings.skills.learning

    def plans(self) -> PlanSettings:
        return self.settings.plans

    def approvals(self) -> ApprovalSettings:
        return self.settings.approvals

    def hooks(self) -> tuple[HookSettings, ...]:
        return self.settings.hooks

    def provider_settings(self) -> Sequence[ProviderSettings]:
        """The providers, with the gateway's proxy where they name none."""
        proxy = self.settings.network.proxy
        return tuple(
            replace(one, proxy=SecretStr(proxy)) if proxy and not one.proxy.get_secret_value() else one
            for one in self.settings.llm.providers
        )

    def agent_folders(self) -> tuple[Path, ...]:
        """Where AGENT.md files are: the operator's first, then the shipped ones."""
        return (self.settings.home / "agents", *SHIPPED_AGENTS)

    def reload(self) -> tuple[str, ...]:
        """Read the file anew; returns the sections whose change waits for a restart. A broken file changes nothing."""
        if self.settings.source is None and not self.file.exists():
            return ()
        self._seen = _signature(self.file)
        try:
            fresh = self._load(self.settings.source, self.environ)
        except ConfigError as error:
            _log.error("the changed configuration is not used:\n%s", error)
            self._tell_read(error)
            return ()
        self._tell_read(None)
        before = self.settings
        changed = [name for name in Sections.model_fields if getattr(fresh, name) != getattr(before, name)]
        waiting = [name for name in changed if name not in RELOADABLE]
        waiting += [
            f"{name}.{key}"
            for name, keys in FIXED.items()
            for key in keys
            if attrgetter(f"{name}.{key}")(fresh) != attrgetter(f"{name}.{key}")(before)
        ]
        channels = _with_fixed(fresh.channels, before.channels)
        if _by_name(channels) != _by_name(fresh.channels):
            waiting.append("channels")
        now = [name for name in changed if name in RELOADABLE]
        if _by_name(channels) != _by_name(before.channels):
            now.append("channels")
        if now or fresh.source != before.source:
            kept = {name: getattr(fresh if name in now else before, name) for name in Sections.model_fields}
            self.settings = Settings.model_construct(
                **kept, channels=channels, home=before.home, source=fresh.source, warnings=fresh.warnings
            )
        if now:
            _log.info("new settings count from the next turn on: %s", ", ".join(now))
            for listener in self._listeners:
                listener(self.settings)
        if waiting:
            _log.warning("changed, but needs a restart: %s", ", ".join(waiting))
        return tuple(waiting)

    def _tell_read(self, mistake: ConfigError | None) -> None:
        for listener in self._read_listeners:
            listener(mistake)

    async def look(self, clock: Clock) -> None:
        """Reload if the file has changed since the last look.

        Asked every second, not watched: the file lies beside the database, whose every commit would wake a watcher.
        """
        if _signature(self.file) != self._seen:
            await clock.sleep(SETTLE_S)  # an editor may still be writing
            self._seen = _signature(self.file)
            self.reload()


def waits_for_restart(table: str, key: str = "") -> bool:
    """Whether a change of that key of that table counts from the next start on only."""
    section, _, inner = table.partition(".")
    if section == "channels":
        return False
    dotted = f"{inner}.{key}" if inner else key
    return section not in RELOADABLE or dotted in FIXED.get(section, ())


def _with_fixed(fresh: Sequence[ChannelSettings], before: Sequence[ChannelSettings]) -> tuple[ChannelSettings, ...]:
    """The accounts as they can be now: those of platforms as in the file, those behind our own entrances as before."""
    return (
        *(one for one in fresh if one.entrance == "platform"),
        *(one for one in before if one.entrance != "platform"),
    )


def _by_name(channels: Sequence[ChannelSettings]) -> Mapping[str, ChannelSettings]:
    return {one.channel_type: one for one in channels}


def _signature(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
