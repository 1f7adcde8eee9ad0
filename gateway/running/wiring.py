"""Ports between packages: a few lines each, handed out as callables by `gateway.composition`."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from agent.assembly import rules_without_effect
from agent.between_turns import BetweenTurns, Jobs
from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import Answer, Button, Question
from agent.goals.goal import Goal
from agent.goals.service import Buttoned, Buttons, GoalService, Offer, Owned, RoleOf
from agent.inbox import AccessRole
from agent.plans import service
from agent.plans.service import PlanService
from agent.providers.models import USEFUL_WINDOW
from agent.providers.registry import Registry as Providers
from agent.providers.routing import Models
from agent.tools.mcp.server import Server
from agent.tools.mcp.settings import ServerSettings
from gateway.access.grants import AccessBook
from gateway.access.policy import OPERATOR_PLATFORMS, Role, role_everywhere
from gateway.access.settings import AccessSettings
from gateway.channels.adapter import Adapter
from gateway.channels.keys import ConversationKey
from gateway.commands.command import PRESS
from gateway.commands.goals import go_on_button
from gateway.commands.handler import ROLES
from gateway.commands.plans import plan_buttons
from gateway.config.errors import ConfigError
from gateway.config.live import Live
from gateway.config.settings import Settings
from gateway.conversations.choices import Configured, Held, configured_only
from gateway.conversations.choices import held as held_by
from gateway.conversations.place_settings import PlaceSettings
from gateway.conversations.registry import Registry as Conversations
from gateway.delivery.outbox.delivery import Delivery
from gateway.dispatch.dispatcher import DeadLetter
from gateway.phrases.catalogue import Catalogue
from gateway.router.messages import ROLE_NAMES
from gateway.running.accounts import Accounts
from gateway.running.alerts import DEAF_AFTER_S, Alerts, ModelHealth
from gateway.telemetry.trouble import Troubles

_log = logging.getLogger("tieline.gateway")


def held(live: Live, place_settings: PlaceSettings, conn: Connection, key: ConversationKey) -> Held:
    """The settings that hold for the place; without persistence only what the configuration says (Z-68)."""
    channels = live.settings.channels
    configured = next((Configured(provider=one.provider, locked=one.provider_locked) for one in channels
                       if one.channel_type == key.channel_type), Configured())  # fmt: skip
    if not live.settings.session.provider_persistence:
        return configured_only(configured)
    return held_by(conn, key, place_settings.around(key), configured)


def opened(mount: Callable[[Adapter], None], delivery: Delivery, adapter: Adapter) -> None:
    """Its routes are served, and what waited for the account is sent."""
    mount(adapter)
    delivery.look_again()


@dataclass(frozen=True, slots=True)
class Reports:
    """Delivery's reports to the owner; the alerts are built after it."""

    alerts: Callable[[], Alerts]
    troubles: Troubles

    def dead(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        self.alerts().undeliverable(key, outbox_id, reason)

    def gone(self, key: ConversationKey, reason: str) -> None:
        self.alerts().gone(key, reason)

    def login_refused(self, channel_type: str, reason: str) -> None:
        fix = "look at its token and its rights; it is tried again each minute, and `tieline doctor` tells more"
        self.troubles.report("delivery", channel_type, f"the login is refused: {reason}", fix=fix, blocking=True)
        self.alerts().tell("owner_mute", {"channel": channel_type})

    def login_accepted(self, channel_type: str) -> None:
        self.troubles.over("delivery", channel_type)


def reachable(accounts: Accounts, delivery: Delivery, conversation: ConversationId) -> bool:
    """Whether what is said there can be sent, as far as the account's login goes."""
    name = ConversationKey.parse(conversation).channel_type
    return not (accounts.is_refused(name) or delivery.is_refused(name))


def stop(
    conversations: Conversations,
    is_meant: Callable[[ConversationId, datetime], bool],
    conversation: ConversationId,
    reason: str,
    said_at: datetime,
) -> bool:
    """End the run of that conversation, if it was meant when the word came."""
    return is_meant(conversation, said_at) and conversations.stop(conversation, reason)


def stop_within(
    conversations: Conversations,
    is_meant: Callable[[ConversationId, datetime], bool],
    place: ConversationId,
    reason: str,
    said_at: datetime,
) -> bool:
    """The same in the topics and threads of a place: a Slack command cannot be given in one."""
    return conversations.stop_within(place, reason, lambda key: is_meant(key, said_at))


async def ask(delivery: Delivery, key: ConversationKey, question: Question, language: str) -> Answer:
    channel = await delivery.reachable(key, question.timeout_s)
    return await delivery.questions.ask(channel, question, language) if channel is not None else Answer(None)


def owners(live: Live, book: AccessBook) -> Sequence[str]:
    return (*live.settings.access.admins, *book.owners)


def providers_changed(live: Live, providers: Providers, health: ModelHealth, models: Models, fresh: Settings) -> None:
    llm = fresh.llm
    before = [providers.get(name) for name in providers.names]
    routing = {str(tier): name for tier, name in llm.routing.items()}
    providers.reload(live.provider_settings(), failover=llm.failover, aliases=llm.aliases, routing=routing)
    health.reloaded(before, models)


def warn_of_configuration(added: Callable[[], Collection[str]], settings: Settings) -> None:
    """Log former names of keys, and rules that stand for no tool. `added` are the MCP servers that chats have added."""
    rules = rules_without_effect(settings.approvals, {one.name for one in settings.mcp.servers} | set(added()))
    for warning in (*settings.warnings, *rules):
        _log.warning("%s", warning)


def switched_off(settings: Settings) -> Collection[str]:
    """The features that commands belong to (`Command.feature`) and that the configuration switches off."""
    memory = settings.memory
    on = {
        "memory.graph": memory.graph.enabled,
        "memory.focus": memory.focus.enabled,
        "memory.sidequest": memory.sidequest.enabled,
        "memory.style": memory.style.enabled,
        "skills": settings.skills.enabled,
        "plans": settings.plans.enabled,
        "agent.goal": settings.agent.goal.enabled,
        "scheduler": settings.scheduler.enabled,
    }
    return {name for name, is_on in on.items() if not is_on}


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


def mcp_health(
    troubles: Troubles,
    alerts: Alerts,
    clock: Clock,
    named: Callable[[str], Server | None],
    name: str,
    trouble: str | None,
    *,
    added: bool = False,
) -> None:
    """`added`: in a chat, and left out or removed; else it is among those that are kept connected.

    The owners are told of one that stays away: one that is started anew is back within seconds.
    """
    subject = f"mcp:{name}"
    if trouble is None:
        troubles.over("mcp", name)
        alerts.outage_over(subject, None if added else "owner_mcp_back", {"server": name})
        return
    server = named(name)
    fix = mcp_fix(name, server.settings if server is not None and not added else None)
    troubles.report("mcp", name, trouble, fix=fix)
    since = next(one.since for one in troubles.open if (one.kind, one.subject) == ("mcp", name))
    if (clock.now() - since).total_seconds() >= DEAF_AFTER_S:
        alerts.outage(subject, "owner_mcp_lost", {"server": name, "detail": trouble.rstrip(".")})


def mcp_fix(name: str, settings: ServerSettings | None) -> str:
    """Advice about an MCP server that is not connected; None: added in a chat, and left out."""
    if settings is None:
        return f"in a chat: `/mcp remove {name}`, then `/mcp add {name}` with its address anew"
    if not settings.has_entry:
        return (
            f"it was added in a chat: `/mcp remove {name}` there, and if its address is wrong "
            f"`/mcp add {name}` with the right one; it is tried again"
        )
    log = f" and at logs/mcp-{name}.log in the data directory" if settings.command else ""  # what a program says there
    return f"look at its [[mcp.servers]] entry{log}; it is tried again"


def configuration_read(troubles: Troubles, source: Path | None, mistake: ConfigError | None) -> None:
    """The file was changed while the gateway runs; with a mistake in it the settings of before hold on."""
    subject = source.name if source is not None else ""
    if mistake is None:
        troubles.over("config", subject)
        return
    text = f"the changed file is not used, the settings of before hold on: {'; '.join(str(mistake).split(chr(10)))}"
    fix = "mend it, as `tieline config check` tells; it is read again by itself. The next start would refuse it"
    troubles.report("config", subject, text, fix=fix)


def forgotten(background: BetweenTurns, conversations: Conversations, conversation: ConversationId) -> None:
    """Words are gone from the store: who is awake there is put to sleep when it is free, with all that it had read.

    Nobody waits for that, least of all the command that forgets: two of them would wait for each other.
    """
    if conversation in conversations.awake:
        background.start(partial(conversations.forget, conversation))


# Present rights of a person who set something up earlier: a lost role is lost there, too.


def is_blocked(book: AccessBook, access: AccessSettings, person: PersonId | None) -> bool:
    return person is not None and role_everywhere(person, access, book.grants) is Role.BLOCKED


def role_today(
    book: AccessBook, access: AccessSettings, person: PersonId | None, conversation: ConversationId, then: AccessRole
) -> AccessRole:
    """The role that the person has there, and at most what they had `then`."""
    key = ConversationKey.parse(conversation)
    places = frozenset(f"{key.platform}:{one.channel_id}" for one in (key, key.around or key))
    now = max(book.grants.role(person or "", places), Role.MEMBER)
    if person in access.admins:
        now = max(now, Role.ADMIN)
    if key.platform in OPERATOR_PLATFORMS:
        now = Role.OWNER
    return ROLE_NAMES[min(now, ROLES[then])]


# Ports of goals: roles, and buttons that stand for commands, so that a press is taken like a typed one.


def goal_buttons(phrase: Catalogue) -> Buttoned:
    """Stop below the message that follows the work, go on below what is said when it rests."""

    def buttons(offer: Offer, goal: Goal) -> Buttons:
        language = goal.owner.language
        if offer == "stop":
            action = f"{PRESS}/goal pause {goal.id}"
            return ((Button(label=phrase("button_goal_stop", language), action=action, style="danger"),),)
        return go_on_button(goal, phrase, language)

    return buttons


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Hears of dead letters: a goal or plan whose wake-up is one is put down: nothing would ever wake it again.

    What the workflow gate made of a message that is one is offered no longer.
    """

    goals: GoalService
    plans: PlanService
    background: Jobs
    phrase: Catalogue
    delivery: Delivery

    def __call__(self, letter: DeadLetter) -> None:
        wake_up = letter.incoming.wake_up
        if wake_up is not None:
            self.background.start(partial(self._pause, wake_up.goal))
        if letter.incoming.plan is not None:
            self.background.start(partial(self._put_plan_down, letter.incoming.plan.plan))
        elif wake_up is None:
            self.background.start(partial(service.withdraw, self.plans, letter.inbox_id))

    async def _put_plan_down(self, id: int) -> None:
        plan = await service.abandon(self.plans, id, self.phrase, plan_buttons(self.phrase))
        if plan is not None:
            key = ConversationKey.parse(plan.conversation)
            self.delivery.show_live(key, "")
            self.delivery.wake(key)

    async def _pause(self, id: int) -> None:
        goal = await self.goals.abandon(id, self.phrase, goal_buttons(self.phrase))
        if goal is not None:
            key = ConversationKey.parse(goal.conversation)
            self.delivery.show_live(key, "")
            self.delivery.wake(key)


def goal_role(book: AccessBook, live: Live) -> RoleOf:
    """The owner's role of today; None for one who was blocked since."""

    def role(goal: Owned) -> AccessRole | None:
        owner = goal.owner
        if is_blocked(book, live.settings.access, owner.person):
            return None
        return role_today(book, live.settings.access, owner.person, goal.conversation, owner.role)

    return role
