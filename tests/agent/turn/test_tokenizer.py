"""Real token counts without a network (Z-27)."""

import inspect
import os
import re
import subprocess
import sys
from hashlib import sha1, sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after, move_on_after

from agent.core.events import ContextBuilt, Published
from agent.core.ids import ConversationId
from agent.providers.tiktokens import FOLDER, VOCABULARIES, counter
from agent.turn.tokenizer import Tokenizer
from agent.turn.tokens import count_by_bytes

openai_public: Any = import_module("tiktoken_ext.openai_public")  # has no types

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


@pytest.mark.parametrize("encoding", VOCABULARIES)
def test_a_vocabulary_of_the_package_is_the_one_that_tiktoken_would_download(encoding: str) -> None:
    """With its address and its contents, so that nothing is downloaded."""
    name, digest = VOCABULARIES[encoding]
    asked = inspect.getsource(getattr(openai_public, encoding))
    (address,) = re.findall(r"https://\S+\.tiktoken", asked)
    assert name == sha1(address.encode(), usedforsecurity=False).hexdigest()
    assert digest in asked
    assert sha256((FOLDER / name).read_bytes()).hexdigest() == digest


def test_a_damaged_vocabulary_is_refused_and_stays(tmp_path: Path) -> None:
    """tiktoken would remove it and ask the network for another."""
    name, _ = VOCABULARIES["cl100k_base"]
    damaged = (FOLDER / name).read_bytes()[:-1]
    (tmp_path / name).write_bytes(damaged)
    with pytest.raises(OSError, match="is damaged; install Tieline again"):
        counter("cl100k_base", tmp_path)
    assert (tmp_path / name).read_bytes() == damaged


def test_a_folder_of_the_host_is_no_reason_to_download(tmp_path: Path) -> None:
    """Each look at a network ends the script."""
    script = (
        "import socket; socket.getaddrinfo = socket.create_connection = None;"
        "from agent.providers.tiktokens import counter; print(counter('cl100k_base')('hello world'))"
    )
    environ = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["2"]
    assert not list(tmp_path.iterdir())
