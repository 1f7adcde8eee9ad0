"""Window discovery: the forms in which servers tell the window of their models."""

from typing import Any

import pytest
from pydantic import SecretStr

from agent.providers.settings import MAX_WINDOW, ProviderSettings
from agent.providers.window_discovery import ServerAnswer, ServerWindow, ask, in_list, tokens_in
from tests.doubles.llm_dialects import TELLS
from tests.fakes.llm_server import serving_llm
from tests.program.doubles import free_port


def listed(*entries: Any) -> dict[str, Any]:
    return {"object": "list", "data": list(entries)}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(listed({"id": "m", "max_model_len": 8192}), (8192, "max_model_len", True), id="vLLM"),
        pytest.param(
            listed({"id": "other", "n_ctx": 4096}, {"id": "m", "n_ctx": 8192}), (8192, "n_ctx", True), id="by name"
        ),
        pytest.param(
            listed({"id": "x.gguf", "n_ctx": 8192}), (8192, "n_ctx", True), id="the only one, whatever its name"
        ),
        pytest.param(listed({"id": "x", "n_ctx": 4096}, {"id": "y", "n_ctx": 8192}), None, id="none of several others"),
        pytest.param(
            listed({"id": "vendor/m", "context_length": 200_000, "top_provider": {"context_length": 8192}}),
            (8192, "context_length", True),
            id="OpenRouter: what it routes to may hold less",
        ),
        pytest.param(
            listed({"id": "m", "meta": {"n_ctx_train": 131_072}}), (131_072, "n_ctx_train", False), id="trained"
        ),
        pytest.param(
            listed({"id": "m", "max_context_length": 131_072, "loaded_context_length": 8192}),
            (8192, "loaded_context_length", True),
            id="loaded before possible",
        ),
        pytest.param(
            {"models": [{"name": "m:latest", "context_length": 8192}]}, (8192, "context_length", True), id="Ollama"
        ),
        pytest.param(listed({"id": "m"}), None, id="OpenAI tells nothing"),
        pytest.param(listed(None, "m", {"id": 5, "n_ctx": 8192}, {}), None, id="nonsense"),
        pytest.param({"data": "no"}, None, id="no list"),
        pytest.param(["no"], None, id="a list of nothing"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_in_a_list_of_models(body: Any, told: tuple[int, str, bool] | None) -> None:
    found = in_list(body, "vendor/m" if "vendor" in str(body) else "m", "/v1/models")
    expected = None if told is None else ServerWindow(told[0], f"/v1/models {told[1]}", exact=told[2])
    assert found == expected


@pytest.mark.parametrize(
    ("value", "tokens"),
    [(8192, 8192), ("8192", 8192), (8192.0, 8192), (10**12, MAX_WINDOW), (0, None), (-1, None), (12, None),
     (True, None), ("much", None), ("9" * 50, None), (float("nan"), None), (float("inf"), None), (None, None),
     ([8192], None)],
)  # fmt: skip
def test_a_number_of_tokens(value: Any, tokens: int | None) -> None:
    assert tokens_in(value) == tokens


def settings(url: str, **more: Any) -> ProviderSettings:
    values: dict[str, Any] = {"name": "a", "type": "openai", "model": "m", "base_url": url, "api_key": SecretStr("k")}
    return ProviderSettings(**{**values, **more})


@pytest.mark.parametrize("type_", ["openai", "litellm", "anthropic"])
@pytest.mark.parametrize(("tells", "by", "exact"), [
    ("vllm", "/v1/models max_model_len", True),
    ("n_ctx", "/v1/models n_ctx", True),
    ("openrouter", "/v1/models context_length", True),
    ("llamacpp", "/props n_ctx", True),
    ("llamacpp-trained", "/v1/models n_ctx_train", False),
    ("ollama-num-ctx", "/api/show num_ctx", True),
    ("ollama-loaded", "/api/ps context_length", True),
    ("ollama-model", "/api/show model_info", False),
    ("lm-studio", "/api/v0/models loaded_context_length", True),
])  # fmt: skip
async def test_each_server_is_asked_where_it_tells(type_: str, tells: str, by: str, exact: bool) -> None:
    async with serving_llm() as server:
        server.double.settings["tells"] = tells
        server.double.calls.append({"body": {"model": "m"}})
        url = server.url if type_ == "anthropic" else f"{server.url}/v1"
        assert await ask(settings(url, type=type_)) == ServerAnswer(True, ServerWindow(8192, by, exact=exact))
        assert set(server.double.asked_window) <= {"/v1/models", "/props", "/api/show", "/api/ps", "/api/v0/models"}


def test_every_way_of_telling_is_tried() -> None:
    assert len(TELLS) == 10


@pytest.mark.parametrize("tells", ["", "nonsense"])
async def test_who_does_not_tell_is_there(tells: str) -> None:
    async with serving_llm() as server:
        server.double.settings["tells"] = tells
        assert await ask(settings(f"{server.url}/v1")) == ServerAnswer(True, None)


async def test_who_is_not_there_is_no_error() -> None:
    async with serving_llm() as server:
        server.double.settings["window_away"] = True
        assert await ask(settings(f"{server.url}/v1")) == ServerAnswer(False, None)
    assert await ask(settings(f"http://127.0.0.1:{free_port()}/v1")) == ServerAnswer(False, None)
    assert await ask(settings("")) == ServerAnswer(False, None), "nobody's own address"
