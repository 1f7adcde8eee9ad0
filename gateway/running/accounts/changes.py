"""Changes of accounts by operators while the gateway runs: pause, resume, reconnect, check, try before adding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agent.core.ids import ConversationId
from agent.storage.timestamps import to_timestamp
from gateway.access.needs import needs
from gateway.channels.adapter import Affected, Diagnosis, Health
from gateway.running.accounts.accounts import PAUSED_SETTING, Accounts, forget_pause
from gateway.running.accounts.checks import bare_adapter_context, diagnose, diagnose_channel, weighed
from gateway.running.basics import Basics
from gateway.storage import settings_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChanges:
    """Raises LookupError for an account that is not there; a pause outlives the process."""

    basics: Basics
    accounts: Accounts

    async def pause(self, channel_type: str) -> None:
        """Take nothing in and send nothing with it until `resume`."""
        await self.accounts.pause(channel_type)
        now = to_timestamp(self.basics.clock.now())
        await self.basics.database.write(
            lambda conn: settings_rows.put(conn, ConversationId(channel_type), PAUSED_SETTING, str(now), at=now)
        )

    async def resume(self, channel_type: str) -> None:
        """Go on; what was written there meanwhile is caught up with, and what waited is sent."""
        await self.basics.database.write(partial(forget_pause, channel_type=channel_type))
        await self.accounts.resume(channel_type)

    async def reconnect(self, channel_type: str) -> None:
        """Close it and open it anew."""
        await self.accounts.reconnect(channel_type)

    async def check(self, channel_type: str) -> Sequence[Diagnosis]:
        """The findings of `tieline doctor` on it."""
        settings = self.basics.settings
        account = next((one for one in settings.channels if one.channel_type == channel_type), None)
        if account is None:
            raise LookupError(f"There is no account {channel_type} any more.")
        context = bare_adapter_context(settings.home, settings.network.proxy, self._address())
        rules = self._rules(channel_type)
        return [weighed(found, rules) for found in await diagnose(account, context)]

    def withheld(self, channel_type: str, health: Health) -> Sequence[Diagnosis]:
        """Findings on things that the platform keeps from it, judged as `check` judges them."""
        rules = self._rules(channel_type)
        return [weighed(one.diagnosis(channel_type), rules) for one in health.withheld]

    def _rules(self, channel_type: str) -> Mapping[Affected, Sequence[str]]:
        settings = self.basics.settings
        catches_up = settings.network.catch_up_max_age > 0
        return needs(channel_type, settings.access, places=settings.places, roles=settings.roles, catches_up=catches_up)

    async def tried(self, values: Mapping[str, object]) -> Sequence[str]:
        """Why an account with these values would not work, a line each; the platform is asked, nothing is kept."""
        return await diagnose_channel(
            values, self.basics.home, self.basics.settings.network.proxy, public_url=self._address()
        )

    def _address(self) -> str:
        web = self.basics.settings.web
        return web.public_url or f"http://{web.host}:{web.port}"
