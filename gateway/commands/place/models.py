"""/model and /think: the models that the providers offer, in pages with buttons, and how much one thinks."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import get_args

from agent.core.errors import ProviderRefused, Refused
from agent.core.model_facts import ModelList, ModelOffer
from agent.core.outbox import Button, Buttons
from agent.providers.model_lists import found_in, is_among, matching
from agent.providers.provider import Reasoning
from agent.providers.registry import LazyProvider
from agent.providers.routing import allowed
from agent.providers.settings import is_model_name
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.commands.command import MOST_ACTION, PRESS, AnyCall, Call, Command, Reply, Setting, one_of, refused
from gateway.commands.place.provider import (
    ModelCommandDeps,
    chooser,
    is_locked_for,
    not_allowed,
    role_everywhere,
    save,
    shown_patterns,
    switch,
    unreadable,
)
from gateway.phrases.catalogue import UsageError

ON_A_PAGE = 8  # models
LONGEST_LABEL = 40  # characters of a button
STAMP = 8  # hexadecimal digits
LOOK_AGAIN_US = 10 * 60 * 1_000_000  # a model that is not in an older list may be new: its server is asked once more
NAMED = 8  # models that a refusal names

LEVELS: tuple[Reasoning, ...] = get_args(Reasoning)
AS_CONFIGURED = "default"


@dataclass(frozen=True, slots=True)
class Listed:
    """A model in the list of a chat."""

    provider: str
    offer: ModelOffer

    @property
    def name(self) -> str:
        """The provider and the model."""
        return f"{self.provider}/{self.offer.id}"


async def model(call: Call[ModelCommandDeps]) -> Reply:
    """Lists the models, or chooses one; `search` narrows, `refresh` asks the servers anew, `reset` goes back."""
    first, _, rest = call.args.strip().partition(" ")
    match first.lower():
        case "":
            return await _page(call, None, ())
        case "page":
            number, _, words = rest.partition(" ")
            return await _page(call, int(number) if number.isdecimal() else 1, words.split())
        case "search":
            return await _page(call, 1, rest.split())
        case "refresh":
            return await _refresh(call)
        case "pick" | "reset" if is_locked_for(call):
            return _locked(call)
        case "pick":
            place, _, stamp = rest.partition(" ")
            return await _pick(call, int(place) if place.isdecimal() else -1, stamp)
        case "reset":
            return await _reset(call)
        case _:
            return await _choose(call, call.words[0])


async def _reset(call: Call[ModelCommandDeps]) -> Reply:
    status = await call.agent.status()
    configured = call.deps.providers.get(status.choice.provider).model
    if status.choice.model is not None:
        await save(call, call.key, call.agent.use_model(configured, chooser(call)))
    return Reply(text=call.phrase("model_reset", call.incoming.language, model=configured))


# The list


async def _all_listed(call: Call[ModelCommandDeps], current: str) -> tuple[Listed, ...]:
    """The models that may answer here, those of the present provider first."""
    registry, patterns = call.deps.providers, call.deps.models_allowed(call.key)
    names = sorted(registry.names, key=lambda name: name != current)
    lists = await call.deps.model_lists.all_of([registry.get(name).settings for name in names])
    return tuple(
        Listed(found.provider, offer)
        for found in lists
        for offer in found.offers
        if allowed(found.provider, offer.id, patterns)
    )


def stamp_of(listed: Sequence[Listed]) -> str:
    """A name for the list as it is, so that a button of another one is known."""
    return hashlib.sha256("\n".join(one.name for one in listed).encode()).hexdigest()[:STAMP]


async def _page(call: Call[ModelCommandDeps], number: int | None, words: Sequence[str]) -> Reply:
    """A page of the list; without a number the one with the present model."""
    phrase, language, status = call.phrase, call.incoming.language, await call.agent.status()
    listed, now = await _all_listed(call, status.provider), f"{status.provider}/{status.model}"
    places = matching(words, [one.name for one in listed])
    title = phrase("model_current", language, provider=status.provider, model=status.model)
    if not places:
        key = "model_none_found" if words else "model_none_allowed"
        told = phrase(key, language, words=" ".join(words)[:80], models=shown_patterns(call))
        return Reply(text=f"{title}\n\n{told}", private=True)
    pages = -(-len(places) // ON_A_PAGE)
    if number is None:
        at = next((rank for rank, place in enumerate(places) if listed[place].name == now), 0)
        number = at // ON_A_PAGE + 1
    number = max(1, min(number, pages))
    shown = places[(number - 1) * ON_A_PAGE : number * ON_A_PAGE]
    several = len(call.deps.providers.names) > 1
    lines = [
        phrase(
            "model_line",
            language,
            mark="▸ " if listed[place].name == now else "",
            name=listed[place].name if several else listed[place].offer.id,
            facts=facts_in_words(call, listed[place].offer),
        )
        for place in shown
    ]
    head = phrase("model_page", language, page=number, pages=pages, count=len(places))
    hint = phrase("model_hint", language)
    buttons = (*_model_buttons(listed, shown, several=several), *_page_buttons(call, number, pages, words))
    return Reply(text="\n".join([title, "", head, "", *lines, "", hint]), buttons=buttons, private=True)


def _model_buttons(listed: Sequence[Listed], shown: Sequence[int], *, several: bool) -> Buttons:
    """A button for each model. Its place in the list stands for it, since a model's name may be too long."""
    stamp = stamp_of(listed)
    return tuple(
        (
            Button(
                label=_shortened(listed[place].name if several else listed[place].offer.id),
                action=f"{PRESS}/model pick {place} {stamp}",
            ),
        )
        for place in shown
    )


