"""Marks in place of secrets in the configuration file: what is masked, what comes back, which line a mistake is of."""

import tomllib

import pytest

from gateway.config.masks import Masked, Masking, SecretKeys, restored, still_there, with_ends_of, with_lines

MASKING = Masking(
    keys=SecretKeys(single=frozenset({"token", "api_key"}), several=frozenset({"env", "api_keys"})),
    mark=lambda line: f"(secret {len(line):08x})",
    redact=lambda text: text.replace("sk-shape", "[redacted]"),
)


def masked(text: str, *values: str) -> Masked:
    return MASKING.masked(text, values)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param('token = "hush"', "hush", id="by its key"),
        pytest.param("token = 'hush'  # mine", "hush", id="in other quotes"),
        pytest.param('# token = "hush"', "hush", id="in a comment"),
        pytest.param('token = "hush', "hush", id="without its end"),
        pytest.param("token = hush", "hush", id="without quotes"),
        pytest.param('"token" = "hush"', "hush", id="with its key in quotes"),
        pytest.param('a = { token = "env:X", api_key = "hush" }', "hush", id="the second of a line"),
        pytest.param('token = """\nhush\n"""', "hush", id="in several lines"),
        pytest.param('token = """hush', "hush", id="in lines that do not end"),
        pytest.param('api_keys = [\n  "hush",\n]', "hush", id="in a list"),
        pytest.param('env = { KEY = "hush" }', "hush", id="in an inline table"),
        pytest.param('[mcp.servers.env]\nKEY = "hush"', "hush", id="in a table"),
        pytest.param('# [mcp.servers.env]\n# KEY = "hush"', "hush", id="in a table in a comment"),
        pytest.param('[mcp.servers.env.more]\nKEY = "hush"', "hush", id="in a table of a table"),
        pytest.param('args = ["--key=sk-shape"]', "sk-shape", id="by its shape"),
    ],
)
def test_what_is_masked(text: str, secret: str) -> None:
    found = masked(text)
    assert secret not in found.text
    assert restored(found.text, found) == (text, [])


@pytest.mark.parametrize(
    "line",
    [
        'token = "env:TOKEN"',
        "api_key = 'file:secrets/a'",
        'token = ""',
        'tokens = "5"',
        'api_keys = ["env:A"]',
        "[env]",
    ],
)
def test_what_is_no_secret_is_shown(line: str) -> None:
    assert masked(line).lines == [line]


def test_a_value_is_found_wherever_it_stands() -> None:
    found = masked("word = 'a\\b'\n# once it was long-secret\nother = \"abc\"\nabc = 1", "a\\b", "long-secret", "abc")
    assert found.lines[0].startswith('word = "(secret')
    assert "long-secret" not in found.lines[1]
    assert found.lines[2].startswith('other = "(secret')
    assert found.lines[3] == "abc = 1", "a short one only in quotes"


def test_a_line_that_says_mark_itself_stays() -> None:
    found = masked("# (secret 00000001)\ntoken = 'x'")
    assert restored("# (secret 00000001)\n", found) == ("# (secret 00000001)\n", [])
    assert restored("# (secret 00000002)", found)[1]


@pytest.mark.parametrize(
    ("before", "typed", "after"),
    [
        ("a\nb\n", "a\nc\n", "a\nc\n"),
        ("a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc\nd\n", "a\r\nb\nc\r\nd\r\n"),
        ("a\r\nb\nc\n", "a\nx\nc", "a\r\nx\nc"),
        ("", "a\n", "a\n"),
    ],
)
def test_ends_of_lines_stay(before: str, typed: str, after: str) -> None:
    assert with_ends_of(before, typed) == after
    assert with_ends_of(before, before.replace("\r\n", "\n")) == before


TEXT = '''[queue]
mode = "x"
text = """
[[llm.providers]]
"""

[[llm.providers]]
name = "main"

[[llm.providers]]
name = "second"
type = "none"

[llm.providers.extra_headers]
X-A = 1
'''


@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        ("queue.mode: wrong", 2),
        ("queue.gone: missing", 1),
        ("llm.providers[1].type: wrong", 12),
        ("llm.providers[0].type: missing", 7),
        ("llm.providers (second): no key", 10),
        ("llm.providers (second): failover: wrong", 10),
        ("llm.providers[1].extra_headers.X-A: wrong", 15),
        ("access.allow: wrong", None),
        ("queue.mode: wrong (set by the environment variable TIELINE__QUEUE__MODE)", None),
    ],
)
def test_the_line_of_a_mistake(mistake: str, line: int | None) -> None:
    assert with_lines(TEXT, [mistake]) == [f"Line {line}: {mistake}" if line else mistake]


def test_a_mark_in_one_line_does_not_excuse_the_others() -> None:
    assert still_there('token = """\n(secret 00000001)\nhush"""', lambda text: [tomllib.loads(text)["token"]])
    assert not still_there('token = "(secret 00000001)"', lambda text: [tomllib.loads(text)["token"]])
