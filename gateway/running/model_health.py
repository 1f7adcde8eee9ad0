"""Which models answer: troubles for the operator's pages, reasons for `/readyz`, and a word to the owners.

A model that somebody named in a chat (`/model`) may not exist at all: that is theirs to see, and never the operator's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.core.errors import AgentError, ProviderRefused, QuotaUsedUp
from agent.providers.calling import Models
from agent.providers.opening import LazyProvider
from agent.providers.provider import Provider
from agent.providers.registry import Registry as Providers
from gateway.running.alerts import Alerts
from gateway.telemetry.trouble import Trouble, Troubles
from gateway.web.health import Reason

REFUSED_FIX = "correct the key, the model or the address set in [[llm.providers]]; `tieline doctor` tries it"
QUOTA_FIX = "add credit or raise the limit of the account at the provider; it is asked again by itself"
BUSY_FIX = "look at the status page of the provider or at its server; it is asked again by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHealth:
    """Hears from `Models` what fails and what answers."""

    troubles: Troubles
    alerts: Callable[[], Alerts]
    providers: Callable[[], Providers]

    def failed(self, provider: Provider, error: AgentError | None) -> None:
        """It is passed over because of `error`; None: it answers again."""
        if error is None:
            self.answered(provider)
            return
        # Without the id of the request, which differs each time: the same outage is told once.
        name, detail = (
            provider.name,
            str(error).removeprefix(f"{provider.name}: ").partition(" [request ")[0].rstrip("."),
        )
        if not self._is_configured(provider):
            self.troubles.note("provider", f"{name}/{provider.model}", detail, fix="choose another model with /model")
            return
        kind, fix = _kind_of(error)
        self.troubles.report("provider", name, detail, fix=fix)
        route = self.providers().route(self.providers().get(name))
        others = [other.name for other in route if self._trouble_of(other) is None]
        if others:
            values: dict[str, object] = {"provider": name, "detail": detail, "others": ", ".join(others)}
            self.alerts().outage(f"model:{name}", f"{kind}_others", values)
        else:
            self.alerts().outage(f"model:{name}", kind, {"provider": name, "detail": detail})

    def answered(self, provider: Provider) -> None:
        """It answers, for the first time or again."""
        if self._is_configured(provider):
            self.troubles.over("provider", provider.name)
            self.alerts().outage_over(f"model:{provider.name}", "owner_model_back", {"provider": provider.name})

    def reloaded(self, before: Sequence[LazyProvider], models: Models) -> None:
        """The configuration has changed: nobody knows yet how those do that were `before` and are no more."""
        known = self.providers()
        for old in before:
            if old.name not in known or known.get(old.name) is not old:
                models.forget(old.name)
                self.troubles.over("provider", old.name)
            if old.name not in known:
                self.alerts().outage_over(f"model:{old.name}", None, {})

    def reasons(self) -> tuple[Reason, ...]:
        """Why nobody gets an answer, one for each model; nothing while the default or one in its place may answer."""
        route = self.providers().route(self.providers().default)
        found = [(provider.name, self._trouble_of(provider)) for provider in route]
        if not all(trouble for _, trouble in found):
            return ()
        return tuple(
            Reason(f"model {name}", f"does not answer: {trouble.text}", trouble.fix)
            for name, trouble in found
            if trouble is not None
        )

    def _is_configured(self, provider: Provider) -> bool:
        known = self.providers()
        return provider.name in known and known.get(provider.name).model == provider.model

    def _trouble_of(self, provider: Provider) -> Trouble | None:
        return next((one for one in self.troubles.open if (one.kind, one.subject) == ("provider", provider.name)), None)


def _kind_of(error: AgentError) -> tuple[str, str]:
    """What the owners are told, as a key of the catalogue, and the fix on the operator's pages."""
    if isinstance(error, QuotaUsedUp):
        return "owner_model_quota", QUOTA_FIX
    if isinstance(error, ProviderRefused):
        return "owner_model_refused", REFUSED_FIX
    return "owner_model_busy", BUSY_FIX