def _page_buttons(call: Call[ModelCommandDeps], number: int, pages: int, words: Sequence[str]) -> Buttons:
    """Back and next, where the words of the search fit into a button."""
    asked = ((number - 1, "model_back"), (number + 1, "model_next"))
    buttons = tuple(
        Button(
            label=call.phrase(key, call.incoming.language), action=f"{PRESS}/model page {' '.join((str(page), *words))}"
        )
        for page, key in asked
        if 1 <= page <= pages
    )
    fits = all(len(button.action.encode()) <= MOST_ACTION for button in buttons)
    return (buttons,) if buttons and fits else ()


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else f"…{name[1 - LONGEST_LABEL :]}"


def facts_in_words(call: AnyCall, offer: ModelOffer) -> str:
    """Price, window and abilities of a model, as far as anybody knows them."""
    phrase, language = call.phrase, call.incoming.language
    if offer.input_usd is None or offer.output_usd is None:
        price = phrase("model_price_unknown", language)
    else:
        price = phrase("model_price", language, input=f"{offer.input_usd:.6g}", output=f"{offer.output_usd:.6g}")
    window = phrase("model_window", language, window=f"{offer.window:,}") if offer.window else ""
    abilities = (("pictures", offer.pictures), ("tools", offer.tools), ("reasoning", offer.reasoning))
    said = {True: "yes", False: "no", None: "unknown"}
    words = [phrase(f"model_{name}_{said[can]}", language) for name, can in abilities]
    return ", ".join([price, window or phrase("model_window_unknown", language), *words])


async def _refresh(call: Call[ModelCommandDeps]) -> Reply:
    """Ask every server now."""
    if role_everywhere(call) < Role.ADMIN:
        return refused(call, "refresh")
    phrase, language, registry = call.phrase, call.incoming.language, call.deps.providers
    began = to_timestamp(call.deps.clock.now())
    lists = await call.deps.model_lists.all_of([registry.get(name).settings for name in registry.names], anew=True)
    lines = [
        phrase(
            "model_refreshed" if found.listed and found.at >= began else "model_not_refreshed",
            language,
            provider=found.provider,
            count=len(found.offers),
        )
        for found in lists
    ]
    return Reply(text="\n".join([phrase("model_refresh_title", language), "", *lines]), private=True)


# The choice


async def _pick(call: Call[ModelCommandDeps], place: int, stamp: str) -> Reply:
    """The model of a button; that of a list which has changed since is none."""
    status = await call.agent.status()
    listed = await _all_listed(call, status.provider)
    if not 0 <= place < len(listed) or stamp != stamp_of(listed):
        return Reply(text=call.phrase("model_list_changed", call.incoming.language), private=True)
    return await _use(call, listed[place].provider, listed[place].offer.id)


async def _choose(call: Call[ModelCommandDeps], name: str) -> Reply:
    """The model of that name: an alias, one of the present provider, or `provider/model`."""
    if is_locked_for(call):
        return _locked(call)
    registry, status = call.deps.providers, await call.agent.status()
    if name.casefold() in registry.aliases:
        return await switch(call, name)
    if not is_model_name(name):
        return unreadable(call)
    provider, wanted = status.provider, name
    found = await _newest(call, provider, wanted)
    before, slash, after = name.partition("/")
    if slash and before in registry and is_model_name(after) and all(offer.id != name for offer in found.offers):
        provider, wanted = registry.get(before).name, after
        found = await _newest(call, provider, wanted)
    settings, offer = registry.get(provider).settings, found_in(wanted, found.offers)
    if offer is not None and settings.type != "litellm":  # which wants the vendor in front
        wanted = offer.id
    if (barred := not_allowed(call, provider, wanted)) is not None:
        return barred
    # Some servers list less than they serve: one that leaves out the configured model is not believed.
    if found.listed and is_among(settings.model, found.offers):
        if not is_among(wanted, found.offers):
            return _no_model(call, provider, wanted, found)
        return await _use(call, provider, wanted)
    if wanted == settings.model or settings.type == "demo":
        return await _use(call, provider, wanted)
    return await _try(call, provider, wanted)


async def _newest(call: Call[ModelCommandDeps], provider: str, wanted: str) -> ModelList:
    """The stored list; asked anew where the model is not in it and the list is not quite fresh."""
    settings = call.deps.providers.get(provider).settings
    found = await call.deps.model_lists.of(settings)
    age = to_timestamp(call.deps.clock.now()) - found.at
    if is_among(wanted, found.offers) or age < LOOK_AGAIN_US:
        return found
    return await call.deps.model_lists.refresh(settings)


