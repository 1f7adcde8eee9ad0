"""Checks of a request's host and origin."""

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.config.sections import WebSettings
from gateway.web.request_checks import directly_local, host_allowed, origin_allowed, own_hosts

LOCAL = WebSettings()
REMOTE = WebSettings(host="0.0.0.0", allow_remote=True, public_url="https://chat.example.org", allowed_hosts=("lan",))


@pytest.mark.parametrize(
    ("settings", "host", "allowed"),
    [
        pytest.param(LOCAL, "127.0.0.1:8080", True, id="the address it is bound to"),
        pytest.param(LOCAL, "LOCALHOST:8080", True, id="this machine by name"),
        pytest.param(LOCAL, "[::1]:8080", True, id="this machine in the new form"),
        pytest.param(LOCAL, "127.0.0.1:9999", False, id="another port"),
        pytest.param(LOCAL, "evil.example:8080", False, id="a name that was made to point here"),
        pytest.param(LOCAL, "192.168.1.5:8080", False, id="an address it is not bound to"),
        pytest.param(LOCAL, "", False, id="no host"),
        pytest.param(REMOTE, "chat.example.org", True, id="the public name"),
        pytest.param(REMOTE, "lan:8080", True, id="a name that was allowed"),
        pytest.param(REMOTE, "192.168.1.5:8080", True, id="an address cannot be rebound"),
        pytest.param(REMOTE, "[fe80::1]:8080", True, id="nor one of the new form"),
        pytest.param(REMOTE, "evil.example", False, id="any other name"),
        pytest.param(REMOTE, "192.168.1.5.evil.example", False, id="a name that begins like an address"),
    ],
)
def test_host_allowed(settings: WebSettings, host: str, allowed: bool) -> None:
    assert host_allowed(host, settings, own_hosts(settings, 8080)) is allowed


@pytest.mark.parametrize(
    ("origin", "fetch_site", "allowed"),
    [
        pytest.param("http://127.0.0.1:8080", None, True, id="our own page"),
        pytest.param("http://evil.example", "same-origin", False, id="another site, whatever it says of itself"),
        pytest.param("null", None, False, id="a sandboxed page"),
        pytest.param("http://127.0.0.1:9999", None, False, id="another program on this machine"),
        pytest.param(None, "same-origin", True, id="a browser without an origin"),
        pytest.param(None, "cross-site", False, id="another site without an origin"),
        pytest.param(None, None, True, id="no browser at all"),
    ],
)
def test_origin_allowed(origin: str | None, fetch_site: str | None, allowed: bool) -> None:
    hosts = own_hosts(LOCAL, 8080)
    assert origin_allowed(origin=origin, fetch_site=fetch_site, host="127.0.0.1:8080", hosts=hosts) is allowed


@pytest.mark.parametrize(
    ("client", "headers", "local"),
    [
        pytest.param("127.0.0.1", {"host": "localhost:8080"}, True, id="from this machine"),
        pytest.param("::1", {"host": "[::1]:8080"}, True, id="in the new form"),
        pytest.param("10.0.0.7", {"host": "127.0.0.1:8080"}, False, id="from another one"),
        pytest.param("127.0.0.1", {"host": "127.0.0.1", "x-forwarded-for": "10.0.0.7"}, False, id="through a proxy"),
        pytest.param("127.0.0.1", {"host": "chat.example.org"}, False, id="through one that keeps the name"),
        pytest.param(None, {"host": "localhost"}, False, id="from nowhere"),
    ],
)
def test_directly_local(client: str | None, headers: dict[str, str], local: bool) -> None:
    assert directly_local(client, headers, LOCAL) is local
    assert not directly_local(client, headers, WebSettings(public_url="https://chat.example.org"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(WebSettings(host="0.0.0.0"), "allow_remote = true", id="open to others without saying so"),
        pytest.param(WebSettings(port=70000), "no port", id="no port"),
        pytest.param(WebSettings(public_url="chat.example.org"), "https://chat.example.org", id="no scheme"),
        pytest.param(WebSettings(public_url="https://a.example/x"), "scheme and host alone", id="a path"),
        pytest.param(WebSettings(trusted_proxies=("*",)), "name each proxy", id="every proxy"),
        pytest.param(WebSettings(trusted_proxies=("0.0.0.0/0",)), "name each proxy", id="the whole world"),
    ],
)
def test_settings_that_cannot_be_meant_are_named_with_the_fix(settings: WebSettings, words: str) -> None:
    (mistake,) = settings.mistakes()
    assert mistake.startswith("web.")
    assert words in mistake


def test_an_unknown_key_is_a_mistake() -> None:
    with pytest.raises(ValidationError, match="hots"):
        TypeAdapter(WebSettings).validate_python({"hots": "x"})
