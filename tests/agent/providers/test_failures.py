"""Errors made of services' answers."""

import pytest

from agent.core.errors import (
    AgentError,
    ContextTooLong,
    KeyRefused,
    ProviderBusy,
    ProviderRefused,
    QuotaUsedUp,
    RequestFiltered,
    RequestInvalid,
)
from agent.providers.failures import LONGEST, Answer, classify, clean, read_error, retry_after


@pytest.mark.requirement("Z-33")
@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(status=429), ProviderBusy, "rate limited"),
        (Answer(status=429, code="insufficient_quota"), QuotaUsedUp, "quota"),
        (Answer(status=529, kind="overloaded_error"), ProviderBusy, "overloaded"),
        (Answer(status=200, kind="overloaded_error"), ProviderBusy, "overloaded"),
        (Answer(status=408), ProviderBusy, "408"),
        (Answer(status=599), ProviderBusy, "599"),
        (Answer(status=401), KeyRefused, "check the api_key"),
        (Answer(status=402), QuotaUsedUp, "paid"),
        (Answer(status=403), KeyRefused, "permissions"),
        (Answer(status=404), ProviderRefused, "check model and base_url"),
        (Answer(status=302), ProviderRefused, "302"),
        (Answer(status=413), ContextTooLong, "larger"),
        (Answer(status=400, code="context_length_exceeded"), ContextTooLong, "larger"),
        (Answer(status=400, message="prompt is too long: 9 > 8"), ContextTooLong, "larger"),
        (Answer(status=400, message="Input is too long for requested model"), ContextTooLong, "larger"),
        (Answer(status=400, message="the request exceeds the available context size"), ContextTooLong, "larger"),
        (Answer(status=400, message="exceeds the maximum number of tokens allowed"), ContextTooLong, "larger"),
        (
            Answer(status=400, message="The decoder prompt (length 9) is longer than the maximum model length of 8."),
            ContextTooLong,
            "larger",
        ),
        (
            Answer(
                status=400, message="The prompt (total length 9) is too long to fit into the model (context length 8)."
            ),
            ContextTooLong,
            "larger",
        ),
        (
            Answer(status=400, message="The input (9 tokens) is longer than the model's context length (8 tokens)."),
            ContextTooLong,
            "larger",
        ),
        (
            Answer(status=400, message="prompt too long; exceeded max context length by 4 tokens"),
            ContextTooLong,
            "larger",
        ),
        (Answer(status=422, message="`inputs` tokens + `max_new_tokens` must be <= 8192"), ContextTooLong, "larger"),
        (
            Answer(status=400, message="This model's maximum prompt length is 8 but the request contains 9 tokens."),
            ContextTooLong,
            "larger",
        ),
        (Answer(status=400, code="content_filter"), RequestFiltered, "content filter"),
        (Answer(status=403, message="Content violates usage guidelines. Team: t"), RequestFiltered, "content filter"),
        (Answer(status=400, message="Content Exists Risk"), RequestFiltered, "content filter"),
        (Answer(status=400, code="tool_use_failed"), ProviderBusy, "could not read"),
        (Answer(status=400, message="messages: first message must be of role user"), RequestInvalid, "400"),
        (Answer(status=422, message="messages.3: no"), RequestInvalid, "422"),
        (Answer(status=0, kind="invalid_request_error", message="messages.3: no"), RequestInvalid, "refused"),
        (Answer(status=400, code="invalid_api_key"), KeyRefused, "400"),
        (Answer(status=400, kind="not_found_error"), ProviderRefused, "400"),
        (Answer(status=500, message="prompt is too long"), ProviderBusy, "500"),
        (Answer(status=401, message="maximum context length"), KeyRefused, "401"),
    ],
)
def test_classes(answer: Answer, kind: type[AgentError], words: str) -> None:
    error = classify("main", answer)
    assert type(error) is kind
    assert str(error).startswith("main: ")
    assert words in str(error)


CREDIT = (
    "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits."
)
LIMITS = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
KEY = "API key not valid. Please pass a valid API key."


