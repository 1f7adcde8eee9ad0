"""Real token counts without a network (Z-27)."""

import subprocess
import sys

import pytest
from anyio import fail_after, move_on_after

from agent.core.events import ContextBuilt, Published
from agent.core.ids import ConversationId
from agent.turn.tokenizer import Tokenizer
from agent.turn.tokens import count_by_bytes

TEXT = "The quick brown fox jumps over the lazy dog. Übung macht den Meister 🙂"


@pytest.mark.requirement("Z-27")
async def test_tokens_are_counted_by_a_real_tokenizer() -> None:
    tokenizer = Tokenizer("cl100k_base")
    assert tokenizer(TEXT) == count_by_bytes(TEXT), "before it is loaded: from bytes"
    await tokenizer.warm_up()
    assert tokenizer.is_exact
    assert tokenizer("hello world") == 2
    assert tokenizer("<|endoftext|>") > 1, "text of a person is never a control token"
    assert tokenizer(TEXT) == 17


async def test_a_context_that_fills_a_quarter_of_its_window_asks_for_it() -> None:
    def built(tokens: int) -> Published:
        return Published(1, ContextBuilt(conversation=ConversationId("console:1"), token_estimate=tokens, window=8_000))

    tokenizer = Tokenizer("cl100k_base")
    tokenizer.heed(built(1_999))
    with move_on_after(0) as early:
        await tokenizer.wait_needed()
    assert early.cancelled_caught, "a small context needs no exact count, which takes 40 MB"
    tokenizer.heed(built(2_000))
    with fail_after(1):
        await tokenizer.wait_needed()


async def test_whoever_wants_bytes_gets_bytes() -> None:
    tokenizer = Tokenizer("bytes")
    await tokenizer.warm_up()
    assert not tokenizer.is_exact


async def test_without_a_vocabulary_the_estimate_stays(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = Tokenizer("no_such_base")  # type: ignore[arg-type]
    await tokenizer.warm_up()
    assert tokenizer(TEXT) == count_by_bytes(TEXT)
    assert "estimated from bytes" in caplog.text


def test_it_is_loaded_only_when_it_is_asked_for() -> None:
    script = "import sys, agent.assembly; print([name for name in ('tiktoken', 'litellm') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
