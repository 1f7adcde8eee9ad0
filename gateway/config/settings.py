"""The whole configuration as one frozen value; `gateway.config.read` makes it. Nothing is opened here."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from agent.compaction.settings import MemorySettings
from agent.documents.settings import DocumentSettings
from agent.group_context.settings import AmbientSettings, GroupContextSettings
from agent.ledger.spending import Limit, Spending
from agent.plans.settings import PlanSettings
from agent.providers.images import ImageSettings
from agent.providers.retry_policy import RetryPolicy
from agent.providers.speech import SpeechSettings
from agent.providers.transcription import TranscriptionSettings
from agent.run.settings import (
    AgentSettings,
    BudgetSettings,
    ContextSettings,
    DebugSettings,
    TimeoutSettings,
    ToolSettings,
)
from agent.run.settings import Settings as TurnSettings
from agent.skills.settings import SkillSettings
from agent.tools.mcp.settings import McpSettings
from agent.tools.settings import ApprovalSettings, HookSettings
from gateway.access.settings import AccessSettings, PersonSettings, RoleSection
from gateway.channels.adapter import ChannelSettings
from gateway.cluster.roles import ClusterSettings
from gateway.config.alerts import AlertSettings
from gateway.config.events import EventSettings
from gateway.config.places import PlaceRules, PlaceSection
from gateway.config.sections import (
    ApiSettings,
    BackupSettings,
    DatabaseSettings,
    LlmSettings,
    LockSettings,
    LoggingSettings,
    NetworkSettings,
    QueueSettings,
    RetentionSettings,
    SessionSettings,
    WebSettings,
)
from gateway.delivery.settings import Settings as DeliverySettings
from gateway.otel.settings import OtelSettings
from gateway.scheduler.settings import SchedulerSettings
from gateway.traces.settings import TraceSettings
from gateway.webhooks.settings import WebhookSection


class Sections(BaseModel):
    """The file's sections but `[[channels]]`, whose keys depend on the platform."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    api: ApiSettings = Field(default_factory=ApiSettings)
    access: AccessSettings = Field(default_factory=AccessSettings)
    places: tuple[PlaceSection, ...] = ()
    people: tuple[PersonSettings, ...] = ()
    llm: LlmSettings = Field(default_factory=LlmSettings)
    agent: AgentSettings = Field(default_factory=AgentSettings)
    timeouts: TimeoutSettings = Field(default_factory=TimeoutSettings)
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    spending: Spending = Field(default_factory=Spending)
    transcription: TranscriptionSettings = Field(default_factory=TranscriptionSettings)
    speech: SpeechSettings = Field(default_factory=SpeechSettings)
    images: ImageSettings = Field(default_factory=ImageSettings)
    documents: DocumentSettings = Field(default_factory=DocumentSettings)
    context: ContextSettings = Field(default_factory=ContextSettings)
    group_context: GroupContextSettings = Field(default_factory=GroupContextSettings)
    ambient: AmbientSettings = Field(default_factory=AmbientSettings)
    tools: ToolSettings = Field(default_factory=ToolSettings)
    mcp: McpSettings = Field(default_factory=McpSettings)
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings)
    roles: tuple[RoleSection, ...] = ()
    plans: PlanSettings = Field(default_factory=PlanSettings)
    hooks: tuple[HookSettings, ...] = ()
    webhooks: tuple[WebhookSection, ...] = ()
    memory: MemorySettings = Field(default_factory=MemorySettings)
    skills: SkillSettings = Field(default_factory=SkillSettings)
    retry: RetryPolicy = Field(default_factory=RetryPolicy)
    session: SessionSettings = Field(default_factory=SessionSettings)
    queue: QueueSettings = Field(default_factory=QueueSettings)
    lock: LockSettings = Field(default_factory=LockSettings)
    delivery: DeliverySettings = Field(default_factory=DeliverySettings)
    scheduler: SchedulerSettings = Field(default_factory=SchedulerSettings)
    network: NetworkSettings = Field(default_factory=NetworkSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    backup: BackupSettings = Field(default_factory=BackupSettings)
    alerts: AlertSettings = Field(default_factory=AlertSettings)
    events: tuple[EventSettings, ...] = ()
    traces: TraceSettings = Field(default_factory=TraceSettings)
    otel: OtelSettings = Field(default_factory=OtelSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    debug: DebugSettings = Field(default_factory=DebugSettings)

    @cached_property
    def place_rules(self) -> PlaceRules:
        """The sections of `[[places]]`, found by place."""
        return PlaceRules(self.places)

    @cached_property
    def limits(self) -> Spending:
        """Limits of spending, with the daily cap of `[budget]` among them."""
        daily = self.budget.max_daily_cost_usd
        if daily is None:
            return self.spending
        return replace(self.spending, limits=(*self.spending.limits, Limit(scope="channel", usd=daily)))

    @cached_property
    def turn(self) -> TurnSettings:
        """The settings of an agent."""
        return TurnSettings(
            agent=self.agent,
            timeouts=self.timeouts,
            budget=self.budget,
            context=self.context,
            tools=self.tools,
            approvals=self.approvals,
            memory=self.memory,
            debug=self.debug,
            mcp=self.mcp,
            skills=self.skills,
            plans=self.plans,
            roles=self.roles,
        )


class Settings(Sections):
    """Everything, checked. `home` is the data directory; `source` the file it came from, None without one.

    `warnings` tell of what works and should be written otherwise: former names of keys.
    """

    channels: tuple[ChannelSettings, ...]
    home: Path
    source: Path | None
    warnings: tuple[str, ...] = ()

    @property
    def secrets(self) -> frozenset[str]:
        """Every secret value in it, for redaction."""
        found = {secret for provider in self.llm.providers for secret in provider.secrets}
        sections = (self.web, self.web.oidc, self.tools.web, self.alerts.email, self.alerts.webhook, *self.channels)
        for section in sections:
            found |= set(_secrets(section))
        found |= self.mcp.secrets | self.alerts.webhook.secrets | self.otel.secrets
        for subscription in self.events:
            found |= set(_secrets(subscription)) | subscription.secrets
        found |= {secret for hook in self.webhooks for secret in hook.secrets}
        return frozenset(value for value in found if len(value) >= 6)  # shorter ones would blank ordinary words

    def with_dumps(self, directory: Path | None) -> "Settings":
        """The same with every conversation dumped into `directory`, or into the configured one."""
        kept = {name: getattr(self, name) for name in Settings.model_fields}
        where = self.debug.output_dir if directory is None else str(directory.absolute())
        kept["debug"] = DebugSettings(enabled=True, output_dir=where)
        return Settings.model_construct(**kept)

    def for_one_terminal(self) -> "Settings":
        """The same with any free port and only warnings in the log: for a gateway inside `tieline console`."""
        kept = {name: getattr(self, name) for name in Settings.model_fields}
        kept["web"] = replace(self.web, port=0)
        kept["logging"] = replace(self.logging, level="warning")
        return Settings.model_construct(**kept)


def _secrets(section: Any) -> Iterator[str]:
    values: Sequence[Any] = ()
    if isinstance(section, BaseModel):
        values = [getattr(section, name) for name in type(section).model_fields]
    elif is_dataclass(section):
        values = [getattr(section, field.name) for field in fields(section)]
    yield from (value.get_secret_value() for value in values if isinstance(value, SecretStr))
