"""Turns: the agents of the conversations, the registry of those awake, and the dispatcher that gives them work."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from agent.assembly import Shared, SharedFeatures, SharedModels, SharedTools
from agent.between_turns import BetweenTurns, Jobs
from agent.built_ins import BuiltIns
from agent.core.ids import ConversationId, random_uuid
from agent.documents.documents import Documents
from agent.run.settings import Settings
from agent.subagent.runner import SubagentRegistry
from agent.turn.states import AgentServices
from gateway.commands.place.fields import NO_POLICY, policy_of
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings
from gateway.conversations.registry import Registry as Conversations
from gateway.dispatch.local import LocalDispatcher
from gateway.running.agents import AgentFactory
from gateway.running.basics import Basics
from gateway.running.dispatch import local_dispatcher
from gateway.running.durable_work import Abandoned, DurableWork
from gateway.running.groups import Groups
from gateway.running.memory import MemoryServices, SkillServices
from gateway.running.messaging import Messaging
from gateway.running.models import ModelAccess
from gateway.running.rights import Rights
from gateway.running.spending import Spending
from gateway.running.tools import ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServices:
    """`background` does what turns leave for later; `subagent_registry` knows the sub-agents that work now.

    Implements `gateway.commands.command.Turns`.
    """

    factory: AgentFactory
    conversations: Conversations
    dispatcher: LocalDispatcher
    background: BetweenTurns
    subagent_registry: SubagentRegistry
    messaging: Messaging

    # -- gateway.commands.command.Turns

    def stop(self, conversation: ConversationId, reason: str, said_at: datetime) -> bool:
        return self.factory.is_meant(conversation, said_at) and self.conversations.stop(conversation, reason)

    def stop_within(self, place: ConversationId, reason: str, said_at: datetime) -> bool:
        return self.conversations.stop_within(place, reason, lambda key: self.factory.is_meant(key, said_at))

    def is_running(self, conversation: ConversationId) -> bool:
        return self.dispatcher.is_running(conversation)

    def running_since(self, conversation: ConversationId) -> datetime | None:
        return self.factory.running_since(conversation)

    def is_ending(self, conversation: ConversationId) -> bool:
        return self.factory.is_ending(conversation)

    def goal_of(self, conversation: ConversationId) -> int | None:
        return self.factory.goal_of(conversation)

    def plan_of(self, conversation: ConversationId) -> int | None:
        return self.factory.plan_of(conversation)

    def hide_live(self, conversation: ConversationId) -> None:
        self.messaging.hide_live(conversation)


def settings_in(live: Live, place_settings: PlaceSettings, conversation: ConversationId) -> Settings:
    """The settings of the conversation's next turn."""
    policy = policy_of(place_settings, conversation)
    return live.turn() if policy == NO_POLICY else replace(live.turn(), place=policy)


def shared_parts(
    basics: Basics,
    built_ins: BuiltIns,
    spending: Spending,
    models: ModelAccess,
    memory: MemoryServices,
    skills: SkillServices,
    groups: Groups,
    tools: ToolServices,
    work: DurableWork,
    place_settings: PlaceSettings,
) -> Shared:
    """All that the agents of this process share."""
    live = basics.live
    return Shared(
        home=basics.home,
        services=AgentServices(
            database=basics.database,
            clock=basics.clock,
            new_id=random_uuid,
            bus=basics.bus,
            phrases=basics.phrase,
            ledger=spending.ledger,
            voice_transcription=models.voice_transcription,
            speech=lambda: live.settings.speech,
            documents=Documents(basics.home, lambda: live.settings.documents),
            relief=spending.service.relief,
        ),
        settings=partial(settings_in, live, place_settings),
        built_ins=built_ins,
        models=SharedModels(models=models.models, count=models.tokenizer, counted_by=models.tokenizer.counted_by),
        tools=SharedTools(
            executor=tools.executor, approvals=tools.approvals, hooks=tools.hooks, definitions=tools.definitions
        ),
        features=SharedFeatures(
            memory=memory.memory,
            user_model=memory.user_model,
            learning=skills.learning,
            skills=skills.skills.catalogue,
            group_context=groups.group_context,
            goals=work.goal_deps,
            plans=work.plans,
            plan_buttons=work.plan_buttons,
        ),
    )


def install_turns(
    basics: Basics,
    rights: Rights,
    shared: Shared,
    place_settings: PlaceSettings,
    messaging: Messaging,
    models: ModelAccess,
    work: DurableWork,
) -> TurnServices:
    """Nothing is awake yet."""
    live, delivery, session = basics.live, messaging.delivery, basics.settings.session
    factory = AgentFactory(shared, models.providers, place_settings, outbox_for=delivery.outbox_for, live=live)
    place_settings.listen(factory.heed)
    live.listen(lambda settings: factory.reloaded())  # after the providers, which listen since before
    conversations = Conversations(
        factory.wake, clock=basics.clock, idle_s=session.idle_minutes * 60, most=session.most_awake
    )
    background = shared.background
    shared.features.memory.forgotten.listen(partial(_forgotten, background, conversations))
    abandoned = Abandoned(work, Jobs(background), basics.phrase, messaging)
    dispatcher = local_dispatcher(basics, rights, place_settings, conversations, delivery, messaging.alerts, abandoned)
    return TurnServices(
        factory=factory,
        conversations=conversations,
        dispatcher=dispatcher,
        background=background,
        subagent_registry=shared.tools.subagent_registry,
        messaging=messaging,
    )


def _forgotten(background: BetweenTurns, conversations: Conversations, conversation: ConversationId) -> None:
    """Words are gone from the store: who is awake there is put to sleep when it is free, with all that it had read.

    Nobody waits for that, least of all the command that forgets: two of them would wait for each other.
    """
    if conversation in conversations.awake:
        background.start(partial(conversations.forget, conversation))
