"""Addresses that may be fetched (SSRF); the longer table is the hostile corpus."""

from ipaddress import ip_address

import pytest

from agent.core.errors import ToolError
from agent.tools.settings import WebSettings
from agent.tools.web.addresses import NotAllowed, is_public, target_of
from agent.tools.web.resolve import resolved


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_the_public_internet(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1",
     "192.0.0.8", "192.0.2.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0",
     "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::7f00:1",
     "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1",
     "2002:7f08:808:808::1", "fec0::1",
     "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "100::1", "5f00::1", "192.88.99.1"],
)  # fmt: skip
def test_somebodys_own_network(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("HTTPS://ExAmple.COM", "https://example.com/"),
        ("https://example.com./a?b=c#d", "https://example.com/a?b=c"),
        ("http://münchen.de/ä?q=ö", "http://xn--mnchen-3ya.de/%C3%A4?q=%C3%B6"),
        ("http://example.com:8080/%2e", "http://example.com:8080/%2e"),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
    ],
)
def test_one_reading(url: str, asked: str) -> None:
    assert target_of(url, WebSettings()).url == asked


def test_what_the_operator_sets() -> None:
    opened = WebSettings(internal=("127.0.0.1:8888", "wiki.corp"), blocked=("ads.net",), only=("org",))
    assert target_of("http://127.0.0.1:8888/", opened).internal
    assert target_of("http://wiki.corp/", opened).internal
    assert not target_of("https://python.org/", opened).internal
    for url in ("https://x.ads.net/", "https://python.com/", "http://wiki.corp.evil.com/"):
        with pytest.raises(NotAllowed, match="operator"):
            target_of(url, opened)
    with pytest.raises(NotAllowed):
        target_of("http://wiki.corp:22/", WebSettings())


async def test_one_private_address_among_public_ones_is_enough() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    async def nobody(host: str, port: int) -> list[str]:
        raise OSError("not known")

    with pytest.raises(NotAllowed, match="private network"):
        await resolved(target_of("http://example.com/", WebSettings()), lookup)
    with pytest.raises(ToolError, match="there is no host"):
        await resolved(target_of("http://example.com/", WebSettings()), nobody)
    opened = target_of("http://example.com/", WebSettings(internal=("example.com",)))
    assert len(await resolved(opened, lookup)) == 2


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0", "017700000001", "0x7f000001"])
async def test_numbers_in_any_notation_are_what_they_resolve_to(host: str) -> None:
    with pytest.raises(ToolError):
        await resolved(target_of(f"http://{host}/", WebSettings()))
