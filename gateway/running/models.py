"""Models: the providers of the configuration, what is known of their models, and how they do."""

import logging
from dataclasses import dataclass
from functools import partial

import anyio

from agent.core.errors import AgentError, ProviderBusy
from agent.core.events import CallFailed, ContextBuilt, EventBus
from agent.core.ids import ConversationId, CostAttribution, PersonId
from agent.core.model_facts import KeyTrouble
from agent.embedding import Embedders
from agent.ledger.ledger import Ledger
from agent.pictures import Pictures
from agent.providers.images import PictureMakers
from agent.providers.keys import Key, KeyRings
from agent.providers.model_lists import ModelLists
from agent.providers.models import USEFUL_WINDOW, KnownModels
from agent.providers.provider import Provider
from agent.providers.registry import LazyProvider, ProviderDeps, Registry
from agent.providers.routing import Models
from agent.providers.speech import Speakers
from agent.providers.transcription import Transcribers
from agent.providers.usage import Unwatched
from agent.spoken_answers import SpokenAnswers
from agent.storage.model_rows import CircuitStore, KeyRestStore, ModelListStore, ModelStore
from agent.turn.model_call import SHORT_WITHIN_S, short_call
from agent.turn.tokenizer import Tokenizer
from agent.voice_messages import VoiceTranscription
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.config.settings import Settings
from gateway.running.basics import Basics
from gateway.running.monitoring.alerts import Alerts, ModelHealth
from gateway.telemetry.trouble import Troubles

_log = logging.getLogger("tieline.gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAccess:
    """`models` makes the calls; the others are for it, or call models of their own kind."""

    providers: Registry
    known: KnownModels
    lists: ModelLists
    models: Models
    health: ModelHealth
    tokenizer: Tokenizer
    embedders: Embedders
    voice_transcription: VoiceTranscription
    spoken_answers: SpokenAnswers
    pictures: Pictures


async def install_models(basics: Basics, alerts: Alerts, ledger: Ledger) -> ModelAccess:
    """With what earlier processes found out about the models."""
    live, clock, llm = basics.live, basics.clock, basics.settings.llm
    known = KnownModels(clock, ModelStore(basics.database), on_window=partial(model_window, basics.troubles))
    await known.load()
    keys = KeyRings(
        clock,
        KeyRestStore(basics.database),
        on_passed_over=partial(key_passed_over, alerts),
        on_back=partial(key_back, alerts),
    )
    await keys.load()
    providers = Registry(
        live.provider_settings(),
        ProviderDeps(home=basics.home, clock=clock, models=known, keys=keys, files=basics.files),
        failover=llm.failover,
        aliases=llm.aliases,
        routing={str(tier): name for tier, name in llm.routing.items()},
    )
    health = ModelHealth(troubles=basics.troubles, alerts=alerts, providers=providers)
    models = Models(
        clock,
        meter=ledger,
        policy=live.retry,
        on_health=health.failed,
        on_first_answer=health.answered,
        on_failure=partial(call_failed, basics.bus),
        shared=CircuitStore(basics.database) if basics.cluster is not None else None,
    )
    if basics.cluster is not None:
        basics.cluster.when_changed("provider_circuit", lambda _: models.read_circuits())
        await models.read_circuits()
    live.listen(partial(_providers_changed, live, providers, health, models))
    tokenizer = Tokenizer(basics.settings.context.tokenizer)
    basics.bus.listen(tokenizer.heed, [ContextBuilt])
    return ModelAccess(
        providers=providers,
        known=known,
        lists=ModelLists(clock, ModelListStore(basics.database)),
        models=models,
        health=health,
        tokenizer=tokenizer,
        embedders=Embedders(settings=lambda: live.settings.memory.semantic, providers=lambda: providers, ledger=ledger),
        voice_transcription=VoiceTranscription(
            home=basics.home,
            clock=clock,
            ledger=ledger,
            transcribers=Transcribers(lambda: providers, lambda: live.settings.transcription),
            policy=live.retry,
            files=basics.files,
        ),
        spoken_answers=SpokenAnswers(
            home=basics.home,
            clock=clock,
            ledger=ledger,
            speakers=Speakers(lambda: providers, lambda: live.settings.speech),
            policy=live.retry,
            files=basics.files,
        ),
        pictures=Pictures(
            clock=clock,
            ledger=ledger,
            makers=PictureMakers(lambda: providers, lambda: live.settings.images),
            policy=live.retry,
        ),
    )


def _providers_changed(live: Live, providers: Registry, health: ModelHealth, models: Models, fresh: Settings) -> None:
    llm = fresh.llm
    before = [providers.get(name) for name in providers.names]
    routing = {str(tier): name for tier, name in llm.routing.items()}
    providers.reload(live.provider_settings(), failover=llm.failover, aliases=llm.aliases, routing=routing)
    health.reloaded(before, models)


def call_failed(bus: EventBus, provider: Provider, error: AgentError, attribution: CostAttribution) -> None:
    """An attempt at a call failed."""
    event = CallFailed(
        conversation=attribution.conversation,
        run=attribution.run,
        provider=provider.name,
        reason=type(error).__name__,
    )
    bus.publish(event)


def model_window(troubles: Troubles, provider: str, model: str, tokens: int) -> None:
    """A window became known: one that is too small to be of much use is worth a word."""
    subject = f"{provider}/{model}"
    if tokens >= USEFUL_WINDOW:
        troubles.over("window", subject)
        return
    text = f"holds {tokens:,} tokens; below {USEFUL_WINDOW:,} little is left beside instructions and tools"
    fix = "start its server with a larger context (-c, --max-model-len, num_ctx), or choose another model"
    _log.warning("the window of %s %s; %s", subject, text, fix)
    troubles.report("window", subject, text, fix=fix)


async def refresh_lists(models: ModelAccess) -> None:
    """Ask anew for lists of models that are older than a day."""
    providers = models.providers
    await models.lists.refresh_old([providers.get(name).settings for name in providers.names])


async def try_model(
    models: Models, provider: LazyProvider, place: ConversationKey, person: PersonId | None
) -> AgentError | None:
    """Ask that model a few words, on the account of a person in a place; the error, None where it answers."""
    attribution = CostAttribution(purpose="model", conversation=ConversationId(str(place)), person=person)
    try:
        with anyio.fail_after(SHORT_WITHIN_S):
            await models.ask(short_call(provider, attribution, seed=f"{place}:model"), Unwatched())
    except TimeoutError:
        return ProviderBusy(f"{provider.name}: no answer in time")
    except AgentError as error:
        _log.info("a model that was tried does not answer: %s", error)
        return error
    return None


def key_passed_over(alerts: Alerts, provider: str, key: Key, count: int, trouble: KeyTrouble) -> None:
    """A key is refused or has nothing left: the owners are told once, by its number alone, also over restarts."""
    values: dict[str, object] = {"provider": provider, "number": key.number, "count": count}
    alerts.outage(_key_subject(provider, key), f"owner_key_{trouble}", values)


def key_back(alerts: Alerts, provider: str, key: Key, count: int) -> None:
    """It is taken again."""
    values: dict[str, object] = {"provider": provider, "number": key.number, "count": count}
    alerts.outage_over(_key_subject(provider, key), "owner_key_back", values)


def _key_subject(provider: str, key: Key) -> str:
    return f"key:{provider}:{key.digest}"
