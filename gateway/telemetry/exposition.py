"""The metrics in Prometheus' text format; loaded by name at the first scrape. Names: OpenTelemetry's GenAI
semantic conventions where they have one (gen_ai.*), else `tieline_*`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from gateway.telemetry.metrics import Billed, Gauges, Histogram, Metrics

Labels = TypeVar("Labels", bound=tuple[str, ...])

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    metrics: Metrics
    gauges: Gauges

    def collect(self) -> Iterable[Metric]:
        totals = self.metrics.totals
        yield from self._money()
        of_model = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"]
        for name, text, by_model in (
            ("gen_ai_client_operation_duration_seconds", "Time of one model call.", self.metrics.llm_seconds),
            (
                "gen_ai_client_operation_time_to_first_chunk_seconds",
                "Time to the first piece of a model's answer.",
                self.metrics.first_token_seconds,
            ),
        ):
            durations = HistogramMetricFamily(name, text, labels=of_model)
            for (provider, model), histogram in by_model.items():
                durations.add_metric(["chat", provider, model], _buckets(histogram), histogram.total)
            yield durations
        turns = HistogramMetricFamily("tieline_turn_duration_seconds", "Time of one turn.", labels=["outcome"])
        for outcome, histogram in self.metrics.turn_seconds.items():
            turns.add_metric([outcome], _buckets(histogram), histogram.total)
        yield turns
        yield _counter("tieline_turns", "Turns that ended.", ["outcome"], {
            ("success",): totals.turns - totals.failed_turns, ("error",): totals.failed_turns,
        })  # fmt: skip
        yield _counter("tieline_schedules", "Moments of schedules.", ["outcome"], self.metrics.schedules)
        lateness = HistogramMetricFamily("tieline_schedule_lateness_seconds", "From a schedule's moment to its start.")
        lateness.add_metric([], _buckets(self.metrics.lateness_seconds), self.metrics.lateness_seconds.total)
        yield lateness
        yield _counter("tieline_tool_calls", "Calls of tools.", ["tool", "outcome"], self.metrics.tools)
        retries = {(provider,): count for provider, count in self.metrics.retries.items()}
        yield _counter("tieline_llm_retries", "Repeated model calls.", ["gen_ai_provider_name"], retries)
        chain = ["gen_ai_provider_name", "fallback"]
        yield _counter("tieline_failovers", "Answers taken over by another provider.", chain, self.metrics.fallbacks)
        breaks = {(cause,): count for cause, count in self.metrics.cache_breaks.items()}
        yield _counter("tieline_cache_breaks", "Falls of what is read from a provider's cache.", ["cause"], breaks)
        longer = {(provider,): count for provider, count in self.metrics.escalations.items()}
        yield _counter("tieline_escalated_answers", "Cut answers asked for whole.", ["gen_ai_provider_name"], longer)
        apart = HistogramMetricFamily("tieline_turns_after_hard_compaction", "Turns until the next hard compaction.")
        apart.add_metric([], _buckets(self.metrics.turns_after_hard), self.metrics.turns_after_hard.total)
        yield apart
        for name, text, value in (
            ("tieline_degraded_contexts", "Turns that went on without a full context.", totals.degraded_contexts),
            ("tieline_skill_hints", "Turns in which a skill was hinted.", totals.skill_hints),
            ("tieline_skill_drafts", "Skills that were drafted.", totals.skill_drafts),
            ("tieline_learning_failures", "What could not be learnt.", totals.learning_failures),
            ("tieline_compactions", "Summaries that took the place of messages.", totals.compactions),
            ("tieline_hard_compactions", "Those at the hard threshold.", totals.hard_compactions),
            ("tieline_compaction_tokens_saved", "Tokens they freed.", totals.compaction_tokens_saved),
            ("tieline_tool_outputs_pruned", "Results of tools that pruning left out.", totals.pruned_outputs),
            ("tieline_summary_questions", "Questions that summaries were asked.", totals.probe_questions),
            ("tieline_summary_questions_answered", "Those they could answer.", totals.probe_answered),
            ("tieline_summary_facts_put_back", "What they lacked and hold now.", totals.probe_put_back),
            ("tieline_looked_up_again", "Times a model looked up what had just left.", totals.looked_up_again),
            ("tieline_memory_evicted", "Kept things that sweeps of the memory took.", self.metrics.evicted),
            ("tieline_compaction_breaker_trips", "Times the breaker of summaries opened.", totals.breaker_trips),
            ("tieline_event_listener_failures", "Events a listener could not take.", self.metrics.lost_events),
        ):
            yield CounterMetricFamily(name, text, value=value)
        yield from self._gauges()

    def _money(self) -> Iterable[Metric]:
        """Money in the ledger. The operation is "chat" in the conventions' words; other calls have their own."""
        of_model = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"]
        tokens = CounterMetricFamily(
            "gen_ai_client_token_usage_tokens", "Tokens billed by providers.", labels=[*of_model, "gen_ai_token_type"]
        )
        cost = CounterMetricFamily(
            "tieline_cost_usd", "Money spent, as far as prices are known.", labels=[*of_model, "tieline_purpose"]
        )
        unpriced = CounterMetricFamily("tieline_unpriced_calls", "Calls whose price is unknown.", labels=of_model)
        estimated = CounterMetricFamily("tieline_estimated_calls", "Calls whose tokens are estimated.", labels=of_model)
        sums: dict[tuple[str, str, str], Billed] = {}
        for (purpose, provider, model), billed in self.metrics.attributions.items():
            operation = purpose if purpose in ("transcription", "embeddings") else "chat"
            cost.add_metric([operation, provider, model, purpose], billed.cost_usd)
            found = sums.setdefault((operation, provider, model), Billed())
            for field in fields(Billed):
                setattr(found, field.name, getattr(found, field.name) + getattr(billed, field.name))
        for labels, billed in sums.items():
            for kind, count in (
                ("input", billed.prompt),
                ("output", billed.output),
                ("cache_creation", billed.cache_creation),
                ("cache_read", billed.cache_read),
            ):
                tokens.add_metric([*labels, kind], count)
            unpriced.add_metric(list(labels), billed.unpriced)
            estimated.add_metric(list(labels), billed.estimated)
        yield from (tokens, cost, unpriced, estimated)
        used = GaugeMetricFamily(
            "tieline_budget_used_ratio", "The fullest budget of its kind; 1 is used up.", labels=["scope", "per"]
        )
        for (scope, per), share in self.gauges.budgets.items():
            used.add_metric([scope, per], share)
        yield used

    def _gauges(self) -> Iterable[Metric]:
        gauges, totals = self.gauges, self.metrics.totals
        for name, text, value in (
            ("tieline_queue_depth", "Messages that wait for their turn.", gauges.queue_depth),
            ("tieline_outbox_open", "Messages that wait for their platform.", gauges.outbox_open),
            ("tieline_outbox_dead", "Messages that could not be delivered.", gauges.outbox_dead),
            ("tieline_conversations_awake", "Agents in memory.", gauges.awake),
            ("tieline_tasks", "Tasks of the event loop that are alive.", gauges.tasks),
            ("tieline_compaction_last_before_tokens", "Newest compaction: before.", totals.compaction_last_before),
            ("tieline_compaction_last_after_tokens", "Newest compaction: after.", totals.compaction_last_after),
            ("tieline_compaction_last_timestamp_ms", "When, 0 for never.", totals.compaction_last_at_ms),
            ("tieline_context_tokens", "Tokens of the newest request.", totals.context_tokens),
            ("tieline_context_max_tokens", "Window of the model it went to.", totals.context_max_tokens),
            ("tieline_ready", "1 when /readyz is green.", float(gauges.ready)),
            ("tieline_troubles_open", "What the operator should look at.", gauges.troubles_open),
            ("tieline_event_loop_lag_seconds", "How late the event loop was last.", gauges.loop_lag_s),
            ("tieline_event_loop_lag_worst_seconds", "Its worst in the last minute.", gauges.loop_lag_worst_s),
        ):
            yield GaugeMetricFamily(name, text, value=float(value))
        up = GaugeMetricFamily("tieline_adapter_up", "1 when the account can hear.", labels=["channel_type"])
        for channel_type, hears in gauges.adapters.items():
            up.add_metric([channel_type], float(hears))
        yield up
        build = GaugeMetricFamily("tieline_build_info", "Which version runs.", labels=["version"])
        build.add_metric([gauges.version], 1.0)
        yield build


def exposition(metrics: Metrics, gauges: Gauges) -> bytes:
    """Everything, as a scrape wants it. An own registry: nothing of other libraries slips in."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics, gauges))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _counter(name: str, text: str, labels: list[str], values: Mapping[Labels, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(list(key), value)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    seen = 0
    for bound, count in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return buckets
