"""/privacy: what of people's words among themselves is kept here, what that costs, and how it ends."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.group_context.group_context import GroupContext
from agent.group_context.window import Count, block_of
from agent.providers.provider import Prices
from gateway.commands.command import Call, Command, Reply, source_of
from gateway.commands.place.fields import CONTEXT, MENTION, reads_along
from gateway.scheduler.service import ScheduleService
from gateway.scheduler.triggers.zones import zone_named

PER = 1_000_000  # tokens that a price is for


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyCommandDeps:
    """The talk that is kept of groups; tokens of a text, and prices of a provider, by its name."""

    group_context: GroupContext
    count: Count
    prices: Callable[[str], Prices | None]
    schedules: ScheduleService  # whose person's time zone is whose


async def privacy(call: Call[PrivacyCommandDeps]) -> Reply:
    """State, size and price for each question; the same for everybody here."""
    phrase, language, place = call.phrase, call.incoming.language, call.incoming.group
    if place is None:
        return Reply(text=phrase("privacy_direct", language), private=True)
    source = source_of(call, call.settings.find(CONTEXT, call.key))
    if not reads_along(call.settings, call.key):
        key = "privacy_off" if call.settings.get(CONTEXT, call.key) == "off" else "privacy_memory_off"
        return Reply(text=phrase(key, language, source=source), private=True)
    deps, settings = call.deps, call.deps.group_context.settings()
    zone = await deps.schedules.zone_of(call.incoming.person, call.incoming.zone)
    here = zone_named(zone.name)
    said = (await deps.group_context.around(place)).said
    block = block_of(said, here, count=deps.count, most_tokens=settings.max_tokens)
    tokens = deps.count(block) if block else 0
    prices = deps.prices((await call.agent.status()).provider)
    since = f"{said[0].said_at.astimezone(here):%Y-%m-%d %H:%M}" if said else ""
    lines = [
        phrase("privacy_on", language, messages=settings.messages, hours=settings.hours, source=source),
        "",
        phrase("privacy_size", language, count=len(said), people=len({one.person for one in said}), since=since)
        if said
        else phrase("privacy_nothing", language),
        phrase("privacy_tokens", language, tokens=tokens, most=settings.max_tokens)
        if prices is None
        else phrase(
            "privacy_price", language, tokens=tokens, most=settings.max_tokens, usd=f"{tokens * prices.input / PER:.4f}"
        ),
    ]
    if call.settings.get(MENTION, call.key) == "ambient":
        lines.append(phrase("privacy_ambient", language, most=call.settings.configuration.ambient.messages_per_hour))
    return Reply(text="\n".join([*lines, "", phrase("privacy_ends", language)]), private=True)


PRIVACY = Command(name="privacy", deps=PrivacyCommandDeps, run=privacy, group="people", immediate=False)
