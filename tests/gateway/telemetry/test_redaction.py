"""No secret leaves through a log line, a trace or an error."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.failures import Answer, classify
from gateway.channels.adapter import TokenForm
from gateway.channels.entry_points import installed, token_forms
from gateway.telemetry.logging import Human, Json, Redaction, set_up
from gateway.telemetry.redaction import MASK, PIECE, Redactor, found_in, looks_like

FORMS = token_forms(installed())
TELEGRAM = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"
SLACK = "xoxb-12345678901-abcdefghijkl"
DISCORD = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param(f"POST https://api.telegram.org/bot{TELEGRAM}/getMe", TELEGRAM.split(":")[1], id="telegram"),
        pytest.param(f"token {SLACK} refused", "12345678901-abcdefghijkl", id="slack bot"),
        pytest.param("xapp-1-A012-345-deadbeef00", "A012-345-deadbeef00", id="slack app"),
        pytest.param(f"Authorization: Bot {DISCORD}", DISCORD, id="discord"),
        pytest.param("sk-ant-api03-abcdefghijklmnop", "abcdefghijklmnop", id="anthropic"),
        pytest.param("Incorrect API key provided: sk-proj-abcdefghijklmnop1", "abcdefghijklmnop1", id="openai"),
        pytest.param("key AIzaSyA1234567890abcdefghijklmnopqrstuv", "SyA1234567890", id="google"),
        pytest.param("ghp_abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnop", id="github"),
        pytest.param("headers {'authorization': 'Bearer abc.def-ghi123'}", "abc.def-ghi123", id="bearer in a dict"),
        pytest.param('{"x-api-key": "hunter2hunter2"}', "hunter2hunter2", id="header in JSON"),
        pytest.param("signing_secret=8f742231b10e8888abcd99yyyzzz85a5", "8f742231b10e", id="setting"),
        pytest.param("postgresql://tieline:s3cret-pw@db/tieline", "s3cret-pw", id="password in a URL"),
        pytest.param("http://127.0.0.1:8080/sign-in?code=Zm9vYmFyYmF6", "Zm9vYmFyYmF6", id="sign-in link"),
        pytest.param("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.dozjgNryP4J3j", "dozjgNryP4J3j", id="JSON web token"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(text: str, secret: str) -> None:
    redacted = Redactor((), FORMS)(text)
    assert secret not in redacted
    assert MASK in redacted


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize(
    "token",
    [
        f"123456:{'a' * 30}",
        f"xoxb-{'a' * 8}",
        f"sk-{'a' * 16}",
        f"AIza{'a' * 30}",
        f"ghp_{'a' * 20}",
        f"AKIA{'A' * 16}",
        f"M{'a' * 22}.{'a' * 6}.{'a' * 27}",
        f"eyJ{'a' * 10}.{'a' * 10}.a",
    ],
)
def test_the_shortest_token_of_each_kind_is_found_in_what_people_read(token: str) -> None:
    ((start, end, instead),) = Redactor((), FORMS).found(f"it is {token} !")
    assert (start, end) == (6, 6 + len(token))
    assert MASK in instead


@pytest.mark.parametrize(
    "text",
    [
        "the turn took 12:30:45 and used 1,234 tokens",
        "ratio 16:9, see https://example.org/path?page=2",
        "Bearer of bad news",
        "conversation telegram:123456789",
        "a basic question",
        "skip sk-8",
        'api_key is missing: set api_key = "env:ANTHROPIC_API_KEY"',
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert Redactor((), FORMS)(text) == text


@pytest.mark.parametrize("reason", ["Incorrect API key provided.", "invalid x-api-key", "Authentication failed"])
def test_why_a_provider_refused_stays_and_the_key_it_repeats_does_not(reason: str) -> None:
    key = "sk-proj-abcdefghijklmnop1"
    refused = str(classify("main", Answer(status=401, message=f"{reason} {key}")))
    assert reason in Redactor()(refused)
    assert key not in Redactor()(refused)


@pytest.mark.requirement("G-28")
@given(secret=st.text(min_size=6, max_size=40), before=st.text(max_size=20), after=st.text(max_size=20))
def test_a_secret_of_the_configuration_is_masked_wherever_it_stands(secret: str, before: str, after: str) -> None:
    if secret in MASK or secret in before + after:
        return
    assert secret not in Redactor([secret])(f"{before}{secret}{after}").replace(MASK, "\0")


@pytest.mark.requirement("G-28")
def test_a_secret_in_a_url_is_masked_too() -> None:
    assert "p%40ss%2Fword" not in Redactor(["p@ss/word"])("https://x/?q=p%40ss%2Fword")


def test_a_part_of_another_secret_does_not_uncover_the_rest() -> None:
    assert Redactor(["abcdef", "abcdefghij"])("abcdefghij") == MASK


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = set_up(level="DEBUG", format="json", redact=Redactor(["top-secret"], FORMS), stream=stream)
    yield stream
    logging.getLogger().removeHandler(handler)


@pytest.mark.requirement("G-28")
def test_message_arguments_extras_and_exceptions_are_covered(lines: io.StringIO) -> None:
    log = logging.getLogger("tieline.test")
    try:
        raise ValueError(f"refused: {TELEGRAM} and top-secret")
    except ValueError:
        extra = {"detail": "top-secret", "count": 3, "why": ValueError("top-secret"), "tried": ["top-secret"]}
        log.exception("with %s and %r", "top-secret", {"token": SLACK}, extra=extra)
    text = lines.getvalue()
    assert all(secret not in text for secret in ("top-secret", TELEGRAM.split(":")[1], "abcdefghijkl"))
    line = json.loads(text)
    assert (line["level"], line["count"], line["detail"]) == ("error", 3, MASK)
    assert "ValueError: refused" in line["exception"]


@pytest.mark.requirement("G-28")
def test_a_chained_exception_is_covered(lines: io.StringIO) -> None:
    try:
        try:
            raise ConnectionError(f"https://api.telegram.org/bot{TELEGRAM}/getUpdates")
        except ConnectionError as error:
            raise RuntimeError("polling failed") from error
    except RuntimeError:
        logging.getLogger("telegram.ext").exception("again")
    assert TELEGRAM not in lines.getvalue()
    assert "ConnectionError" in lines.getvalue()


def test_a_wrong_format_string_does_not_lose_the_line(lines: io.StringIO) -> None:
    logging.getLogger("tieline.test").warning("%d messages", "many")
    assert "many" in json.loads(lines.getvalue())["message"]


def test_people_get_a_line_they_can_read() -> None:
    record = logging.makeLogRecord(
        {
            "name": "tieline.turn",
            "levelno": 30,
            "levelname": "WARNING",
            "msg": "slow",
            "conversation": "web:a:b",
            "run": None,
        }
    )
    Redaction(Redactor()).filter(record)
    assert Human().format(record).endswith("warning  turn: slow  conversation=web:a:b")


def test_a_line_break_cannot_fake_a_line_of_its_own(lines: io.StringIO) -> None:
    logging.getLogger("tieline.test").info('hello\n{"level": "error"}')
    assert len(lines.getvalue().splitlines()) == 1
    record = logging.makeLogRecord({"name": "x", "msg": "a\nb", "levelname": "INFO"})
    assert "\n    b" in Human().format(record)
    assert json.loads(Json().format(record))["message"] == "a\nb"


@pytest.mark.requirement("G-28")
def test_no_later_handler_can_format_the_exception_anew() -> None:
    try:
        raise ValueError("top-secret")
    except ValueError as error:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": (type(error), error, error.__traceback__)})
    Redaction(Redactor(["top-secret"])).filter(record)
    assert "top-secret" not in logging.Formatter().format(record)
    assert record.exc_info is None


@given(st.lists(st.sampled_from([
    SLACK, DISCORD, TELEGRAM, "a secret of ours", "Bearer abc1234567890xyz", "password: hunter22", "https://a:b3c@d.e",
    "a" * 20_000, "-" * 9_000, " ", "\n", "x", "eyJ", "AKIA" + "A" * 16, "sk-" + "b" * 3_000,
]), max_size=30))  # fmt: skip
def test_a_long_text_is_searched_in_pieces_and_nothing_is_missed(pieces: list[str]) -> None:
    text = " ".join(pieces)
    for pattern in (looks_like(FORMS), re.compile("a secret of ours")):
        assert [match.span() for match in found_in(pattern, text)] == [match.span() for match in pattern.finditer(text)]


def test_a_secret_longer_than_a_piece_is_taken_out_whole() -> None:
    token = "xoxb-" + "1a" * PIECE
    assert Redactor((), FORMS)(f"{'word ' * PIECE}{token} and more") == f"{'word ' * PIECE}xoxb{MASK} and more"


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize(
    ("token", "shown"),
    [(TELEGRAM, "123456789:"), (SLACK, "xoxb"), (DISCORD, "M")],
    ids=["telegram", "slack", "discord"],
)
def test_the_token_of_a_platform_is_masked_while_it_arrives_and_its_beginning_tells_which_it_was(
    token: str, shown: str
) -> None:
    redactor = Redactor((), FORMS)
    assert redactor(f"it is {token}.") == f"it is {shown}{MASK}."
    assert redactor.begun(f"it is {token[:-20]}") == 6


def test_another_adapter_declares_the_form_of_its_tokens() -> None:
    form = TokenForm("z", r"\bzulip_", "[a-z0-9]{16,}", "zulip_[a-z0-9]*")
    text = "with zulip_0123456789abcdef refused"
    assert Redactor((), (*FORMS, form))(text) == f"with zulip_{MASK} refused"
    assert Redactor((), FORMS)(text) == text
    with pytest.raises(ValueError, match=r"write the groups of a token's form as \(\?:"):
        Redactor((), (TokenForm("z", "(zulip)_", "[a-z0-9]{16,}", "zulip_"),))
