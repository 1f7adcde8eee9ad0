"""A real server of Chat Completions, as it is: `TIELINE_FOREIGN_MODEL` is its base_url, with the model after a blank.

Tried so with llama-cpp-python's server, a window of 2,048 tokens and a model of random weights, which says nothing that
means anything: what counts is that each request is taken.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import AgentError, ContextTooLong, ProviderRefused
from agent.providers.models import KnownModels
from agent.providers.provider import Done
from agent.providers.registry import LazyProvider, ProviderDeps, may_be_too_long
from agent.providers.settings import ProviderSettings
from tests.contracts.provider_contract import asks, hear
from tests.dialects.quirk import Asks, request_of

WHERE = "TIELINE_FOREIGN_MODEL"
pytestmark = pytest.mark.skipif(not os.environ.get(WHERE), reason=f"{WHERE} names no server")


def opened(home: Path, **more: object) -> LazyProvider:
    url, _, model = os.environ[WHERE].partition(" ")
    settings = {
        "name": "main",
        "type": "openai",
        "model": model or "default",
        "base_url": url,
        "max_tokens": 12,
        **more,
    }
    made = ProviderSettings(api_key=SecretStr("k"), **settings)  # type: ignore[arg-type]
    return LazyProvider(made, ProviderDeps(home=home, clock=SystemClock(), models=KnownModels()))


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LazyProvider]:
    made = opened(tmp_path)
    yield made
    await made.aclose()


@pytest.mark.parametrize("kind", ["words", "tool", "after a call", "picture", "twice"])
async def test_every_kind_of_request_is_answered(provider: LazyProvider, tmp_path: Path, kind: Asks) -> None:
    heard = await hear(provider, request_of(kind, tmp_path))
    assert heard.error is None
    assert isinstance(heard.chunks[-1], Done)


async def test_what_is_too_long_is_known_as_such(provider: LazyProvider) -> None:
    heard = await hear(provider, asks("word " * 400_000))
    assert isinstance(heard.error, AgentError)
    assert isinstance(heard.error, ContextTooLong) or may_be_too_long(heard.error)


async def test_a_wrong_address_is_told(tmp_path: Path) -> None:
    url, _, _ = os.environ[WHERE].partition(" ")
    wrong = opened(tmp_path, base_url=url.removesuffix("/v1") + "/nowhere")
    heard = await hear(wrong, asks("hello"))
    await wrong.aclose()
    assert isinstance(heard.error, ProviderRefused)
    assert "check model and base_url" in str(heard.error)
