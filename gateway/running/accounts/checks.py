"""Asks the platforms whether an account would work, without starting the gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from pydantic import ValidationError

from agent.core.clock import SystemClock
from gateway.channels.adapter import AdapterContext, Affected, ChannelSettings, Diagnosis, Place
from gateway.channels.entry_points import open_adapter, settings_class
from gateway.channels.errors import ChannelError
from gateway.config.errors import lines

WITHIN_S = 20.0


async def diagnose(settings: ChannelSettings, adapter_context: AdapterContext) -> Sequence[Diagnosis]:
    """Findings of the account's own adapter; so are settings that it refuses, and a platform that does not answer."""
    try:
        adapter = await anyio.to_thread.run_sync(open_adapter, settings, adapter_context)
    except ImportError as error:
        fix = "update this platform's package, or install what it needs"
        return [Diagnosis(subject=settings.channel_type, level="error", finding=f"cannot be opened: {error}", fix=fix)]
    except ChannelError as error:
        fix = f"change [[channels]] {settings.channel_type}"
        return [Diagnosis(subject=settings.channel_type, level="error", finding=str(error), fix=fix)]
    try:
        with anyio.fail_after(WITHIN_S):
            return [_named(one, settings.channel_type) for one in await adapter.diagnose()]
    except TimeoutError:
        return [
            Diagnosis(
                subject=settings.channel_type,
                level="error",
                finding=f"no answer from the platform within {WITHIN_S:.0f} s",
                fix="check the network and [network] proxy",
            )
        ]
    finally:
        await adapter.aclose()


def weighed(found: Diagnosis, rules: Mapping[Affected, Sequence[str]]) -> Diagnosis:
    """A finding on something withheld: a warning with the rules that need it, else information. Others as they are."""
    if not found.affects:
        return found
    needing = list(dict.fromkeys(rule for affected in found.affects for rule in rules.get(affected, ())))
    if needing:
        return replace(found, finding=f"{found.finding}; needed by {', '.join(needing)}")
    return replace(found, level="ok", finding=f"{found.finding}; no rule needs more (else: {found.fix})")


def _named(found: Diagnosis, account: str) -> Diagnosis:
    """Each line says which account it is about: there may be several."""
    subject = found.subject
    if subject.lower().startswith(account):
        return replace(found, subject=account + subject[len(account) :])
    return replace(found, subject=f"{account} {subject}")


async def diagnose_channel(
    values: Mapping[str, Any], home: Path, proxy: str | None = None, public_url: str | None = None
) -> list[str]:
    """Mistakes in a `[[channels]]` entry as it stands, a line each; none when all is well. Empty texts are left out."""
    model = settings_class(values["type"])
    try:
        settings = model.model_validate({key: value for key, value in values.items() if value != ""})
    except ValidationError as error:
        return lines(error.errors(), model)
    found = await diagnose(settings, bare_adapter_context(home, proxy, public_url))
    return [f"{entry.finding}; {entry.fix}" for entry in found if entry.level == "error"]


def bare_adapter_context(home: Path, proxy: str | None = None, public_url: str | None = None) -> AdapterContext:
    """An adapter context for a look around, with no conversations to catch up with."""

    async def no_places(_: str) -> Sequence[Place]:
        return ()

    return AdapterContext(clock=SystemClock(), home=home, known_places=no_places, proxy=proxy, public_url=public_url)
