"""Only Slack can sign for Slack."""

import pytest

from adapters.slack.webhook import refusal, signature
from tests.doubles.slack_api import sign

NOW = 1531420618.0
BODY = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J"


def test_the_example_of_the_documentation() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name="
        b"foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks"
        b".slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121"
        b".803a0bc887a14d10d2c447fce8b6703c"
    )
    expected = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert signature("8f742231b10e8888abcd99yyyzzz85a5", body, "1531420618") == expected


def test_the_double_signs_as_we_check() -> None:
    headers = sign("secret", BODY.decode(), int(NOW))
    assert (
        refusal(
            "secret",
            BODY,
            timestamp=headers["X-Slack-Request-Timestamp"],
            signed=headers["X-Slack-Signature"],
            now=NOW + 299,
        )
        is None
    )


@pytest.mark.parametrize(
    ("timestamp", "signed", "now", "why"),
    [
        pytest.param(None, "v0=x", NOW, "unsigned", id="no time"),
        pytest.param("1531420618", None, NOW, "unsigned", id="no signature"),
        pytest.param("1531420618", "v0=00", NOW, "wrong signature", id="forged"),
        pytest.param("1531420618", "v0=ü", NOW, "wrong signature", id="not ASCII"),
        pytest.param("1531420618", "v0=00", NOW + 301, "too old", id="replayed"),
        pytest.param("1531420618", "v0=00", NOW - 301, "too old", id="from the future"),
        pytest.param("soon", "v0=00", NOW, "too old", id="no number"),
        pytest.param("१५३", "v0=00", NOW, "too old", id="digits of another script"),
    ],
)
def test_refused(timestamp: str | None, signed: str | None, now: float, why: str) -> None:
    found = refusal("secret", BODY, timestamp=timestamp, signed=signed, now=now)
    assert found is not None
    assert found.startswith(why)
