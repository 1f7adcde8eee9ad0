"""A level of thinking as the Messages API takes it, and what is learned where it does not."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.messages import text_message
from agent.providers.anthropic.requests import budget_for
from agent.providers.provider import Reasoning, Request, SystemPrompt
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from tests.fakes.llm_server import LlmServer

pytestmark = pytest.mark.requirement("Z-148")

OLDER = "claude-3-7-sonnet-20250219"  # takes budgets
ADAPTIVE = "claude-opus-4-7"


async def sent(llm: LlmServer, home: Path, level: Reasoning | None, **more: Any) -> dict[str, Any]:
    """The body of the last request of a call with that level."""
    values: dict[str, Any] = {"type": "anthropic", "model": OLDER, "base_url": llm.url, "api_key": SecretStr("k")}
    own = ProviderSettings(name="main", **values | more)
    provider = LazyProvider(own, ProviderDeps(home=home, clock=SystemClock()))
    request = Request(system=SystemPrompt("s"), messages=(text_message("user", "hello"),), reasoning=level)
    try:
        async with aclosing(provider.stream(request)) as chunks:
            async for _ in chunks:
                pass
    finally:
        await provider.aclose()
    return dict(llm.bodies[-1])


@pytest.mark.parametrize(("level", "budget"), [("low", 2_048), ("medium", 8_192), ("high", 16_384)])
async def test_a_level_is_a_budget_beside_the_answer(
    llm: LlmServer, tmp_path: Path, level: Reasoning, budget: int
) -> None:
    body = await sent(llm, tmp_path, level, max_tokens=4_000, temperature=0.5)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == 4_000 + budget
    assert "temperature" not in body


async def test_off_leaves_out_what_is_configured_and_nothing_chosen_keeps_it(llm: LlmServer, tmp_path: Path) -> None:
    assert "thinking" not in await sent(llm, tmp_path, "off", thinking=5_000)
    assert (await sent(llm, tmp_path, None, thinking=5_000))["thinking"]["budget_tokens"] == 5_000


async def test_a_model_that_adapts_is_given_an_effort(llm: LlmServer, tmp_path: Path) -> None:
    body = await sent(llm, tmp_path, "high", model=ADAPTIVE)
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        pytest.param("thinking: this model does not support extended thinking", None, id="does not think"),
        pytest.param(
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.',
            {"type": "adaptive"},
            id="finds its budget itself",
        ),
    ],
)
async def test_a_refusal_is_heeded_at_once(
    llm: LlmServer, tmp_path: Path, refusal: str, expected: dict[str, Any] | None
) -> None:
    llm.fails(kind="error", status=400, message=refusal)
    assert (await sent(llm, tmp_path, "low")).get("thinking") == expected
    assert len(llm.calls) == 2


async def test_a_model_may_take_neither_budget_nor_effort(llm: LlmServer, tmp_path: Path) -> None:
    words = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'
    llm.fails(kind="error", status=400, message=words)
    llm.fails(kind="error", status=400, message="output_config.effort: this model takes no effort")
    body = await sent(llm, tmp_path, "low")
    assert (body["thinking"], "output_config" in body) == ({"type": "adaptive"}, False)
    assert len(llm.calls) == 3


async def test_a_model_that_does_not_adapt_after_all_does_not_think(llm: LlmServer, tmp_path: Path) -> None:
    llm.fails(kind="error", status=400, message="adaptive thinking is not supported on this model")
    assert "thinking" not in await sent(llm, tmp_path, "high", model=ADAPTIVE)


@pytest.mark.parametrize(
    ("limit", "ceiling", "budget"),
    [
        pytest.param(None, None, 8_192, id="nothing bounds it"),
        pytest.param(4_096, 64_000, 3_072, id="a limit of the answer leaves room for it"),
        pytest.param(None, 8_192, 7_168, id="the model writes less"),
        pytest.param(2_000, None, "off", id="no room"),
    ],
)
def test_the_budget_of_a_level(limit: int | None, ceiling: int | None, budget: int | str) -> None:
    assert budget_for("medium", limit, ceiling) == budget
