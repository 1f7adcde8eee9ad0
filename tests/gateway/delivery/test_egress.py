"""Secrets do not leave the gateway, however they are written and wherever a stream is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.entry_points import installed, token_forms
from gateway.channels.plain_text import as_text
from gateway.delivery.egress import JOINER, Guard, untracked
from gateway.delivery.rendering.growing import Growing
from gateway.delivery.rendering.markdown import parse
from gateway.telemetry.redaction import Redactor
from tests.fakes.readable import readable

SECRET = "hunter2-correct_horse"
TOKEN = "sk-ant-abcdefghijklmnopqrstuvwxyz0123"
REDACTOR = Redactor([SECRET], token_forms(installed()))
GUARD = Guard(REDACTOR.found, REDACTOR.begun)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(f"it is {SECRET}!", "it is [redacted]!", id="a secret of ours"),
        pytest.param(f"`{SECRET}`", "[redacted]", id="as code"),
        pytest.param(f"```\nkey={SECRET}\n```", "```\nkey=[redacted]\n```", id="in a block of code"),
        pytest.param("hunter2-**correct**\\_horse", "[redacted]", id="partly bold"),
        pytest.param("hunter2-\u200bcorrect\u2060\\_horse", "[redacted]", id="with letters nobody sees"),
        pytest.param(
            f"[look](https://a.example/?q={SECRET})", "[look](https://a.example/?q=[redacted])", id="in a link"
        ),
        pytest.param(
            f"![x](https://a.example/{SECRET}.png)", "[x](https://a.example/[redacted].png)", id="in a picture"
        ),
        pytest.param(f"| a |\n| - |\n| {SECRET} |", "| a |\n| --- |\n| [redacted] |", id="in a table"),
        pytest.param(f"> - {SECRET}", "> - [redacted]", id="in a quoted list"),
        pytest.param(f"try {TOKEN}", "try sk-ant-[redacted]", id="what has the shape of a key"),
        pytest.param("123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "123456789:[redacted]", id="a bot's token"),
        pytest.param("a password: correct-horse", "a password: correct-horse", id="words are no secret"),
        pytest.param("hello @everyone and @here", f"hello @{JOINER}everyone and @{JOINER}here", id="calls to all"),
        pytest.param("\\<!channel>", f"<{JOINER}!channel>", id="Slack's own form"),
        pytest.param("me@everyone.example", f"me@{JOINER}everyone.example", id="an address pays for it"),
        pytest.param("all @hereford", "all @hereford", id="a name is none"),
        pytest.param("https://a.example/p?utm_source=x&id=7", "https://a.example/p?id=7", id="who follows the link"),
    ],
)
def test_what_leaves(text: str, left: str) -> None:
    guarded = GUARD.document(parse(text))
    assert as_text(guarded) == left
    assert GUARD.document(guarded) == guarded, "twice is once"


@pytest.mark.requirement("G-28")
@given(st.text(alphabet="ab *_`-\n", max_size=20), st.text(alphabet="cd *\n", max_size=20), st.integers(0, 80))
def test_no_frame_of_a_growing_answer_shows_the_beginning_of_a_secret(before: str, after: str, cut: int) -> None:
    text = f"{before} {SECRET} {after}"
    shown = readable(Growing(4096, lambda document: len(readable(document)), GUARD).frame(text[:cut]))
    assert SECRET[:4] not in shown


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize("secret", [SECRET, TOKEN, "xoxb-1234567890-abcdef", "ghp_abcdefghijklmnopqrstuvwxyz"])
def test_whatever_the_chunks_are(secret: str) -> None:
    text = f"The value is {secret} as you know."
    for end in range(len(text) + 1):
        assert secret[5:9] not in GUARD.text(GUARD.growing(text[:end])), text[:end]
    assert GUARD.growing(text) == text


@pytest.mark.parametrize(
    ("address", "left"),
    [
        ("https://a.example/p?a=1&gclid=2&b=%20c", "https://a.example/p?a=1&b=+c"),
        ("https://a.example/p?a=1&b=%20c", "https://a.example/p?a=1&b=%20c"),
        ("https://a.example/?FBCLID=1", "https://a.example/"),
        ("https://a.example/?odd", "https://a.example/?odd"),
        ("https://[broken", "https://[broken"),
    ],
)
def test_links_keep_what_they_need(address: str, left: str) -> None:
    assert untracked(address) == left


def test_ordinary_words_are_the_very_same() -> None:
    document = parse("Some **words**, a [link](https://a.example/x?y=1) and `code`.\n\n- one\n- two")
    assert GUARD.document(document) == document
