"""Which addresses belong to the public internet; all others are somebody's own network, and may be ours. Pure."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address

# What `is_global` of some Python still takes for public.
_ALSO_CLOSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(one)
    for one in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
        "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
    )
)  # fmt: skip
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")


def is_public(address: Address) -> bool:
    """Whether it, and every older address that is written into it, is on the public internet."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    if any(not is_public(inner) for inner in _within(address)):
        return False
    if isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address in _NAT64):
        return True  # the address within is, and these forms are closed by themselves
    closed = any(address in network for network in _ALSO_CLOSED if network.version == address.version)
    return address.is_global and not closed and not (address.is_multicast or address.is_reserved)


def _within(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to: mapped, compatible, 6to4, NAT64, Teredo."""
    if not isinstance(address, IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address in _NAT64 or address in _COMPATIBLE:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        yield IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
    if address.teredo is not None:
        yield from address.teredo
