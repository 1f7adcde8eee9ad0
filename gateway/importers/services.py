"""Model services by the names that other programs have for them, and their sections of `[[llm.providers]]`. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.importers.moved import Model, Secret

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Service:
    """A service: the type and address of its section here, and the variable in which programs look for its key."""

    type: str
    base_url: str = ""
    variable: str = ""
    takes_prefix: bool = False  # its models are called `maker/model`


# Addresses as the services document them for OpenAI's protocol.
SERVICES: Mapping[str, Service] = {
    "anthropic": Service("anthropic", "", "ANTHROPIC_API_KEY"),
    "openai": Service("openai", "", "OPENAI_API_KEY"),
    "openrouter": Service("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", True),
    "groq": Service("openai", "https://api.groq.com/openai/v1", "GROQ_API_KEY", True),
    "deepseek": Service("openai", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "gemini": Service("openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "google": Service("openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "mistral": Service("openai", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "xai": Service("openai", "https://api.x.ai/v1", "XAI_API_KEY"),
    "together": Service("openai", "https://api.together.xyz/v1", "TOGETHER_API_KEY", True),
    "fireworks": Service("openai", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", True),
    "moonshot": Service("openai", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "zai": Service("openai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    "minimax": Service("openai", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    "huggingface": Service("openai", "https://router.huggingface.co/v1", "HF_TOKEN", True),
    "nvidia": Service("openai", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", True),
    "cerebras": Service("openai", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "ollama": Service("openai", "http://127.0.0.1:11434/v1"),
    "lmstudio": Service("openai", "http://127.0.0.1:1234/v1"),
    "vllm": Service("openai", "http://127.0.0.1:8000/v1"),
}
_WORDS = {"claude": "anthropic", "gpt": "openai", "deepseek": "deepseek", "gemini": "gemini", "grok": "xai"}


def service_of(name: str, base_url: str = "") -> Service | None:
    """The service of that name. At an address of its own it speaks OpenAI's protocol, whatever its name."""
    known = SERVICES.get(name.lower().replace("-", "").replace("_", ""))
    if base_url and (known is None or known.type == "openai"):
        return Service("openai", base_url, known.variable if known else "", True)
    return Service(known.type, base_url, known.variable, known.takes_prefix) if known and base_url else known


def guessed(model: str) -> str:
    """The service that a model's name makes likely, where nothing else is said; "" for none."""
    prefix = model.partition("/")[0].lower()
    if "/" in model and prefix in SERVICES:
        return prefix
    return next((name for word, name in _WORDS.items() if word in model.lower()), "")


def section_name(name: str, taken: frozenset[str] = frozenset()) -> str:
    """A name for `[[llm.providers]]` that nothing else has; letters of either case are the same there."""
    taken = frozenset(one.lower() for one in taken)
    first = _UNFIT.sub("-", name).strip("-._")[:56] or "main"
    number, found = 2, first
    while found.lower() in taken:
        found, number = f"{first}-{number}", number + 1
    return found


def model_of(name: str, service_name: str, service: Service, model: str, key: Secret | None) -> Model:
    """The section for a model of the service."""
    maker, slash, rest = model.partition("/")
    if slash and not service.takes_prefix and maker.lower() in (service_name.lower(), service.type):
        model = rest
    return Model(name=name, type=service.type, model=model, base_url=service.base_url, key=key)
