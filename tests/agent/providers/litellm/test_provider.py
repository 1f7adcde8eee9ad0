"""litellm: quiet, offline, and nothing of it stays behind in the interpreter."""

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from tests.contracts.provider_contract import KEY, asks, hear
from tests.fakes.llm_server import serving_llm

# Each with the distribution that brings it; anything else runs at every start of the interpreter, as a malicious
# release of litellm once did.
KNOWN_PTH = {
    "_editable_impl_tieline.pth": "tieline, installed for development",
    "a1_coverage.pth": "coverage, of pytest-cov",
    "distutils-precedence.pth": "setuptools",
    "_virtualenv.pth": "virtualenv",
}


def test_nothing_foreign_runs_at_every_start_of_python() -> None:
    site = Path(sysconfig.get_path("purelib"))
    assert {path.name for path in site.glob("*.pth")} <= set(KNOWN_PTH)


@pytest.mark.parametrize(("thinking", "configured", "sent"), [(2048, None, 6144), (2048, 9000, 9000), ("off", 50, 50)])
async def test_what_is_set_aside_for_an_answer_is_what_is_asked_for(
    tmp_path: Path, thinking: Any, configured: int | None, sent: int
) -> None:
    async with serving_llm() as server:
        settings = ProviderSettings(
            name="main",
            type="litellm",
            model="anthropic/claude-sonnet-4-5",
            base_url=server.url,
            api_key=SecretStr(KEY),
            thinking=thinking,
            max_tokens=configured,
        )
        provider = LazyProvider(settings, ProviderDeps(home=tmp_path, clock=SystemClock()))
        assert (await hear(provider, asks("hi"))).error is None
        assert server.bodies[0]["max_tokens"] == provider.max_tokens == sent
        await provider.aclose()


@pytest.mark.requirement("G-28")
def test_loading_and_warming_up_never_touch_the_network_and_print_nothing() -> None:
    script = """
import sys
from pathlib import Path
import anyio
reached = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        reached.append(args)
sys.addaudithook(watch)
from agent.core.clock import SystemClock
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
async def main():
    settings = ProviderSettings(name="main", type="litellm", model="gemini/gemini-2.5-pro")
    provider = LazyProvider(settings, ProviderDeps(home=Path("."), clock=SystemClock()))
    await provider.warm_up()
    await provider.aclose()
    assert provider.context_window == 1_048_576, provider.context_window
    assert "image/png" in provider.takes
anyio.run(main)
from tiktoken.registry import ENCODINGS
assert "o200k_base" not in ENCODINGS, "the vocabulary of another vendor takes 70 MB"
print("reached", reached)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "reached []\n"
    assert "hello" not in done.stderr
