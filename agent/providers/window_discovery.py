"""Asks a model's own server how large its context window is. Each server tells it elsewhere, many nowhere.

/v1/models      vLLM, SGLang, OpenRouter, Together, Groq; llama.cpp tells there what the model was trained for
                https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
/props          llama.cpp: https://github.com/ggml-org/llama.cpp/tree/master/tools/server
/api/show       Ollama, with /api/ps for what is loaded: https://docs.ollama.com/api
/api/v0/models  LM Studio: https://lmstudio.ai/docs/developer/rest
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
import anyio.to_thread

from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.providers.endpoints import is_local
from agent.providers.settings import MAX_WINDOW, ProviderSettings

WITHIN_S = 5.0  # for one question
ALL_WITHIN_S = 12.0
LARGEST_LIST = 8 * 1024 * 1024  # bytes; OpenRouter's list of models has half a megabyte
LARGE_LIST = 64 * 1024  # bytes; above it the list is read in a thread
SMALLEST = 256  # tokens; what is smaller is no window

# In an entry of a list of models: the window that the server keeps, by any of its names.
KEPT = (
    "max_model_len",
    "n_ctx",
    "loaded_context_length",
    "context_length",
    "context_window",
    "context_size",
    "max_input_tokens",
)
AT_MOST = ("max_context_length", "n_ctx_train")  # what the model could hold; its server may keep less
NESTED = ("meta", "top_provider")


@dataclass(frozen=True, slots=True)
class ServerWindow:
    """A window in tokens, and where it is told. `exact` False: the model could hold it, its server may keep less."""

    tokens: int
    by: str
    exact: bool


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """`reached`: the server answers, be it only that it does not know such an address."""

    reached: bool
    told: ServerWindow | None = None


async def ask(settings: ProviderSettings) -> ServerAnswer:
    """The server's answer about that model; never raises. Where no address is configured, nobody is asked."""
    if not settings.base_url or settings.type == "demo":
        return ServerAnswer(reached=False)
    server, found = _Server(settings), list[ServerWindow]()
    with anyio.move_on_after(ALL_WITHIN_S):
        async with server:
            for place in (server.models, server.props, server.ollama, server.lm_studio):
                if (told := await place()) is not None:
                    found.append(told)
                    if told.exact:
                        break
    exact = next((told for told in found if told.exact), None)
    return ServerAnswer(server.reached, exact or min(found, key=lambda told: told.tokens, default=None))


