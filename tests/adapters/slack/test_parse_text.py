"""Slack's wire text and what a person reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.account import Address, address_of, is_ts
from adapters.slack.parse import escaped, readable, without_mention
from adapters.slack.presence import emoji_name


@pytest.mark.parametrize(
    ("wire", "shown"),
    [
        ("plain", "plain"),
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("see <https://x.org/a?b=1&amp;c=2>", "see https://x.org/a?b=1&c=2"),
        ("see <https://x.org/a|the page>", "see the page (https://x.org/a)"),
        ("see <http://x.org|x.org>", "see x.org"),
        ("<mailto:a@x.org|a@x.org>", "a@x.org"),
        ("<mailto:a@x.org|Ann>", "Ann (a@x.org)"),
        ("<@U123> and <@U124|ann>", "@U123 and @ann"),
        ("<#C1|general> <#C2>", "#general #C2"),
        ("<!here> <!channel|@channel> <!subteam^S1|@team> <!subteam^S1>", "@here @channel @team @subteam"),
        ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
        ("a <b> c", "a <b> c"),
        ("a < b", "a < b"),
    ],
)
def test_readable(wire: str, shown: str) -> None:
    assert readable(wire) == shown


@given(st.text())
def test_escaped_text_reads_as_it_was(text: str) -> None:
    wire = escaped(text)
    assert readable(wire) == text
    assert "<" not in wire


@pytest.mark.parametrize(
    ("wire", "rest"),
    [
        ("<@B> hi", "hi"),
        ("<@B>: hi", "hi"),
        ("  <@B>, hi\nthere", "hi\nthere"),
        ("hi <@B>", "hi"),
        ("hi <@B|tie>, you", "hi, you"),
        ("<@B>", ""),
        ("<@B> <@B> hi", "hi"),
    ],
)
def test_the_bots_name_is_taken_out(wire: str, rest: str) -> None:
    assert without_mention(wire, "B") == (rest, True)


@pytest.mark.parametrize("wire", ["hi", " hi <@C> ", "<@BB> hi", "@B hi"])
def test_other_text_is_left_alone(wire: str) -> None:
    assert without_mention(wire, "B") == (wire, False)
    assert without_mention("<@> hi", "") == ("<@> hi", False)


@pytest.mark.parametrize("channel_id", ["T1:C1", "T1:C1:1700000000.000100", "T1:D1"])
def test_addresses_come_back(channel_id: str) -> None:
    assert str(Address.parse(channel_id)) == channel_id


@pytest.mark.parametrize("channel_id", ["", "T1", "T1:", ":C1", "T1:C1:yesterday"])
def test_bad_addresses_are_named(channel_id: str) -> None:
    with pytest.raises(ValueError, match="not a Slack conversation"):
        Address.parse(channel_id)


def test_a_thread_keeps_its_place() -> None:
    address = address_of("T1", "C1", "2.000001", "1.000001", direct=False)
    assert (str(address), address.place, address.is_direct) == ("T1:C1:1.000001", "T1:C1", False)


@pytest.mark.parametrize(("text", "fits"), [("1700000000.000100", True), ("1700000000", False), ("1.2.3", False)])
def test_timestamps(text: str, fits: bool) -> None:
    assert is_ts(text) is fits


@pytest.mark.parametrize(
    ("emoji", "name"),
    [("👀", "eyes"), ("❤️", "heart"), ("⚠️", "warning"), (":party_parrot:", "party_parrot"), ("+1", "+1"), ("🦑", None)],
)
def test_emoji_names(emoji: str, name: str | None) -> None:
    assert emoji_name(emoji) == name
