"""Model and persona: /provider /model /persona."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from agent.core.errors import AgentInvalid, AgentMissing
from agent.core.ids import ConversationId, PersonId
from agent.providers.registry import Registry, UnknownProvider
from agent.providers.routing import Choice, Chooser, Scope
from agent.providers.settings import LONGEST_MODEL, is_model_name
from agent.providers.window_discovery import listed
from agent.status import Status
from gateway.access.policy import Role
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The choice in force in a place. `choice` None: the default of the gateway. `locked`: admins alone change it."""

    choice: Choice | None = None
    locked: bool = False


def held(settings: PlaceSettings, key: ConversationKey, *, kept: bool, snapshot: PlaceRows | None = None) -> Held:
    """The choice for `key`. A lock holds for all within. Not `kept`: what people chose does not count (Z-68)."""
    rows = snapshot if kept else NO_ROWS
    found = settings.find(PROVIDER_SETTING, key, rows)
    locked = any(one.value for one in settings.layers(PROVIDER_LOCKED, key, rows)) or settings.get(PROVIDER_LOCKED, key)
    return Held(choice=_choice(found, key) if found.value else None, locked=locked)


def _choice(found: InForce[str], key: ConversationKey) -> Choice:
    name, _, model = found.value.partition("/")
    where = found.chosen_in
    scope: Scope = "channel" if where == key else "account" if where in (None, account_of(key)) else "group"
    return Choice(provider=name, model=model or None, source=found.source or "admin", scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCommandDeps:
    """Providers, and the choices that hold in a place."""

    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    held: Callable[[ConversationKey], Held]  # which provider holds for a place
    persistence: Callable[[], bool]  # whether choices are kept
    preference_changed: Callable[[ConversationKey], None]  # where somebody chose another provider
    providers: Registry


async def provider(call: Call[ModelCommandDeps]) -> Reply:
    """Lists the providers, or switches; `reset` goes back and keeps the history, `lock` leaves switching to admins.

    `account` as the last word means every chat of this account that has no choice of its own.
    """
    words = call.words
    whole = len(words) > 1 and words[-1].lower() == ACCOUNT_WORD
    name = words[0] if words else "status"
    if name.lower() == "status":
        return await _list(call)
    role = _role_everywhere(call) if whole else call.role
    if (whole or name.lower() in ("lock", "unlock")) and role < Role.ADMIN:
        return refused(call)
    place = account_of(call.key) if whole else call.key
    if name.lower() in ("lock", "unlock"):
        return await _lock(call, place, locked=name.lower() == "lock")
    if _is_locked_for(call):
        return Reply(text=call.phrase("provider_locked", call.incoming.language), private=True)
    if name.lower() == "reset":
        return await _reset(call, place)
    return await (_switch_all(call, name) if whole else _switch(call, name))


async def model(call: Call[ModelCommandDeps]) -> Reply:
    """Shows or chooses the model of the present provider; `reset` goes back to the configured one."""
    phrase, language = call.phrase, call.incoming.language
    status = await call.agent.status()
    if not call.words:
        return Reply(text=phrase("model_current", language, provider=status.provider, model=status.model))
    if _is_locked_for(call):
        return Reply(text=phrase("provider_locked", language), private=True)
    name, registry = call.words[0], call.deps.providers
    if name.lower() == "reset":
        configured = registry.get(status.provider).model
        if status.choice.model is not None:
            await _save(call, call.key, call.agent.use_model(configured, _chooser(call)))
        return Reply(text=phrase("model_reset", language, model=configured))
    if name.casefold() in registry.aliases:
        return await _switch(call, name)
    if not is_model_name(name):
        return _unreadable(call)
    settings = registry.get(status.provider).settings
    known = await listed(settings)
    # Some servers list less than they serve: one that leaves out the configured model is not believed.
    if _is_listed(settings.model, known) and not _is_listed(name, known):
        return _no_model(call, status.provider, name, known)
    choice = call.agent.use_model(name, _chooser(call))
    await _save(call, call.key, choice)
    return Reply(text=phrase("model_set", language, provider=choice.provider, model=name))


def _unreadable(call: Call[ModelCommandDeps]) -> Reply:
    text = call.phrase("model_unreadable", call.incoming.language, most=LONGEST_MODEL)
    return Reply(text=text, private=True)


def _is_listed(name: str, known: Sequence[str]) -> bool:
    """Ollama's `:latest` may be left out; litellm puts the vendor in front."""
    wanted = {one.casefold().removesuffix(":latest") for one in (name, name.partition("/")[2]) if one}
    return any(one.casefold().removesuffix(":latest") in wanted for one in known)


def _no_model(call: Call[ModelCommandDeps], provider: str, name: str, known: Sequence[str]) -> Reply:
    """Its server lists its models, and this is none: nothing is kept that would fail at the next message."""
    phrase, language = call.phrase, call.incoming.language
    near = get_close_matches(name, known, n=3)
    names = ", ".join(f"`{one}`" for one in near or known[:MOST_BUTTONS])
    told = phrase("model_near" if near else "model_known", language, names=names)
    return Reply(text=phrase("model_unknown", language, provider=provider, name=name, known=told), private=True)


async def _switch(call: Call[ModelCommandDeps], name: str) -> Reply:
    """This chat, from its next call on."""
    phrase, language, registry = call.phrase, call.incoming.language, call.deps.providers
    try:
        wanted, other = registry.named(name)
    except UnknownProvider:
        return _unknown(call, name)
    if other is not None and not is_model_name(other):
        return _unreadable(call)
    status = await call.agent.status()
    if (status.choice.provider, status.choice.model) == (wanted, other):
        return Reply(text=phrase("provider_already", language, name=wanted))
    choice = call.agent.switch_provider(wanted, _chooser(call), other)
    await _save(call, call.key, choice)
    return Reply(text=phrase("provider_set", language, name=wanted, model=other or registry.get(wanted).model))


async def _switch_all(call: Call[ModelCommandDeps], name: str) -> Reply:
    """Every chat of the account that has no choice of its own."""
    phrase, language, registry = call.phrase, call.incoming.language, call.deps.providers
    try:
        wanted, other = registry.named(name)
    except UnknownProvider:
        return _unknown(call, name)
    if other is not None and not is_model_name(other):
        return _unreadable(call)
    if not call.deps.persistence():
        return Reply(text=phrase("provider_not_kept", language))
    await _save(call, account_of(call.key), Choice(provider=wanted, model=other, source="admin"))
    shown = other or registry.get(wanted).model
    return Reply(text=phrase("provider_set_account", language, name=wanted, model=shown, account=call.key.channel_type))


async def _reset(call: Call[ModelCommandDeps], place: ConversationKey) -> Reply:
    """Nothing is chosen there any more: what holds around it holds here too."""
    await call.settings.clear(PROVIDER_SETTING, place, by=str(call.incoming.person))
    if place == call.key:
        call.agent.take_choice(call.deps.held(call.key).choice)
    call.deps.preference_changed(place)
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
    deps.preference_changed(place)
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


async def model_names(call: Call[ModelCommandDeps]) -> Sequence[str]:
    """Words that may follow /model without asking any server: aliases, and the models that are configured."""
    registry = call.deps.providers
    configured = dict.fromkeys(registry.get(name).model for name in registry.names)
    return (*sorted(registry.aliases), *configured, "reset")


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


def _chooser(call: Call[ModelCommandDeps]) -> Chooser:
    return "admin" if call.in_group and call.role >= Role.ADMIN else "user"


def _role_everywhere(call: Call[ModelCommandDeps]) -> Role:
    """An admin of one group has no say in the others."""
    return call.deps.role_everywhere(call.incoming.person)


def _is_locked_for(call: Call[ModelCommandDeps]) -> bool:
    if call.role >= Role.ADMIN:
        return False
    return call.deps.held(call.key).locked


async def _save(call: Call[ModelCommandDeps], place: ConversationKey, choice: Choice) -> None:
    """Kept for the next start (Z-65), unless the operator wants no persistence (Z-68); a lock stays."""
    if not call.deps.persistence():
        return
    source: Source = "admin" if choice.source == "admin" else "user"
    await call.settings.put(PROVIDER_SETTING, place, _text_of(choice), by=str(call.incoming.person), source=source)
    call.deps.preference_changed(place)


def _text_of(choice: Choice) -> str:
    return choice.provider if choice.model is None else f"{choice.provider}/{choice.model}"


def _unknown(call: Call[ModelCommandDeps], name: str) -> Reply:
    registry = call.deps.providers
    known = ", ".join((*registry.names, *registry.aliases))
    return Reply(text=call.phrase("provider_unknown", call.incoming.language, name=name, known=known))


def _of_account(settings: Settings, place: ConversationKey) -> ChannelSettings | None:
    return next((one for one in settings.channels if one.channel_type == place.channel_type), None)


def _configured(settings: Settings, place: ConversationKey) -> str:
    account = _of_account(settings, place)
    return account.provider if account is not None else ""


def _configured_lock(settings: Settings, place: ConversationKey) -> bool:
    account = _of_account(settings, place)
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
MODEL = Command(
    name="model",
    deps=ModelCommandDeps,
    run=model,
    group="model",
    usage="[id | reset]",
    admin_in_groups=True,
    suggest=model_names,
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
