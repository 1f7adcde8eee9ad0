"""The settings of an installation that nobody has configured, with the requirement that wants each.

Other tests show what a setting does; these show which one people meet.
"""

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.settings import TEXT_LIMIT
from agent.core.tools import TIMEOUT_S
from agent.providers.models import DEFAULT_WINDOW
from gateway.app import DRAIN_S
from gateway.config.read import load
from gateway.dispatch.dispatcher import Timing

SHIPPED = [
    pytest.param({"timeouts.llm_stream": 300.0}, id="B-33", marks=pytest.mark.requirement("B-33")),
    pytest.param({"agent.max_tool_iterations": 10}, id="B-39", marks=pytest.mark.requirement("B-39")),
    pytest.param({"agent.execution_timeout_ms": 600_000}, id="B-40", marks=pytest.mark.requirement("B-40")),
    pytest.param({"memory.flush.enabled": True}, id="B-57", marks=pytest.mark.requirement("B-57")),
    pytest.param({"queue.mode": "queue"}, id="B-65", marks=pytest.mark.requirement("B-65")),
    pytest.param({"context.reserve_floor": 4_000}, id="B-78", marks=pytest.mark.requirement("B-78")),
    pytest.param({"context.flush_threshold": 8_000}, id="B-79", marks=pytest.mark.requirement("B-79")),
    pytest.param({"agent.max_tool_iterations": 10}, id="B-80", marks=pytest.mark.requirement("B-80")),
    pytest.param({"agent.execution_timeout_ms": 600_000}, id="B-81", marks=pytest.mark.requirement("B-81")),
    pytest.param(
        {"timeouts.tool_info": 30.0, "timeouts.tool_edit": 30.0}, id="B-82", marks=pytest.mark.requirement("B-82")
    ),
    pytest.param({"lock.queue_timeout_ms": 30_000}, id="B-83", marks=pytest.mark.requirement("B-83")),
    pytest.param({"queue.max_depth": 10}, id="B-84", marks=pytest.mark.requirement("B-84")),
    pytest.param({"lock.lock_timeout_ms": 900_000}, id="B-85", marks=pytest.mark.requirement("B-85")),
    pytest.param({"retry.max_retries": 3}, id="B-86", marks=pytest.mark.requirement("B-86")),
    pytest.param({"retry.backoff_ms": 1_000}, id="B-87", marks=pytest.mark.requirement("B-87")),
    pytest.param({"approvals.ttl_secs": 300.0}, id="G-03", marks=pytest.mark.requirement("G-03")),
    pytest.param({"tools.max_parallel": 8}, id="G-04", marks=pytest.mark.requirement("G-04")),
    pytest.param({"timeouts.stop_grace": 10.0}, id="G-05", marks=pytest.mark.requirement("G-05")),
    pytest.param(
        {"access.dm": "pairing", "access.groups": "allowlist"}, id="G-12", marks=pytest.mark.requirement("G-12")
    ),
    pytest.param({"queue.merge_ms": 500}, id="G-13", marks=pytest.mark.requirement("G-13")),
    pytest.param({"scheduler.enabled": True}, id="G-14", marks=pytest.mark.requirement("G-14")),
    pytest.param(
        {"approvals.force": False, "approvals.auto_approve": False}, id="G-17", marks=pytest.mark.requirement("G-17")
    ),
    pytest.param({"session.idle_minutes": 30.0}, id="G-33", marks=pytest.mark.requirement("G-33")),
    pytest.param({"agent.compression.subgoal_config.enabled": True}, id="H-10", marks=pytest.mark.requirement("H-10")),
    pytest.param(
        {"memory.compression.subgoal_mig_mode": "subtractive"}, id="H-12", marks=pytest.mark.requirement("H-12")
    ),
    pytest.param({"context.microcompact.min_pressure": 0.0}, id="R-05", marks=pytest.mark.requirement("R-05")),
    pytest.param({"context.microcompact.retain_recent": 3}, id="R-07", marks=pytest.mark.requirement("R-07")),
    pytest.param({"memory.soft_compaction_threshold": 0.60}, id="R-08", marks=pytest.mark.requirement("R-08")),
    pytest.param({"memory.high_compaction_threshold": 0.75}, id="R-09", marks=pytest.mark.requirement("R-09")),
    pytest.param({"timeouts.llm_stream": 300.0}, id="R-18", marks=pytest.mark.requirement("R-18")),
    pytest.param({"tools.max_parallel": 8}, id="R-34", marks=pytest.mark.requirement("R-34")),
    pytest.param({"agent.step_budget": 200}, id="R-38", marks=pytest.mark.requirement("R-38")),
    pytest.param({"tools.max_parallel": 8}, id="R-52", marks=pytest.mark.requirement("R-52")),
    pytest.param({"plans.workflow.mode": "off"}, id="R-55", marks=pytest.mark.requirement("R-55")),
    pytest.param({"memory.style.enabled": True}, id="W-03", marks=pytest.mark.requirement("W-03")),
    pytest.param({"skills.learning.min_fit": 0.3}, id="W-05", marks=pytest.mark.requirement("W-05")),
    pytest.param({"memory.recall.facts": 6}, id="W-10", marks=pytest.mark.requirement("W-10")),
    pytest.param({"plans.workflow.mode": "off"}, id="W-17", marks=pytest.mark.requirement("W-17")),
    pytest.param({"agent.max_turns": None}, id="W-22", marks=pytest.mark.requirement("W-22")),
    pytest.param({"budget.max_cost_usd": 25.0}, id="W-23", marks=pytest.mark.requirement("W-23")),
    pytest.param({"context.emergency_buffer": 3_000}, id="W-24", marks=pytest.mark.requirement("W-24")),
    pytest.param({"mcp.top_k": 15}, id="W-33", marks=pytest.mark.requirement("W-33")),
    pytest.param({"retry.stream_retries": 2}, id="W-41", marks=pytest.mark.requirement("W-41")),
    pytest.param({"agent.max_tool_iterations": 10}, id="W-44", marks=pytest.mark.requirement("W-44")),
    pytest.param({"timeouts.tool_exec": 600.0}, id="W-45", marks=pytest.mark.requirement("W-45")),
    pytest.param({"timeouts.tool_mcp": 120.0}, id="W-46", marks=pytest.mark.requirement("W-46")),
    pytest.param({"timeouts.tool_info": 30.0}, id="W-47", marks=pytest.mark.requirement("W-47")),
    pytest.param({"approvals.auto_approve": False}, id="W-50", marks=pytest.mark.requirement("W-50")),
    pytest.param({"approvals.force": False}, id="W-51", marks=pytest.mark.requirement("W-51")),
    pytest.param({"skills.learning.drafting": True}, id="W-57", marks=pytest.mark.requirement("W-57")),
    pytest.param({"context.compaction": "safe"}, id="W-63", marks=pytest.mark.requirement("W-63")),
    pytest.param({"memory.style.enabled": True}, id="W-69", marks=pytest.mark.requirement("W-69")),
    pytest.param({"context.output_reserve": 20_000}, id="W-70", marks=pytest.mark.requirement("W-70")),
    pytest.param({"skills.max_active": 3}, id="Z-10", marks=pytest.mark.requirement("Z-10")),
    pytest.param({"tools.taco.target_tokens": 500}, id="Z-101", marks=pytest.mark.requirement("Z-101")),
    pytest.param(
        {"tools.taco.compressible_tools": ("shell", "web_scrape", "read")},
        id="Z-103",
        marks=pytest.mark.requirement("Z-103"),
    ),
    pytest.param({"tools.taco.enabled": False}, id="Z-104", marks=pytest.mark.requirement("Z-104")),
    pytest.param({"memory.recall.strategy": "auto"}, id="Z-11", marks=pytest.mark.requirement("Z-11")),
    pytest.param({"agent.goal.autonomous_turn_delay_ms": 500}, id="Z-118", marks=pytest.mark.requirement("Z-118")),
    pytest.param({"agent.goal.verify_interval": 5}, id="Z-120", marks=pytest.mark.requirement("Z-120")),
    pytest.param({"agent.goal.max_supervisor_fail_count": 3}, id="Z-124", marks=pytest.mark.requirement("Z-124")),
    pytest.param({"agent.goal.supervisor_timeout_secs": 30}, id="Z-125", marks=pytest.mark.requirement("Z-125")),
    pytest.param({"agent.goal.max_stuck_count": 3}, id="Z-126", marks=pytest.mark.requirement("Z-126")),
    pytest.param({"agent.goal.autonomous_max_turns": 50}, id="Z-127", marks=pytest.mark.requirement("Z-127")),
    pytest.param({"agent.goal.autonomous_enabled": False}, id="Z-128", marks=pytest.mark.requirement("Z-128")),
    pytest.param({"approvals.auto_approve": False}, id="Z-14", marks=pytest.mark.requirement("Z-14")),
    pytest.param({"timeouts.context_prep": 30.0}, id="Z-23", marks=pytest.mark.requirement("Z-23")),
    pytest.param({"timeouts.no_providers_backoff": 2.0}, id="Z-25", marks=pytest.mark.requirement("Z-25")),
    pytest.param({"context.tokenizer": "cl100k_base"}, id="Z-27", marks=pytest.mark.requirement("Z-27")),
    pytest.param({"memory.soft_compaction_threshold": 0.60}, id="Z-28", marks=pytest.mark.requirement("Z-28")),
    pytest.param({"memory.hard_compaction_threshold": 0.90}, id="Z-29", marks=pytest.mark.requirement("Z-29")),
    pytest.param({"retry.max_retries": 3}, id="Z-33", marks=pytest.mark.requirement("Z-33")),
    pytest.param({"tools.max_retries": 2}, id="Z-34", marks=pytest.mark.requirement("Z-34")),
    pytest.param(
        {"memory.compression.subgoal_mig_mode": "subtractive"}, id="Z-53", marks=pytest.mark.requirement("Z-53")
    ),
    pytest.param({"memory.focus.auto_consolidate_min_window": 4}, id="Z-61", marks=pytest.mark.requirement("Z-61")),
    pytest.param({"session.provider_persistence": True}, id="Z-68", marks=pytest.mark.requirement("Z-68")),
    pytest.param({"agent.goal.track_in_system_prompt": False}, id="Z-88", marks=pytest.mark.requirement("Z-88")),
    pytest.param(
        {"agent.goal.completion_phrases": ("task complete", "done", "finished", "completed")},
        id="Z-90",
        marks=pytest.mark.requirement("Z-90"),
    ),
    pytest.param({"agent.goal.enabled": True}, id="Z-94", marks=pytest.mark.requirement("Z-94")),
    pytest.param({"tools.taco.threshold": 2_000}, id="Z-99", marks=pytest.mark.requirement("Z-99")),
]


