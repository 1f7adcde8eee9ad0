"""Provider and persona: /provider /persona. Models are in `gateway.commands.models`."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import AgentError, AgentInvalid, AgentMissing
from agent.core.ids import ConversationId, PersonId
from agent.providers.model_lists import ModelLists
from agent.providers.registry import LazyProvider, Registry, UnknownProvider
from agent.providers.routing import Choice, Chooser, allowed
from agent.providers.settings import LONGEST_MODEL, is_model_name
from agent.status import Status
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.channels.keys import ConversationKey
from gateway.commands.command import AnyCall, Call, Command, Reply, Setting, choices, refused
from gateway.conversations.choices import Held, account_of
from gateway.phrases.catalogue import UsageError
from gateway.storage import preferences
from gateway.storage.preferences import Preference

MOST_BUTTONS = 8
ACCOUNT_WORD = "account"

_log = logging.getLogger("tieline.commands")


# Asks a model once, on the account of a person in a place; gives the error, None where it answers.
TryModel = Callable[[LazyProvider, ConversationKey, PersonId | None], Awaitable[AgentError | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCommandDeps:
    """Providers, and the choices that hold in a place."""

    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    clock: Clock
    database: Database
    held: Callable[[Connection, ConversationKey], Held]  # which provider holds for a place
    persistence: Callable[[], bool]  # whether choices are kept
    models_allowed: Callable[[ConversationKey], tuple[str, ...]]  # patterns of those that may answer in a place
    model_lists: ModelLists
    preference_changed: Callable[[ConversationKey], Awaitable[None]]  # where somebody chose another provider
    providers: Registry
    try_model: TryModel


async def provider(call: Call[ModelCommandDeps]) -> Reply:
    """Lists the providers, or switches; `reset` goes back and keeps the history, `lock` leaves switching to admins.

    `account` as the last word means every chat of this account that has no choice of its own.
    """
    words = call.words
    whole = len(words) > 1 and words[-1].lower() == ACCOUNT_WORD
    name = words[0] if words else "status"
    if name.lower() == "status":
        return await _list(call)
    role = role_everywhere(call) if whole else call.role
    if (whole or name.lower() in ("lock", "unlock")) and role < Role.ADMIN:
        return refused(call)
    place = account_of(call.key) if whole else call.key
    if name.lower() in ("lock", "unlock"):
        return await _lock(call, place, locked=name.lower() == "lock")
    if await is_locked_for(call):
        return Reply(text=call.phrase("provider_locked", call.incoming.language), private=True)
    if name.lower() == "reset":
        return await _reset(call, place)
    return await (_switch_all(call, name) if whole else switch(call, name))


def unreadable(call: Call[ModelCommandDeps]) -> Reply:
    """The answer to what cannot be the name of a model."""
    text = call.phrase("model_unreadable", call.incoming.language, most=LONGEST_MODEL)
    return Reply(text=text, private=True)


def not_allowed(call: Call[ModelCommandDeps], provider: str, model: str) -> Reply | None:
    """The refusal of a model that may not answer here; None where it may."""
    patterns = call.deps.models_allowed(call.key)
    if allowed(provider, model, patterns):
        return None
    values = {"name": f"{provider}/{model}", "models": ", ".join(patterns)}
    return Reply(text=call.phrase("model_not_allowed", call.incoming.language, **values), private=True)


async def switch(call: Call[ModelCommandDeps], name: str) -> Reply:
    """This chat, from its next call on."""
    phrase, language, registry = call.phrase, call.incoming.language, call.deps.providers
    try:
        wanted, other = registry.named(name)
    except UnknownProvider:
        return _unknown(call, name)
    if other is not None and not is_model_name(other):
        return unreadable(call)
    if (barred := not_allowed(call, wanted, other or registry.get(wanted).model)) is not None:
        return barred
    status = await call.agent.status()
    if (status.choice.provider, status.choice.model) == (wanted, other):
        return Reply(text=phrase("provider_already", language, name=wanted))
    choice = call.agent.switch_provider(wanted, chooser(call), other)
    await save(call, call.key, choice)
    return Reply(text=phrase("provider_set", language, name=wanted, model=other or registry.get(wanted).model))


async def _switch_all(call: Call[ModelCommandDeps], name: str) -> Reply:
    """Every chat of the account that has no choice of its own."""
    phrase, language, registry = call.phrase, call.incoming.language, call.deps.providers
    try:
        wanted, other = registry.named(name)
    except UnknownProvider:
        return _unknown(call, name)
    if other is not None and not is_model_name(other):
        return unreadable(call)
    if (barred := not_allowed(call, wanted, other or registry.get(wanted).model)) is not None:
        return barred
    if not call.deps.persistence():
        return Reply(text=phrase("provider_not_kept", language))
    await save(call, account_of(call.key), Choice(provider=wanted, model=other, source="admin"))
    shown = other or registry.get(wanted).model
    return Reply(text=phrase("provider_set_account", language, name=wanted, model=shown, account=call.key.channel_type))


async def _reset(call: Call[ModelCommandDeps], place: ConversationKey) -> Reply:
    """Nothing is chosen there any more: what holds around it holds here too."""
    await call.deps.database.write(lambda conn: preferences.forget(conn, place.channel_type, place.channel_id))
    if place == call.key:
        held = await call.deps.database.read(lambda conn: call.deps.held(conn, call.key))
        call.agent.take_choice(held.choice)
    await call.deps.preference_changed(place)
    status = await call.agent.status()
    phrase, language = call.phrase, call.incoming.language
    return Reply(
        text=phrase(
            "provider_reset",
            language,
            source=phrase(source_key(status.choice), language),
            name=status.provider,
            model=status.model,
        )
    )


async def _lock(call: Call[ModelCommandDeps], place: ConversationKey, *, locked: bool) -> Reply:
    """Keep the present choice there, until an admin chooses otherwise."""
    phrase, language, deps = call.phrase, call.incoming.language, call.deps
    if not deps.persistence():
        return Reply(text=phrase("provider_not_kept", language))
    choice = (await call.agent.status()).choice

    def work(conn: Connection) -> None:
        kept = preferences.load(conn, place.channel_type, place.channel_id)
        if kept is not None or locked:
            kept = kept or _preference(call, place, replace(choice, source="admin"))
            preferences.save(conn, replace(kept, locked=locked, updated_at=to_timestamp(deps.clock.now())))

    await deps.database.write(work)
    await deps.preference_changed(place)
    still = (await deps.database.read(lambda conn: deps.held(conn, call.key))).locked
    if still and not locked:
        return Reply(text=phrase("provider_still_locked", language))
    return Reply(text=phrase("provider_lock" if locked else "provider_unlock", language, name=choice.provider))


async def persona(call: Call[ModelCommandDeps]) -> Reply:
    """Lists the agents (AGENT.md), or lets one of them answer in this chat."""
    phrase, language, names = call.phrase, call.incoming.language, call.agent.personas()
    if not call.words:
        current = (await call.agent.status()).persona
        lines = [f"- {'▸ ' if name == current else ''}{name}" for name in names]
        buttons = choices("persona", (name for name in names if name != current), most=MOST_BUTTONS)
        title = phrase("persona_title", language, current=current)
        return Reply(text="\n".join([title, "", *lines]), buttons=buttons)
    return await PERSONA_SETTING.change(call, call.words[0])


async def _first_word(call: AnyCall, written: str) -> str:
    return written.split()[0]


def _become(call: AnyCall, name: str) -> None:
    """From the next turn on. Raises UsageError for an AGENT.md that is not there or cannot be read."""
    try:
        call.agent.switch_persona(name)
    except AgentMissing:
        raise UsageError("persona_unknown", name=name, known=", ".join(call.agent.personas())) from None
    except AgentInvalid as error:
        _log.warning("persona not switched: %s", error, extra={"conversation": ConversationId(str(call.key))})
        raise UsageError("persona_broken", name=name) from error


PERSONA_SETTING: Setting[str] = Setting(
    key="persona",
    command="persona",
    default=lambda settings, place: settings.agent.name,
    text_for=_first_word,
    parse=str,
    usage="name",
    apply=_become,
    changed="persona_set",
)


async def provider_names(call: Call[ModelCommandDeps]) -> Sequence[str]:
    """Words that may follow /provider: names, aliases, and its own words, as far as the person may say them."""
    registry = call.deps.providers
    for_admins = ("lock", "unlock") if call.role >= Role.ADMIN else ()
    return (*registry.names, *sorted(registry.aliases), "reset", *for_admins, "status")


async def persona_names(call: Call[ModelCommandDeps]) -> Sequence[str]:
    """The agents that are defined now."""
    return call.agent.personas()


async def _list(call: Call[ModelCommandDeps]) -> Reply:
    phrase, language, registry = call.phrase, call.incoming.language, call.deps.providers
    status = await call.agent.status()
    lines = [
        phrase(
            "provider_line",
            language,
            mark="▸ " if name == status.provider else "",
            name=name,
            model=registry.get(name).model,
            window=f"{await registry.get(name).look_up_window():,}",
        )
        for name in registry.names
    ]
    source = phrase(source_key(status.choice), language)
    title = phrase("provider_title", language, current=status.provider, source=source)
    lines += [
        phrase("alias_line", language, alias=alias, target=target) for alias, target in sorted(registry.aliases.items())
    ]
    if status.fallback is not None:
        lines += ["", fallback(call, status)]
    if (await call.deps.database.read(lambda conn: call.deps.held(conn, call.key))).locked:
        lines += ["", phrase("provider_locked", language)]
    buttons = choices("provider", (name for name in registry.names if name != status.provider), most=MOST_BUTTONS)
    return Reply(text="\n".join([title, "", *lines]), buttons=buttons)


def fallback(call: AnyCall, status: Status) -> str:
    """The fallback that answers now, and why."""
    key = "status_over_budget" if status.over_budget else "status_standing_in"
    return call.phrase(key, call.incoming.language, name=status.provider, other=status.fallback)


def source_key(choice: Choice) -> str:
    """The phrase that says who chose it, and for what."""
    return f"source_{choice.source if choice.scope == 'channel' or choice.source == 'default' else choice.scope}"


def chooser(call: Call[ModelCommandDeps]) -> Chooser:
    """By whose right it is chosen."""
    return "admin" if call.in_group and call.role >= Role.ADMIN else "user"


def role_everywhere(call: Call[ModelCommandDeps]) -> Role:
    """An admin of one group has no say in the others."""
    return call.deps.role_everywhere(call.incoming.person)


async def is_locked_for(call: Call[ModelCommandDeps]) -> bool:
    """Whether an admin keeps the choice from the person."""
    if call.role >= Role.ADMIN:
        return False
    return (await call.deps.database.read(lambda conn: call.deps.held(conn, call.key))).locked


async def save(call: Call[ModelCommandDeps], place: ConversationKey, choice: Choice) -> None:
    """Kept for the next start (Z-65), unless the operator wants no persistence (Z-68); a lock stays."""
    if not call.deps.persistence():
        return

    def work(conn: Connection) -> None:
        before = preferences.load(conn, place.channel_type, place.channel_id)
        kept = _preference(call, place, choice)
        preferences.save(conn, replace(kept, locked=before is not None and before.locked))

    await call.deps.database.write(work)
    await call.deps.preference_changed(place)


def _preference(call: Call[ModelCommandDeps], place: ConversationKey, choice: Choice) -> Preference:
    return Preference(
        channel_type=place.channel_type,
        channel_id=place.channel_id,
        provider=choice.provider,
        model=choice.model,
        source="admin" if choice.source == "admin" else "user",
        updated_at=to_timestamp(call.deps.clock.now()),
    )


def _unknown(call: Call[ModelCommandDeps], name: str) -> Reply:
    registry = call.deps.providers
    known = ", ".join((*registry.names, *registry.aliases))
    return Reply(text=call.phrase("provider_unknown", call.incoming.language, name=name, known=known))


PROVIDER = Command(
    name="provider",
    deps=ModelCommandDeps,
    everyday=True,
    run=provider,
    group="model",
    usage="[name | reset | lock | unlock] [account]",
    suggest=provider_names,
    admin_in_groups=True,
)
PERSONA = Command(
    name="persona",
    deps=ModelCommandDeps,
    run=persona,
    group="model",
    usage="[name]",
    admin_in_groups=True,
    suggest=persona_names,
    settings=(PERSONA_SETTING,),
)