class _Server:
    """One server, and each place where it may tell. `reached` as soon as any of them answers."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.reached = False
        self._settings = settings
        self._model = settings.model
        base = settings.base_url.rstrip("/").removesuffix("/chat/completions")
        self._api = base if settings.type == "openai" or base.endswith("/v1") else f"{base}/v1"
        self._root = self._api.removesuffix("/v1")
        self._proxy = settings.proxy.get_secret_value() or None

    async def __aenter__(self) -> None:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=WITHIN_S),
            headers=headers_of(self._settings),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not is_local(self._root),
        )

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._session.close()

    async def models(self) -> ServerWindow | None:
        """Nearly every server has a list of models; some tell the window there."""
        return in_list(await self._read("GET", f"{self._api}/models"), self._model, "/v1/models")

    async def props(self) -> ServerWindow | None:
        """llama.cpp, for the model that is loaded: to be asked is no reason to load another."""
        query = {"model": self._model, "autoload": "false"}
        settings = part_of(await self._read("GET", f"{self._root}/props", query=query), "default_generation_settings")
        tokens = tokens_in(settings.get("n_ctx"))
        return ServerWindow(tokens, "/props n_ctx", exact=True) if tokens else None

    async def ollama(self) -> ServerWindow | None:
        """The window that its Modelfile sets; else the loaded one, which may be the server's own default."""
        name = self._model.rpartition("/")[2] if self._settings.type == "litellm" else self._model
        shown = await self._read("POST", f"{self._root}/api/show", body={"model": name})
        if not isinstance(shown, dict):
            return None
        if tokens := _num_ctx(shown.get("parameters")):
            return ServerWindow(tokens, "/api/show num_ctx", exact=True)
        if (
            told := in_list(await self._read("GET", f"{self._root}/api/ps"), name, "/api/ps", one_alone=False)
        ) is not None:
            return told
        sizes = part_of(shown, "model_info").items()
        most = next(
            (tokens for key, value in sizes if str(key).endswith(".context_length") and (tokens := tokens_in(value))),
            None,
        )
        return ServerWindow(most, "/api/show model_info", exact=False) if most else None

    async def lm_studio(self) -> ServerWindow | None:
        """Its own list tells what is loaded."""
        return in_list(await self._read("GET", f"{self._root}/api/v0/models"), self._model, "/api/v0/models")

    async def _read(
        self, method: str, url: str, *, query: Mapping[str, str] | None = None, body: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON that is answered; None for anything else."""
        try:
            async with self._session.request(
                method, url, params=query, json=body, proxy=self._proxy, allow_redirects=False
            ) as response:
                self.reached = self.reached or response.status < 500
                if response.status != 200:
                    return None
                data = await whole_body(response.content.iter_any(), LARGEST_LIST)
            return json.loads(data) if len(data) < LARGE_LIST else await anyio.to_thread.run_sync(json.loads, data)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RecursionError, BodyTooLarge):
            return None


def in_list(body: Any, model: str, place: str, *, one_alone: bool = True) -> ServerWindow | None:
    """Facts about `model` in a list of models; about a server's only one, whatever its name, if `one_alone`. Pure."""
    entries = entries_of(body)
    entry = next((entry for entry in entries if _is_named(entry, model)), None)
    if entry is None and one_alone and len(entries) == 1:
        entry = entries[0]
    if entry is None:
        return None
    parts = (entry, *(part for name in NESTED if (part := part_of(entry, name))))
    for names, exact in ((KEPT, True), (AT_MOST, False)):
        told = [(tokens, name) for part in parts for name in names if (tokens := tokens_in(part.get(name)))]
        if told:
            tokens, name = min(told)
            return ServerWindow(tokens, f"{place} {name}", exact=exact)
    return None


def tokens_in(value: Any) -> int | None:
    """A number of tokens that may be a window; servers write it as a number or in digits. Pure."""
    if isinstance(value, str) and len(value) < 12 and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not SMALLEST <= value < float("inf"):
        return None
    return min(int(value), MAX_WINDOW)


def entries_of(body: Any) -> list[Mapping[str, Any]]:
    """The models of a list, whatever its server calls it. Pure."""
    if isinstance(body, dict):
        body = body.get("data") if isinstance(body.get("data"), list) else body.get("models")
    return [entry for entry in body if isinstance(entry, dict)] if isinstance(body, list) else []


def _is_named(entry: Mapping[str, Any], model: str) -> bool:
    """Ollama leaves out or adds `:latest`, litellm puts the vendor in front."""
    wanted = {name.casefold().removesuffix(":latest") for name in (model, model.partition("/")[2]) if name}
    names = (entry.get(key) for key in ("id", "name", "model"))
    return any(isinstance(name, str) and name.casefold().removesuffix(":latest") in wanted for name in names)


def part_of(body: Any, name: str) -> Mapping[str, Any]:
    """The object of that name within another; an empty one where there is none. Pure."""
    part = body.get(name) if isinstance(body, dict) else None
    return part if isinstance(part, dict) else {}


def _num_ctx(parameters: Any) -> int | None:
    """Of a Modelfile's parameters, a name and a value in each line."""
    lines = parameters.splitlines() if isinstance(parameters, str) else ()
    found = [words[1] for line in lines if len(words := line.split()) == 2 and words[0] == "num_ctx"]
    return tokens_in(found[-1]) if found else None


def headers_of(settings: ProviderSettings) -> Mapping[str, str]:
    """Headers of a question to a provider's server, with its first key."""
    headers = {"Accept": "application/json", "User-Agent": "tieline"}
    if settings.keys:
        key = settings.keys[0].get_secret_value()
        headers["Authorization"] = f"Bearer {key}"
        if settings.type == "anthropic":
            headers |= {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return headers | {name: value.get_secret_value() for name, value in settings.extra_headers.items()}