@pytest.mark.parametrize("shipped", SHIPPED)
def test_what_an_empty_configuration_means(shipped: dict[str, Any], tmp_path: Path) -> None:
    settings = load(environ={"TIELINE_HOME": str(tmp_path)})
    assert {key: attrgetter(key)(settings) for key in shipped} == shipped


ACCOUNTS = """
[[channels]]
type = "telegram"
token = "123456:token"
[[channels]]
type = "discord"
token = "discord-token"
[[channels]]
type = "slack"
app_token = "xapp-1"
bot_token = "xoxb-1"
[[llm.providers]]
name = "main"
type = "demo"
"""


@pytest.mark.requirement("G-11", "W-36")
def test_what_an_account_and_a_provider_mean_that_set_nothing(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(ACCOUNTS)
    settings = load(environ={"TIELINE_HOME": str(tmp_path)})
    intervals = [channel.stream_interval_ms for channel in settings.channels if hasattr(channel, "stream_interval_ms")]
    assert intervals == [3_000, 1_500, 2_000], "between two edits of a growing answer"
    assert settings.llm.providers[0].prompt_cache_ttl == "auto"


@pytest.mark.requirement("B-77", "G-06", "G-10", "G-27", "R-39", "R-54")
def test_what_is_no_setting() -> None:
    assert DEFAULT_WINDOW == 128_000, "tokens, where nobody knows a model's window"
    assert Timing().most_turns == 200, "at once, in a process"
    assert TEXT_LIMIT == 4_000, "characters of a message on Slack"
    assert DRAIN_S == 30.0, "for the turns that run when the process is told to end"
    assert TIMEOUT_S == 120.0, "seconds, for one errand of a sub-agent"
