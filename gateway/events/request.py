"""Requests to subscribers: the address that was checked is the one connected to. Loads the HTTP library: by name.

An address is on the internet, or among those of its section's `allow_private`: a name that leads into a network of
one's own, now or after a change of its address, is not called.
"""

import ssl
from dataclasses import replace
from datetime import datetime

from agent.core.errors import ToolError
from agent.tools.web.addresses import Address, Target, is_public, named_target
from agent.tools.web.resolve import MOST, Lookup, addresses_of, look_up
from gateway.config.events import EventSettings
from gateway.events.signature import signed
from gateway.receivers.email import NotSent
from gateway.receivers.http_post import WITHIN_S, Answer, NotConnected, post, tls_of_clients


class Caller:
    """Calls subscribers. `proxy` is the operator's, and is given addresses, never names; none of one's own."""

    def __init__(self, lookup: Lookup = look_up, *, within_s: float = WITHIN_S) -> None:
        self._lookup = lookup
        self._within_s = within_s
        self._tls: ssl.SSLContext | None = None  # made once: it reads a file of certificates

    async def call(
        self, subscription: EventSettings, message: str, body: str, at: datetime, *, proxy: str | None
    ) -> Answer:
        """The answer to one try. Raises NotSent where there is none, also where it may not be called."""
        target = _target_of(subscription)
        addresses = await self.allowed(subscription, target)
        if self._tls is None:
            self._tls = await tls_of_clients()
        content = body.encode()
        headers = {
            "content-type": "application/json",
            "user-agent": "Tieline",
            "host": target.authority,
            **signed(subscription.key, message, content, at),
        }
        for number, address in enumerate(addresses, 1):
            try:
                return await post(
                    replace(target, host=str(address)).url,
                    target.host,
                    content,
                    headers,
                    tls=self._tls,
                    proxy=proxy if is_public(address) else None,
                    within_s=self._within_s,
                )
            except NotConnected:
                if number == len(addresses):
                    raise
        raise AssertionError("unreachable: there is at least one address")

    async def allowed(self, subscription: EventSettings, target: Target | None = None) -> tuple[Address, ...]:
        """The addresses to call. Raises NotSent when a single one of them may not be called, or there is none."""
        target = target or _target_of(subscription)
        try:
            addresses = await addresses_of(target, self._lookup)
        except ToolError as error:
            raise NotSent(str(error)) from error
        own = [one for one in addresses if not is_public(one)]
        if closed := [one for one in own if not subscription.allows(one)]:
            fix = f'name it in allow_private = ["{closed[0]}"] if that is meant'
            raise NotSent(f"{target.host} is at {closed[0]}, an address of a private network; {fix}")
        if target.scheme == "http" and len(own) < len(addresses):
            raise NotSent(f"{target.host} is on the internet, where only https:// is called")
        return addresses[:MOST]


def _target_of(subscription: EventSettings) -> Target:
    try:
        return named_target(subscription.address)
    except ToolError as error:  # its text may hold the address, which is a secret
        raise NotSent("the address of its section cannot be called; look at url") from error
