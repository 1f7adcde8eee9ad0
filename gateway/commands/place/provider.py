"""Provider and persona: /provider /persona. Models are in `gateway.commands.place.models`."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from agent.core.clock import Clock
from agent.core.errors import AgentError, AgentInvalid, AgentMissing
from agent.core.ids import ConversationId, PersonId
from agent.providers.model_lists import ModelLists
from agent.providers.registry import LazyProvider, Registry, UnknownProvider
from agent.providers.routing import Choice, Chooser, Patterns, Scope, allowed
from agent.providers.settings import LONGEST_MODEL, is_model_name
from agent.status import Status
from agent.tools.rights import held as held_roles
from agent.tools.settings import RoleSettings
from gateway.access.policy import Role
from gateway.access.roles import model_ruling
from gateway.channels.adapter import ChannelSettings
from gateway.channels.keys import ConversationKey
from gateway.commands.command import AnyCall, Call, Command, Reply, Setting, choices, on_or_off, refused
from gateway.config.places import text_of
from gateway.config.settings import Settings
from gateway.conversations.place_settings import NO_ROWS, InForce, PlaceRows, PlaceSettings, account_of
from gateway.phrases.catalogue import UsageError
from gateway.storage.settings_rows import Source

MOST_BUTTONS = 8
ACCOUNT_WORD = "account"

_log = logging.getLogger("tieline.commands")


# Asks a model once, on the account of a person in a place; gives the error, None where it answers.
TryModel = Callable[[LazyProvider, ConversationKey, PersonId | None], Awaitable[AgentError | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The choice in force in a place. `choice` None: the default of the gateway. `locked`: admins alone change it."""

    choice: Choice | None = None
    locked: bool = False


def held(settings: PlaceSettings, key: ConversationKey, *, kept: bool, snapshot: PlaceRows | None = None) -> Held:
    """The choice for `key`. A lock holds for all within. Not `kept`: what people chose does not count (Z-68)."""
    rows = snapshot if kept else NO_ROWS
    found = settings.find(PROVIDER_SETTING, key, rows)
    locked = (
        any(one.value for one in settings.layers(PROVIDER_LOCKED, key, rows))
        or settings.find(PROVIDER_LOCKED, key, rows).value
    )
    is_chosen = found.chosen_in is not None or found.section or _of_account(settings.configuration, key)
    return Held(choice=_choice(found, key) if is_chosen else None, locked=locked)


