"""Names of models as other programs see them: what a conversation has, a provider, a model of one, or a persona."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.core.errors import AgentInvalid, AgentMissing
from agent.definitions import Definition, Definitions
from agent.providers.registry import LazyProvider, Registry, UnknownProvider
from agent.providers.settings import is_model_name
from gateway.api.refusals import BadRequest

OWN = "tieline"  # whatever the conversation has
PERSONA = "persona/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The wish behind a name; "" is left as it is. `provider` may have a model behind a slash."""

    provider: str = ""
    persona: str = ""


class ModelNames:
    """Reads them with the providers and personas that there are now."""

    def __init__(self, providers: Registry, definitions: Definitions) -> None:
        self._providers = providers
        self._definitions = definitions

    def all(self) -> Iterator[str]:
        """All that are listed; any other model of a provider may be named as well."""
        yield OWN
        yield from self._providers.names
        yield from (PERSONA + name for name in self._definitions.names())

    def read(self, name: str) -> Named:
        """Raises BadRequest for a name that stands for nothing."""
        if name == OWN:
            return Named()
        if name.startswith(PERSONA):
            self.persona(name.removeprefix(PERSONA))
            return Named(persona=name.removeprefix(PERSONA))
        try:
            provider, model = self._providers.named(name)
        except UnknownProvider:
            raise _unknown(name) from None
        if model is not None and not is_model_name(model):
            raise _unknown(name)
        return Named(provider=provider if model is None else f"{provider}/{model}")

    def provider(self, named: Named) -> LazyProvider:
        """The provider of a name that was read; the default where it names none."""
        name, _, model = named.provider.partition("/")
        if not name:
            return self._providers.default
        return self._providers.with_model(name, model) if model else self._providers.get(name)

    def persona(self, name: str) -> Definition:
        """Raises BadRequest."""
        try:
            return self._definitions.load(name)
        except AgentMissing:
            raise _unknown(PERSONA + name) from None
        except AgentInvalid as error:
            raise BadRequest(f"the persona {name} has a mistake: {error}", param="model", status=503) from error


def _unknown(name: str) -> BadRequest:
    return BadRequest(
        f"there is no model {name!r}; GET /v1/models lists them", param="model", code="model_not_found", status=404
    )
