"""Resolution of a target, once: all its addresses are checked, and one of them is connected to."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address

import anyio

from agent.core.errors import ToolError
from agent.tools.web.addresses import Address, NotAllowed, Target, is_public

WITHIN_S = 5.0
MOST = 2  # addresses that are tried

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]


async def look_up(host: str, port: int) -> Sequence[str]:
    """The answer of the system's resolver, numbers in any notation included. Raises OSError."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def resolved(target: Target, lookup: Lookup = look_up) -> tuple[Address, ...]:
    """Where to connect to. Raises NotAllowed when a single one of its addresses is not public, ToolError for none."""
    addresses = await addresses_of(target, lookup)
    closed = [address for address in addresses if not is_public(address)]
    if closed and not target.internal:
        raise NotAllowed(f"{target.host} is in a private network; the operator may open it ([tools.web] internal)")
    return addresses[:MOST]


async def addresses_of(target: Target, lookup: Lookup = look_up) -> tuple[Address, ...]:
    """All its addresses, for who has a policy of their own. Raises ToolError for none."""
    try:
        with anyio.fail_after(WITHIN_S):
            found = await lookup(target.host, target.port)
    except TimeoutError as error:
        raise ToolError(f"{target.host} could not be looked up within {WITHIN_S:g} s", transient=True) from error
    except (OSError, UnicodeError) as error:
        raise ToolError(f"there is no host {target.host}") from error
    addresses = tuple(ip_address(one) for one in found)
    if not addresses:
        raise ToolError(f"{target.host} has no address")
    return addresses
