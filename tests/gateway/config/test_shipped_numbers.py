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

SHIPPED: dict[str, dict[str, Any]] = {
    "B-33": {"timeouts.llm_stream": 300.0},
    "B-39": {"agent.max_tool_iterations": 10},
    "B-40": {"agent.execution_timeout_ms": 600_000},
    "B-57": {"memory.flush.enabled": True},
    "B-65": {"queue.mode": "queue"},
    "B-78": {"context.reserve_floor": 4_000},
    "B-79": {"context.flush_threshold": 8_000},
    "B-80": {"agent.max_tool_iterations": 10},
    "B-81": {"agent.execution_timeout_ms": 600_000},
    "B-82": {"timeouts.tool_info": 30.0, "timeouts.tool_edit": 30.0},
    "B-83": {"lock.queue_timeout_ms": 30_000},
    "B-84": {"queue.max_depth": 10},
    "B-85": {"lock.lock_timeout_ms": 900_000},
    "B-86": {"retry.max_retries": 3},
    "B-87": {"retry.backoff_ms": 1_000},
    "G-03": {"approvals.ttl_secs": 300.0},
    "G-04": {"tools.max_parallel": 8},
    "G-05": {"timeouts.stop_grace": 10.0},
    "G-12": {"access.dm": "pairing", "access.groups": "allowlist"},
    "G-13": {"queue.merge_ms": 500},
    "G-14": {"scheduler.enabled": True},
    "G-17": {"approvals.force": False, "approvals.auto_approve": False},
    "G-33": {"session.idle_minutes": 30.0},
    "H-10": {"agent.compression.subgoal_config.enabled": True},
    "H-12": {"memory.compression.subgoal_mig_mode": "subtractive"},
    "R-05": {"context.microcompact.min_pressure": 0.0},
    "R-07": {"context.microcompact.retain_recent": 3},
    "R-08": {"memory.soft_compaction_threshold": 0.60},
    "R-09": {"memory.high_compaction_threshold": 0.75},
    "R-18": {"timeouts.llm_stream": 300.0},
    "R-34": {"tools.max_parallel": 8},
    "R-38": {"agent.step_budget": 200},
    "R-52": {"tools.max_parallel": 8},
    "R-55": {"plans.workflow.mode": "off"},
    "W-03": {"memory.style.enabled": True},
    "W-05": {"skills.learning.min_fit": 0.3},
    "W-10": {"memory.recall.facts": 6},
    "W-17": {"plans.workflow.mode": "off"},
    "W-22": {"agent.max_turns": None},
    "W-23": {"budget.max_cost_usd": 25.0},
    "W-24": {"context.emergency_buffer": 3_000},
    "W-33": {"mcp.top_k": 15},
    "W-41": {"retry.stream_retries": 2},
    "W-44": {"agent.max_tool_iterations": 10},
    "W-45": {"timeouts.tool_exec": 600.0},
    "W-46": {"timeouts.tool_mcp": 120.0},
    "W-47": {"timeouts.tool_info": 30.0},
    "W-50": {"approvals.auto_approve": False},
    "W-51": {"approvals.force": False},
    "W-57": {"skills.learning.drafting": True},
    "W-63": {"context.compaction": "safe"},
    "W-69": {"memory.style.enabled": True},
    "W-70": {"context.output_reserve": 20_000},
    "Z-10": {"skills.max_active": 3},
    "Z-101": {"tools.taco.target_tokens": 500},
    "Z-103": {"tools.taco.compressible_tools": ("shell", "web_scrape", "read")},
    "Z-104": {"tools.taco.enabled": False},
    "Z-11": {"memory.recall.strategy": "auto"},
    "Z-118": {"agent.goal.autonomous_turn_delay_ms": 500},
    "Z-120": {"agent.goal.verify_interval": 5},
    "Z-124": {"agent.goal.max_supervisor_fail_count": 3},
    "Z-125": {"agent.goal.supervisor_timeout_secs": 30},
    "Z-126": {"agent.goal.max_stuck_count": 3},
    "Z-127": {"agent.goal.autonomous_max_turns": 50},
    "Z-128": {"agent.goal.autonomous_enabled": False},
    "Z-14": {"approvals.auto_approve": False},
    "Z-23": {"timeouts.context_prep": 30.0},
    "Z-25": {"timeouts.no_providers_backoff": 2.0},
    "Z-27": {"context.tokenizer": "cl100k_base"},
    "Z-28": {"memory.soft_compaction_threshold": 0.60},
    "Z-29": {"memory.hard_compaction_threshold": 0.90},
    "Z-33": {"retry.max_retries": 3},
    "Z-34": {"tools.max_retries": 2},
    "Z-53": {"memory.compression.subgoal_mig_mode": "subtractive"},
    "Z-61": {"memory.focus.auto_consolidate_min_window": 4},
    "Z-68": {"session.provider_persistence": True},
    "Z-88": {"agent.goal.track_in_system_prompt": False},
    "Z-90": {"agent.goal.completion_phrases": ("task complete", "done", "finished", "completed")},
    "Z-94": {"agent.goal.enabled": True},
    "Z-99": {"tools.taco.threshold": 2_000},
}


@pytest.mark.parametrize(
    "shipped", [pytest.param(shipped, id=id, marks=pytest.mark.requirement(id)) for id, shipped in SHIPPED.items()]
)
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