def _choice(found: InForce[str], key: ConversationKey) -> Choice:
    name, _, model = found.value.partition("/")
    where = found.chosen_in
    scope: Scope = "channel" if where == key else "account" if where in (None, account_of(key)) else "group"
    return Choice(provider=name, model=model or None, source=found.source or "admin", scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCommandDeps:
    """Providers, and the choices that hold in a place."""

    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    clock: Clock
    held: Callable[[ConversationKey], Held]  # which provider holds for a place
    persistence: Callable[[], bool]  # whether choices are kept
    roles: Callable[[], Sequence[RoleSettings]]  # the operator's named ones
    models_allowed: Callable[[ConversationKey], Sequence[Patterns]]  # lists of those that may answer in a place
    model_lists: ModelLists
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
    if is_locked_for(call):
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
    name, language = f"{provider}/{model}", call.incoming.language
    if not allowed(provider, model, call.deps.models_allowed(call.key)):
        text = call.phrase("model_not_allowed", language, name=name, models=shown_patterns(call))
        return Reply(text=text, private=True)
    ruling = model_ruling(name, held_roles(call.incoming.roles, call.deps.roles()))
    if ruling.gate == "deny":
        return Reply(text=call.phrase("model_denied_by_role", language, name=name, rule=ruling.rule), private=True)
    return None


def shown_patterns(call: Call[ModelCommandDeps]) -> str:
    """The patterns of models that may answer here, for people."""
    return ", ".join(dict.fromkeys(chain.from_iterable(call.deps.models_allowed(call.key))))


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
    await call.settings.clear(PROVIDER_SETTING, place, by=str(call.incoming.person))
    if place == call.key:
        call.agent.take_choice(call.deps.held(call.key).choice)
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
    phrase, language, deps, by = call.phrase, call.incoming.language, call.deps, str(call.incoming.person)
    if not deps.persistence():
        return Reply(text=phrase("provider_not_kept", language))
    choice = (await call.agent.status()).choice
    if not locked:
        await call.settings.clear(PROVIDER_LOCKED, place, by=by)
    else:
        if call.settings.find(PROVIDER_SETTING, place).chosen_in != place:  # a lock keeps what counts now
            await call.settings.put(PROVIDER_SETTING, place, _text_of(choice), by=by, source="admin")
        await call.settings.put(PROVIDER_LOCKED, place, "on", by=by, source="admin")
    if deps.held(call.key).locked and not locked:
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


async def _persona_named(call: AnyCall, written: str) -> str:
    name = written.split()[0]
    _with_persona(call, call.agent.persona, name)
    return name


def _become(call: AnyCall, name: str) -> None:
    """From the next turn on."""
    _with_persona(call, call.agent.switch_persona, name)


def _with_persona(call: AnyCall, act: Callable[[str], object], name: str) -> None:
    """Act on an AGENT.md. Raises UsageError for one that is not there or cannot be read."""
    try:
        act(name)
    except AgentMissing:
        raise UsageError("persona_unknown", name=name, known=", ".join(call.agent.personas())) from None
    except AgentInvalid as error:
        _log.warning("persona not switched: %s", error, extra={"conversation": ConversationId(str(call.key))})
        raise UsageError("persona_broken", name=name) from error


PERSONA_SETTING: Setting[str] = Setting(
    key="persona",
    command="persona",
    default=lambda settings, place: settings.agent.name,
    text_for=_persona_named,
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
    if call.deps.held(call.key).locked:
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


def is_locked_for(call: Call[ModelCommandDeps]) -> bool:
    """Whether an admin keeps the choice from the person."""
    if call.role >= Role.ADMIN:
        return False
    return call.deps.held(call.key).locked


async def save(call: Call[ModelCommandDeps], place: ConversationKey, choice: Choice) -> None:
    """Kept for the next start (Z-65), unless the operator wants no persistence (Z-68); a lock stays."""
    if not call.deps.persistence():
        return
    source: Source = "admin" if choice.source == "admin" else "user"
    await call.settings.put(PROVIDER_SETTING, place, _text_of(choice), by=str(call.incoming.person), source=source)


def _text_of(choice: Choice) -> str:
    return choice.provider if choice.model is None else f"{choice.provider}/{choice.model}"


def _unknown(call: Call[ModelCommandDeps], name: str) -> Reply:
    registry = call.deps.providers
    known = ", ".join((*registry.names, *registry.aliases))
    return Reply(text=call.phrase("provider_unknown", call.incoming.language, name=name, known=known))


def _account(settings: Settings, place: ConversationKey) -> ChannelSettings | None:
    return next((one for one in settings.channels if one.channel_type == place.channel_type), None)


def _of_account(settings: Settings, place: ConversationKey) -> str:
    """The provider that the account's section names; "" for none."""
    account = _account(settings, place)
    return account.provider if account is not None else ""


def _configured(settings: Settings, place: ConversationKey) -> str:
    providers = settings.llm.providers
    default = next((one.name for one in providers if one.default), providers[0].name if providers else "")
    return _of_account(settings, place) or default


def _configured_lock(settings: Settings, place: ConversationKey) -> bool:
    account = _account(settings, place)
    return account is not None and account.provider_locked


async def _choose(call: Call[ModelCommandDeps], written: str | None) -> Reply:
    return await provider(replace(call, args=written or "reset"))


async def _choose_lock(call: Call[ModelCommandDeps], written: str | None) -> Reply:
    return await provider(replace(call, args="lock" if written == "on" else "unlock"))


PROVIDER_SETTING: Setting[str] = Setting(
    key="provider",
    command="provider",
    default=_configured,
    parse=str,
    usage="name | name/model",
    change_by=_choose,
    show=lambda value: value or "–",
)
PROVIDER_LOCKED: Setting[bool] = Setting(
    key="provider_locked",
    command="provider lock",
    default=_configured_lock,
    choices=("on", "off"),
    parse=on_or_off,
    show=text_of,
    role=Role.ADMIN,
    change_by=_choose_lock,
)
PROVIDER = Command(
    name="provider",
    deps=ModelCommandDeps,
    everyday=True,
    run=provider,
    group="model",
    usage="[name | reset | lock | unlock] [account]",
    suggest=provider_names,
    admin_in_groups=True,
    settings=(PROVIDER_SETTING, PROVIDER_LOCKED),
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
