"""Turns: the agents of the conversations, the registry of those awake, and the dispatcher that gives them work."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from agent.assembly import Shared, SharedFeatures, SharedModels, SharedTools
from agent.between_turns import BetweenTurns, Jobs
from agent.built_ins import BuiltIns
from agent.core.ids import ConversationId, random_uuid
from agent.documents.documents import Documents
from agent.run.contents import Contents
from agent.run.settings import Settings
from agent.subagent.runner import SubagentRegistry
from agent.turn.states import AgentServices
from gateway.commands.place.fields import NO_POLICY, policy_of
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings
from gateway.conversations.registry import Registry as Conversations
from gateway.dispatch.dispatcher import RunningDispatcher
from gateway.running.agents import AgentFactory
from gateway.running.basics import Basics
from gateway.running.dispatch import local_dispatcher
from gateway.running.durable_work import Abandoned, DurableWork
from gateway.running.events import EventRecording
from gateway.running.groups import Groups
from gateway.running.memory import MemoryServices, SkillServices
from gateway.running.messaging import Messaging
from gateway.running.models import ModelAccess
from gateway.running.rights import Rights
from gateway.running.spending import Spending
from gateway.running.tools import ToolServices

if TYPE_CHECKING:  # loaded only where a database is shared
    from gateway.running.beside.told import TurnsElsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServices:
    """`background` does what turns leave for later; `subagent_registry` knows the sub-agents that work now.

    Implements `gateway.commands.command.Turns`.
    """

    factory: AgentFactory
    conversations: Conversations
    dispatcher: RunningDispatcher
    background: BetweenTurns
    subagent_registry: SubagentRegistry
    messaging: Messaging
    elsewhere: "TurnsElsewhere | None" = None  # at processes beside this one

    # -- gateway.commands.command.Turns

    def stop(self, conversation: ConversationId, reason: str, said_at: datetime) -> bool:
        if self.factory.is_meant(conversation, said_at) and self.conversations.stop(conversation, reason):
            return True
        return self.elsewhere is not None and self.elsewhere.stop(conversation, reason, said_at)

    def stop_within(self, place: ConversationId, reason: str, said_at: datetime) -> bool:
        here = self.conversations.stop_within(place, reason, lambda key: self.factory.is_meant(key, said_at))
        there = self.elsewhere is not None and self.elsewhere.stop_within(place, reason, said_at)
        return here or there

    def is_running(self, conversation: ConversationId) -> bool:
        there = self.elsewhere is not None and self.elsewhere.is_running(conversation)
        return there or self.dispatcher.is_running(conversation)

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
    events: EventRecording,
    contents: Contents,
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
            documents=Documents(basics.home, lambda: live.settings.documents, files=basics.files),
            relief=spending.service.relief,
            contents=contents,
            files=basics.files,
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
            more=events.features,
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
    events: EventRecording,
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
    cluster = basics.cluster
    process = cluster.membership.id if cluster is not None else None
    local = local_dispatcher(
        basics, rights, place_settings, conversations, delivery, messaging.alerts, events, abandoned, process
    )
    dispatcher: RunningDispatcher = cluster.hosted_by(local) if cluster is not None else local
    return TurnServices(
        factory=factory,
        conversations=conversations,
        dispatcher=dispatcher,
        background=background,
        subagent_registry=shared.tools.subagent_registry,
        messaging=messaging,
        elsewhere=_elsewhere(basics) if cluster is not None else None,
    )


def _elsewhere(basics: Basics) -> "TurnsElsewhere":
    told = import_module("gateway.running.beside.told")
    assert basics.cluster is not None
    elsewhere: TurnsElsewhere = told.TurnsElsewhere(basics.bus, basics.cluster.words.tell)
    basics.cluster.hear(told.TURNS, elsewhere.hear)
    return elsewhere


def _forgotten(background: BetweenTurns, conversations: Conversations, conversation: ConversationId) -> None:
    """Words are gone from the store: who is awake there is put to sleep when it is free, with all that it had read.

    Nobody waits for that, least of all the command that forgets: two of them would wait for each other.
    """
    if conversations.is_awake(conversation):
        background.start(partial(conversations.forget, conversation))