async def _try(call: Call[ModelCommandDeps], provider: str, name: str) -> Reply:
    """Nobody lists what this provider has: one small call tells whether it has that model."""
    phrase, language = call.phrase, call.incoming.language
    values = {"provider": provider, "name": name}
    tried = call.deps.providers.with_model(provider, name)
    error = await call.deps.try_model(tried, call.key, call.incoming.person)
    match error:
        case None:
            told = "model_tried"
        case ProviderRefused():
            return Reply(text=phrase("model_try_refused", language, **values), private=True)
        case Refused():
            return Reply(text=phrase("model_try_barred", language, **values), private=True)
        case _:
            told = "model_try_failed"
    reply = await _use(call, provider, name)
    return replace(reply, text=f"{phrase(told, language, **values)}\n{reply.text}")


async def _use(call: Call[ModelCommandDeps], provider: str, name: str) -> Reply:
    if (barred := not_allowed(call, provider, name)) is not None:
        return barred
    configured = call.deps.providers.get(provider).settings.model
    choice = call.agent.switch_provider(provider, chooser(call), None if name == configured else name)
    await save(call, call.key, choice)
    return Reply(text=call.phrase("model_set", call.incoming.language, provider=choice.provider, model=name))


def _no_model(call: Call[ModelCommandDeps], provider: str, name: str, found: ModelList) -> Reply:
    """Its server lists its models, and this is none: nothing is kept that would fail at the next message."""
    phrase, language, patterns = call.phrase, call.incoming.language, call.deps.models_allowed(call.key)
    known = [offer.id for offer in found.offers if allowed(provider, offer.id, patterns)]
    near = get_close_matches(name, known, n=3)
    names = ", ".join(f"`{one}`" for one in near or known[:NAMED])
    told = phrase("model_near" if near else "model_known", language, names=names) if names else ""
    return Reply(text=phrase("model_unknown", language, provider=provider, name=name, known=told), private=True)


def _locked(call: Call[ModelCommandDeps]) -> Reply:
    return Reply(text=call.phrase("provider_locked", call.incoming.language), private=True)


async def model_names(call: Call[ModelCommandDeps]) -> Sequence[str]:
    """Words that may follow /model without asking any server: aliases, and the models that are configured."""
    registry, patterns = call.deps.providers, call.deps.models_allowed(call.key)
    configured = dict.fromkeys(
        registry.get(name).model for name in registry.names if allowed(name, registry.get(name).model, patterns)
    )
    for_admins = ("refresh",) if role_everywhere(call) >= Role.ADMIN else ()
    return (*sorted(registry.aliases), *configured, "search", "reset", *for_admins)


# How much it thinks


async def _level(call: Call[ModelCommandDeps], written: str) -> str:
    """The level to be kept. Raises UsageError for none, and where the model is known not to think."""
    word = written.lower()
    if word not in LEVELS:
        raise UsageError("setting_value_unknown", value=written[:40], allowed=", ".join(LEVELS))
    status = await call.agent.status()
    provider = call.deps.providers.with_model(status.provider, status.model)
    found = await call.deps.model_lists.of(provider.settings)
    if thinks(provider, found_in(status.model, found.offers)) is False:
        raise UsageError("reasoning_unknown", model=status.model, provider=status.provider)
    return word


def thinks(provider: LazyProvider, offer: ModelOffer | None) -> bool | None:
    """Whether the model thinks before it answers: its server has refused it before, or somebody says; None: unknown."""
    dialect = provider.known.facts.dialect
    spared = dialect.get("spared")
    if dialect.get("effort") is False or (isinstance(spared, list) and "thinking" in spared):
        return False
    return offer.reasoning if offer is not None else None


REASONING: Setting[str] = Setting(
    key="reasoning",
    command="think",
    default=lambda settings, place: AS_CONFIGURED,
    choices=LEVELS,
    text_for=_level,
    parse=one_of(LEVELS),
    changed="reasoning_set",
)


async def think(call: Call[ModelCommandDeps]) -> Reply:
    """How much the model thinks before it answers here."""
    word = call.words[0].lower() if call.words else ""
    if not word:
        now = call.settings.get(REASONING, call.key)
        return Reply(text=call.phrase("reasoning_now", call.incoming.language, level=now), private=True)
    return await REASONING.change(call, None if word == AS_CONFIGURED else word)


MODEL = Command(
    name="model",
    deps=ModelCommandDeps,
    run=model,
    group="model",
    usage="[id | search words | reset | refresh]",
    admin_in_groups=True,
    suggest=model_names,
)
THINK = Command(
    name="think",
    deps=ModelCommandDeps,
    run=think,
    group="model",
    usage="[off | low | medium | high | default]",
    choices=(*LEVELS, AS_CONFIGURED),
    settings=(REASONING,),
)
