"""The configuration of a backup holds references and no literal secret, and is otherwise what people wrote."""

import tomllib

import pytest

from gateway.backup.configuration import without_secrets
from gateway.telemetry.redaction import Redactor

REDACT = Redactor({"known-to-be-secret"})
CONFIG = """\
# my bot; once: sk-ant-REDACTED
[database]
url = "postgresql://tieline:hunter22@db/tieline"  # in the cellar

[[llm.providers]]
name = "main"
api_key = "short"
model = "a-model"

[[llm.providers]]
name = "other"
api_key = "env:OTHER_KEY"

[[mcp.servers]]
name = "files"
env = { HOME = "/home/me", VALUE = "known-to-be-secret" }
args = ["--token", "known-to-be-secret"]

[context]
tokenizer = "tiktoken"
"""


def test_secrets_become_references_and_all_else_stays() -> None:
    text, keys = without_secrets(CONFIG, REDACT)
    copied = tomllib.loads(text)
    assert keys == ("database.url", "llm.providers[0].api_key", "mcp.servers[0].env.VALUE", "mcp.servers[0].args[1]")
    assert copied["database"]["url"] == "file:secrets/database.url"
    assert copied["llm"]["providers"][0]["api_key"] == "file:secrets/llm.providers-0-.api_key"
    assert copied["llm"]["providers"][1] == {"name": "other", "api_key": "env:OTHER_KEY"}
    assert copied["context"] == {"tokenizer": "tiktoken"}
    for secret in ("hunter22", "short", "known-to-be-secret", "abcdefghijkl"):
        assert secret not in text
    assert "# my bot; once: " in text
    assert "# in the cellar" in text
    assert "#   llm.providers[0].api_key\n" in text


def test_a_configuration_without_secrets_is_copied_to_the_letter() -> None:
    source = CONFIG.split("[[llm", 1)[0].replace("sk-ant-REDACTED", "…").replace(":hunter22", "")
    assert without_secrets(source, REDACT) == (source, ())


def test_what_is_no_toml_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1"):
        without_secrets("token = ", REDACT)
