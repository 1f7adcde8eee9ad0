"""Models: the providers of the configuration, what is known of their models, and how they do."""

import logging
from dataclasses import dataclass
from functools import partial

from agent.core.events import ContextBuilt
from agent.embedding import Embedders
from agent.ledger.ledger import Ledger
from agent.providers.models import USEFUL_WINDOW, KnownModels
from agent.providers.registry import ProviderDeps, Registry
from agent.providers.routing import Models
from agent.providers.transcription import Transcribers
from agent.storage.model_rows import ModelStore
from agent.turn.tokenizer import Tokenizer
from agent.voice_messages import VoiceTranscription
from gateway.config.live import Live
from gateway.config.settings import Settings
from gateway.running.alerts import Alerts, ModelHealth
from gateway.running.basics import Basics
from gateway.telemetry.trouble import Troubles

_log = logging.getLogger("tieline.gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAccess:
    """`models` makes the calls; the others are for it, or call models of their own kind."""

    providers: Registry
    known: KnownModels
    models: Models
    health: ModelHealth
    tokenizer: Tokenizer
    embedders: Embedders
    voice_transcription: VoiceTranscription


async def install_models(basics: Basics, alerts: Alerts, ledger: Ledger) -> ModelAccess:
    """With what earlier processes found out about the models."""
    live, clock, llm = basics.live, basics.clock, basics.settings.llm
    known = KnownModels(clock, ModelStore(basics.database), on_window=partial(model_window, basics.troubles))
    await known.load()
    providers = Registry(
        live.provider_settings(),
        ProviderDeps(home=basics.home, clock=clock, models=known),
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
    )
    live.listen(partial(_providers_changed, live, providers, health, models))
    tokenizer = Tokenizer(basics.settings.context.tokenizer)
    basics.bus.listen(tokenizer.heed, [ContextBuilt])
    return ModelAccess(
        providers=providers,
        known=known,
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
        ),
    )


def _providers_changed(live: Live, providers: Registry, health: ModelHealth, models: Models, fresh: Settings) -> None:
    llm = fresh.llm
    before = [providers.get(name) for name in providers.names]
    routing = {str(tier): name for tier, name in llm.routing.items()}
    providers.reload(live.provider_settings(), failover=llm.failover, aliases=llm.aliases, routing=routing)
    health.reloaded(before, models)


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