@pytest.mark.requirement("Z-33")
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(400, {"error": {"type": "invalid_request_error", "message": CREDIT}}, "credit", id="no credit"),
        pytest.param(400, {"error": {"type": "invalid_request_error", "message": LIMITS}}, "limit", id="a limit of it"),
        pytest.param(400, {"error": {"message": "This organization has been disabled."}}, "disabled", id="disabled"),
        pytest.param(400, [{"error": {"code": 400, "message": KEY}}], "check the api_key", id="a key, Google's way"),
        pytest.param(400, {"error": {"message": f"Exception: {CREDIT}"}}, "credit", id="in a library's words"),
        pytest.param(400, {"error": {"code": "invalid_api_key"}}, "400", id="by its code"),
        pytest.param(0, {"error": {"type": "authentication_error"}}, "refused", id="in a stream"),
    ],
)
def test_what_is_wrong_with_the_account_is_nothing_in_the_request(status: int, body: object, words: str) -> None:
    """Another provider may answer, and no history is suspected."""
    error = classify("main", read_error(body, status))
    assert type(error) is (QuotaUsedUp if words in ("credit", "limit") else KeyRefused)
    assert error.any_request
    assert words in str(error)


def test_what_a_server_repeats_of_the_request_is_not_its_own_word() -> None:
    echo = "messages.3: invalid; input: " + "x" * LONGEST + CREDIT
    assert type(classify("main", Answer(status=400, message=echo))) is RequestInvalid


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: hunter2hunter2",
        "Incorrect API key provided: sk-proj-abcd****wxyz.",
        "Authorization: Bearer abcdefghijklmnop",
        "url https://x/?key=AIzaSyA1234567890abcdefg",
    ],
)
def test_nothing_that_looks_like_a_secret_is_repeated(text: str) -> None:
    shown = clean(text, ["hunter2hunter2"])
    assert "[redacted]" in shown
    for part in ("hunter2", "abcd", "wxyz", "abcdefgh", "AIzaSy"):
        assert part not in shown


def test_a_provider_may_not_fill_the_screen() -> None:
    shown = clean("line\n" * 1000)
    assert "\n" not in shown
    assert len(shown) == LONGEST


@pytest.mark.requirement("B-37")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT", "date": "Sat, 21 Nov 2026 10:00:00 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 09:00:00 GMT", "date": "Sat, 21 Nov 2026 10:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, Answer(status=400, kind="t", code="c", message="m")),
        ({"error": "words"}, Answer(status=400, message="words")),
        ({"detail": "words"}, Answer(status=400, message="words")),
        ({"message": "words", "code": 400}, Answer(status=400, message="words")),
        ({"error": {"message": ["odd"]}}, Answer(status=400, message="['odd']")),
        ([], Answer(status=400)),
        ([{"error": {"message": "m"}}], Answer(status=400, message="m")),
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": "roles must alternate"}}},
            Answer(status=400, message="Provider returned error: roles must alternate"),
        ),
        (None, Answer(status=400)),
    ],
)
def test_error_bodies(body: object, answer: Answer) -> None:
    assert read_error(body, 400) == answer


def test_words_of_a_provider_can_be_stored() -> None:
    assert clean("no\0 such \ud83d model") == "no\ufffd such \ufffd model"


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "58.5s"}


@pytest.mark.requirement("B-37")
@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        pytest.param({"message": "Quota.", "details": [{"@type": "x"}, RETRY_INFO]}, 58.5, id="Google's details"),
        pytest.param({"message": "Please retry in 7.934310785s."}, 7.934310785, id="Google's words"),
        pytest.param({"message": "Limit 6000. Please try again in 5s."}, 5.0, id="seconds"),
        pytest.param({"message": "Please try again in 1h2m3.5s."}, 3723.5, id="hours, minutes and seconds"),
        pytest.param({"message": "Please try again in 20ms. Visit"}, 0.02, id="milliseconds"),
        pytest.param({"message": "Please try again in 6m0s."}, 360.0, id="minutes and no seconds"),
        pytest.param({"message": "Please try again in a while."}, None, id="in words"),
        pytest.param({"message": "Busy.", "details": [{"retryDelay": "soon"}, {"retryDelay": 3}, "x"]}, None, id="odd"),
        pytest.param({"message": "Busy."}, None, id="nothing"),
    ],
)
def test_the_wait_that_an_error_itself_asks_for(error: dict[str, object], seconds: float | None) -> None:
    assert read_error([{"error": error}], 429).after_s == seconds
    assert read_error({"error": error}, 429, 3.0).after_s == 3.0, "a header goes before"
