"""Marks in place of secrets in the configuration file: what is masked, what comes back, which line a mistake is of."""

import re
import tomllib
from dataclasses import replace

import pytest

from gateway.config.masks import (
    Masked,
    Masking,
    SecretKeys,
    restored,
    secret_arguments,
    still_there,
    with_ends_of,
    with_lines,
)

MASKING = Masking(
    keys=SecretKeys(single=frozenset({"token", "api_key"}), several=frozenset({"env", "api_keys"})),
    mark=lambda line: f"(secret {len(line):08x})",
    redact=lambda text: text.replace("sk-shape", "[redacted]"),
    names=frozenset({"queue", "mode", "token"}),
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
        pytest.param('Token = "hush"', "hush", id="in another case"),
        pytest.param('API-Keys = [\n  "hush",\n]', "hush", id="with dashes"),
        pytest.param('[mcp.servers.ENV]\nKEY = "hush"', "hush", id="in a table in another case"),
        pytest.param('token = """\nfirst\nhush"""', "hush", id="in lines with the end on the last of them"),
        pytest.param('a = { token = """\nx""", api_key = "hush" }', "hush", id="behind the end of several lines"),
        pytest.param("# token =\n# hush", "hush", id="on the line after its key in a comment"),
        pytest.param("# token =\n#\n#   hush", "hush", id="after an empty line of a comment"),
        pytest.param("a = 1 # token =\n# aHVzaA==", "aHVzaA==", id="after a comment behind a value, as Base64"),
        pytest.param("# token =  # mine\n# hush", "hush", id="on the line after a remark"),
        pytest.param('text = """\ntoken =\nhush"""', "hush", id="on the line after its key in a text"),
        pytest.param("# [mcp.servers.env]\n# KEY =\n# hush", "hush", id="on the next line of a table in a comment"),
        pytest.param("# env = { KEY = hush }", "hush", id="in an inline table of a comment, without quotes"),
        pytest.param("# api_keys = [\n#   hush,\n# ]", "hush", id="in a list of a comment, without quotes"),
    ],
)
def test_what_is_masked(text: str, secret: str) -> None:
    found = masked(text)
    assert secret not in found.text
    assert restored(found.text, found) == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('# token =\nmode = "x"', id="a line of the file after a key in a comment"),
        pytest.param("# token =\n# mode = 5\n# [queue]", id="a key that a configuration has"),
        pytest.param("# token =\n\n[queue]", id="a table"),
        pytest.param('text = """\ntoken =\n"""\nmode = "x"', id="the end of a text"),
        pytest.param('# env = {TOKEN = "env:TOKEN"} # besides these', id="a remark behind a table in a comment"),
        pytest.param("# env = {}\n# of nothing\nmode = 5", id="a comment after an empty table in a comment"),
        pytest.param('# env = [\n# "env:A",\n# ]\n# of words\nmode = "x"', id="what stands after a list in a comment"),
    ],
)
def test_what_follows_a_secret_and_is_none_is_shown(text: str) -> None:
    assert masked(text).text == text


def test_a_hidden_line_of_a_text_leaves_its_end() -> None:
    found = masked('text = """\ntoken =\nhush"""\nother = 1')
    assert tomllib.loads(found.text)["other"] == 1


def test_lines_with_the_end_on_the_last_of_them_stay_toml() -> None:
    found = masked('token = """\nfirst\nhush"""\nother = 1')
    assert tomllib.loads(found.text)["other"] == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("[queue\nmode = 1", '[queue\nmode = "(secret 00000008)"', id="tables and keys"),
        pytest.param("token =\nhush", 'token = "(secret 00000007)"\n(secret 00000004)', id="a value on the next line"),
        pytest.param('Token = "hush"', "(secret 0000000e)", id="a key that no configuration has"),
        pytest.param('token = """\naHVz==\n"""', 'token = "(secret 0000000b)"\n(secret 00000006)\n(secret 00000003)',
                     id="a line of a secret that may be a key"),
        pytest.param("[hush]", "(secret 00000006)", id="a table that no configuration has"),
        pytest.param("# hush\n\n", "(secret 00000006)\n\n", id="comments"),
    ],
)  # fmt: skip
def test_of_a_file_that_is_no_toml_the_structure_alone_is_shown(text: str, shown: str) -> None:
    found = MASKING.structure(text)
    assert found.text == shown
    assert restored(found.text, found) == (text, [])


@pytest.mark.parametrize(
    ("arguments", "secrets"),
    [
        (["--token", "hush", "--verbose"], ["hush"]),
        (["--api-key=hush"], ["hush"]),
        (["API_TOKEN=hush"], ["hush"]),
        (["--header", "Authorization: Bearer hush"], ["Bearer hush"]),
        (["run", "a8f5f167f44f4964e6c998dee827110c"], ["a8f5f167f44f4964e6c998dee827110c"]),
        (["-y", "@modelcontextprotocol/server-filesystem", "/srv/files/2026"], []),
        (["--local-timezone", "Europe/Berlin", "--token", "--verbose"], []),
    ],
)
def test_arguments_that_are_secrets(arguments: list[str], secrets: list[str]) -> None:
    assert list(secret_arguments(arguments)) == secrets


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


def test_a_mark_is_whole_where_the_line_has_the_shape_of_a_secret_too() -> None:
    masking = replace(MASKING, redact=lambda text: re.sub(r"(token = \")[^\s\"]{6,}", r"\1[redacted]", text))
    assert masking.masked('token = "a-secret"', ()).lines == ['token = "(secret 00000012)"']


def test_a_key_that_holds_a_secret_elsewhere_is_shown_in_its_own_table() -> None:
    masking = replace(MASKING, keys=replace(MASKING.keys, plain_in={"token": frozenset({"mcp.servers"})}))
    shown = '[[mcp.servers]]\ntoken = "an address"\nx = { token = "b", api_key = "(secret 00000028)" }'
    assert masking.masked(shown.replace("(secret 00000028)", "hush"), ()).text.partition("\nx")[0] in shown
    assert "hush" not in masking.masked(shown.replace("(secret 00000028)", "hush"), ()).text
    for other in ('[[channels]]\ntoken = "hush"', 'token = "hush"', '[mcp.servers.token]\ntoken = "hush"'):
        assert "hush" not in masking.masked(other, ()).text


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
