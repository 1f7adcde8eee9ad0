"""Sending, against the real library: nonces, pings, rate limits, cuts, long answers, files in."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from adapters.discord.channel import DiscordChannel
from adapters.discord.limits import TEXT_LIMIT
from adapters.discord.render import measure
from agent.core.clock import SystemClock
from gateway.channels.channel import Attempt
from gateway.channels.document import Paragraph, Plain, Text
from gateway.channels.errors import ChannelBusy, ChannelFatal, ChannelGone, ChannelRejected, ChannelUnsure
from gateway.channels.inbound import MessageReceived
from gateway.channels.outbound import Button, File, Outbound, SentRef
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import split
from gateway.testing.channel_contract import plain
from tests.adapters.discord.harness import (
    DM,
    GENERAL,
    Discord,
    DiscordHarness,
    House,
    LaterClock,
    connected,
    eventually,
    given,
)
from tests.adapters.discord.reading import readable
from tests.adapters.patience import at_last


@pytest.fixture
async def harness(discord: Discord, services: House) -> AsyncIterator[DiscordHarness]:
    async with connected(discord, services) as adapter:
        yield DiscordHarness(discord, services, adapter)


async def test_a_key_is_sent_as_an_enforced_nonce(harness: DiscordHarness) -> None:
    sent = await harness.channel.send(plain("x", key="o-123456789-0"))
    (call,) = await harness.discord.calls("create_message")
    assert (call["body"]["nonce"], call["body"]["enforce_nonce"]) == ("o-123456789-0", True)
    assert await harness.channel.send(plain("x", key="o-123456789-0")) == sent
    assert len(harness.discord.mine()) == 1


async def test_a_key_discord_cannot_hold_is_refused_before_it_is_sent(harness: DiscordHarness) -> None:
    with pytest.raises(ChannelRejected, match="25 characters"):
        await harness.channel.send(plain("x", key="k" * 26))
    assert not await harness.discord.calls("create_message")


async def test_nobody_is_ever_pinged(harness: DiscordHarness) -> None:
    sent = await harness.channel.send(plain("@everyone <@500000000000000001>"))
    await harness.channel.edit(sent, plain("@here"))
    await harness.channel.send_ephemeral(plain("@everyone"), None)
    bodies = [
        call["body"] for call in harness.discord.double.calls if call["name"] in ("create_message", "edit_message")
    ]
    assert [body["allowed_mentions"] for body in bodies] == [{"parse": []}] * 3


async def test_our_message_is_found_by_its_nonce_though_the_history_does_not_give_it(harness: DiscordHarness) -> None:
    """The gateway's echo of the message has it."""
    await harness.discord.fault("create_message", "drop_after")
    with pytest.raises(ChannelUnsure):
        await harness.channel.send(plain("once", key="k-1"))
    (message,) = harness.discord.mine()
    assert "nonce" not in message
    found: list[SentRef | None] = []

    async def is_found() -> bool:
        found.append(await given(harness.channel.history).find("k-1"))
        return found[-1] is not None

    await eventually(is_found)
    assert found[-1] == SentRef(message["id"])
    assert len(await harness.discord.calls("create_message")) == 1, "what this process sent is not asked for"


# -- after a restart


@asynccontextmanager
async def restarted(discord: Discord, services: House, *, later_s: float) -> AsyncIterator[DiscordChannel]:
    """The next process's direct conversation, `later_s` after the one before by everybody's clock."""
    await discord.control("settings", {"clock_ahead": later_s})
    later = House(services.adapter_context.home, clock=LaterClock(later_s))
    async with connected(discord, later) as adapter:
        yield adapter.channel(DM)


def may_have_been_sent(text: str, since: datetime, *others: str, **more: Any) -> Attempt:
    message = Outbound(document=(Plain(text),), key="k-1", **more)
    return Attempt(message=message, since=since, others=frozenset(others))


@pytest.mark.requirement("G-08")
async def test_minutes_after_a_restart_discord_itself_finds_our_message_by_its_key(
    discord: Discord, services: House
) -> None:
    async with connected(discord, services) as adapter:
        sent = await adapter.channel(DM).send(plain("a preview", key="k-1"))
    async with restarted(discord, services, later_s=60) as channel:
        history = given(channel.history)
        assert await history.find("k-1") == sent
        assert await history.find("k-1") == sent
        assert [m["content"] for m in discord.mine()] == ["a preview"]
        assert await history.find("k-2") is None
        assert await history.find("k-2") is None
        assert [m["content"] for m in discord.mine()] == ["a preview"], "what was sent to ask is gone"
        assert len(await discord.calls("create_message")) == 3, "it is asked once for each"


async def test_what_an_earlier_process_sent_with_the_key_makes_no_message_after_it_was_asked_for(
    discord: Discord, services: House
) -> None:
    async with restarted(discord, services, later_s=0) as channel:
        assert await given(channel.history).find("k-1") is None
        await channel.send(plain("on its way for long", key="k-1"))
        assert discord.mine() == []


async def test_what_was_said_to_ask_and_could_not_be_taken_away_is_found(discord: Discord, services: House) -> None:
    async with restarted(discord, services, later_s=0) as channel:
        await discord.control("gateway", {"action": "deafen"})  # no echo will tell of it
        await discord.fault("delete_message", "server_error", status=503)
        with pytest.raises(ChannelBusy):
            await given(channel.history).find("k-1")
        (left,) = discord.mine()
        found = await given(channel.history).find("k-1")
        assert found == SentRef(left["id"])
        await channel.delete(found)
    assert discord.mine() == []


@pytest.mark.requirement("G-08")
@pytest.mark.parametrize("later_s", [60, 600], ids=["a minute later", "ten minutes later"])
async def test_after_a_restart_an_answer_is_not_sent_twice(discord: Discord, services: House, later_s: float) -> None:
    """Discord forgets keys after some minutes and never tells them: then the message is known by its looks."""
    since = services.adapter_context.clock.now()
    async with connected(discord, services) as adapter:
        sent = await adapter.channel(DM).send(plain("  once *and* for all\n", key="k-1"))
    async with restarted(discord, services, later_s=later_s) as channel:
        await discord.says("and then?")
        attempt = may_have_been_sent("  once *and* for all\n", since)
        found = await given(channel.history).find("k-1", attempt)
        assert (found or await channel.send(attempt.message)) == sent
    assert len(discord.mine()) == 1


async def test_an_answer_that_did_not_arrive_is_not_taken_for_an_earlier_one_of_the_same_words(
    discord: Discord, services: House
) -> None:
    since = services.adapter_context.clock.now()
    async with connected(discord, services) as adapter:
        earlier = await adapter.channel(DM).send(plain("Yes.", key="k-0"))
    async with restarted(discord, services, later_s=600) as channel:
        history = given(channel.history)
        assert await history.find("k-1", may_have_been_sent("Yes.", since, earlier.id)) is None
        soon = since + timedelta(seconds=30)
        assert await history.find("k-1", may_have_been_sent("No.", soon)) is None, "it was there before"
        later = since + timedelta(minutes=5)
        assert await history.find("k-1", may_have_been_sent("Yes.", later)) is None


async def test_a_message_of_ours_that_reads_otherwise_leaves_it_open(discord: Discord, services: House) -> None:
    since = services.adapter_context.clock.now()
    async with connected(discord, services) as adapter:
        asked = await discord.says("why?")
        await adapter.channel(DM).send(plain("because", reply_to=asked))
    async with restarted(discord, services, later_s=600) as channel:
        history = given(channel.history)
        with pytest.raises(ChannelUnsure):
            await history.find("k-1", may_have_been_sent("because it is", since))
        with pytest.raises(ChannelUnsure):
            await history.find("k-1", may_have_been_sent("because", since, reply_to="300000000000000009"))
        assert await history.find("k-1", may_have_been_sent("because", since, reply_to=asked)) is not None


async def test_a_message_of_files_alone_is_known_by_their_sizes(
    discord: Discord, services: House, tmp_path: Path
) -> None:
    since = services.adapter_context.clock.now()
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text("1")
    other.write_text("22")
    files = [(File(path=path, name=path.name, mime_type="text/plain"),) for path in (one, other)]
    async with connected(discord, services) as adapter:
        sent = await adapter.channel(DM).send(Outbound(document=(), key="k-1", files=files[0]))
    async with restarted(discord, services, later_s=600) as channel:
        history = given(channel.history)
        assert await history.find("k-1", may_have_been_sent("", since, files=files[0])) == sent
        with pytest.raises(ChannelUnsure):
            await history.find("k-1", may_have_been_sent("", since, files=files[1]))


# -- rate limits


@pytest.mark.requirement("G-09")
async def test_a_429_says_how_long_and_nothing_sleeps_inside(harness: DiscordHarness) -> None:
    await harness.discord.fault("create_message", "rate_limit", retry_after=40)
    began = time.monotonic()
    with pytest.raises(ChannelBusy) as raised:
        await harness.channel.send(plain("x"))
    assert raised.value.after_s == pytest.approx(40)
    with pytest.raises(ChannelBusy):  # known by now: not even asked again
        await harness.channel.send(plain("x"))
    assert time.monotonic() - began < 30
    assert len(await harness.discord.calls("create_message")) == 1


@pytest.mark.requirement("G-09")
async def test_one_chat_that_has_to_wait_does_not_hold_up_another(harness: DiscordHarness) -> None:
    await harness.discord.fault("create_message", "rate_limit", retry_after=30)
    with pytest.raises(ChannelBusy):
        await harness.channel.send(plain("x"))
    with anyio.fail_after(25):
        await harness.adapter.channel(GENERAL).send(plain("at once"))
    assert [m["content"] for m in harness.discord.mine(GENERAL)] == ["at once"]


@pytest.mark.requirement("G-09")
async def test_a_spent_bucket_is_not_asked_again_and_is_full_after_its_window(harness: DiscordHarness) -> None:
    await harness.discord.control("settings", {"rate_limits": True, "window": 60.0})
    for number in range(5):
        with anyio.fail_after(25):  # the last one of a bucket does not sleep either
            await harness.channel.send(plain(str(number)))
    with pytest.raises(ChannelBusy) as raised:
        await harness.channel.send(plain("five"))
    assert 0 < raised.value.after_s <= 60.0
    assert [m["content"] for m in harness.discord.mine()] == ["0", "1", "2", "3", "4"]
    await harness.discord.control("settings", {"window": 0.5})
    other = harness.adapter.channel(GENERAL)
    for number in range(12):
        try:
            await other.send(plain(str(number)))
        except ChannelBusy as busy:
            await anyio.sleep(busy.after_s + 0.05)
            await other.send(plain(str(number)))
    assert [m["content"] for m in harness.discord.mine(GENERAL)] == [str(number) for number in range(12)]
    assert all(call["status"] == 200 for call in await harness.discord.calls("create_message"))


@pytest.mark.requirement("G-09")
async def test_a_global_429_holds_the_whole_account(harness: DiscordHarness) -> None:
    await harness.discord.fault("create_message", "rate_limit", retry_after=20, **{"global": True})
    with pytest.raises(ChannelBusy):
        await harness.channel.send(plain("x"))
    with pytest.raises(ChannelBusy):
        await harness.adapter.channel(GENERAL).send(plain("x"))
    assert len(await harness.discord.calls("create_message")) == 1


# -- what went wrong, and what may be done next


@pytest.mark.requirement("Z-06", "Z-35")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param({"kind": "error", "status": 403, "code": 50001}, ChannelGone, id="missing access"),
        pytest.param({"kind": "error", "status": 403, "code": 50013}, ChannelGone, id="missing permissions"),
        pytest.param({"kind": "error", "status": 404, "code": 10003}, ChannelGone, id="unknown channel"),
        pytest.param({"kind": "error", "status": 403, "code": 50007}, ChannelGone, id="the person blocked the bot"),
        pytest.param({"kind": "error", "status": 400, "code": 50035}, ChannelRejected, id="invalid form"),
        pytest.param({"kind": "error", "status": 403, "code": 160002}, ChannelRejected, id="no reply allowed"),
        pytest.param({"kind": "server_error", "status": 500}, ChannelUnsure, id="500"),
        pytest.param({"kind": "server_error", "status": 503}, ChannelUnsure, id="503"),
        pytest.param({"kind": "drop"}, ChannelUnsure, id="cut before"),
        pytest.param({"kind": "drop_after"}, ChannelUnsure, id="cut after"),
        pytest.param({"kind": "garbled"}, ChannelUnsure, id="an answer that is no JSON"),
        pytest.param({"kind": "garbled", "text": "<p>", "type": "text/html"}, ChannelUnsure, id="a proxy's page"),
        pytest.param({"kind": "turned_away"}, ChannelBusy, id="turned away by Cloudflare"),
    ],
)
async def test_errors_of_a_send(harness: DiscordHarness, fault: dict[str, object], error: type[Exception]) -> None:
    kind = str(fault.pop("kind"))
    await harness.discord.fault("create_message", kind, message="no", **fault)
    with pytest.raises(error) as raised:
        await harness.channel.send(plain("x"))
    assert type(raised.value) is error
    await harness.channel.send(plain("the next one goes through"))


@pytest.mark.requirement("Z-36")
async def test_a_token_that_was_revoked_is_fatal(harness: DiscordHarness) -> None:
    harness.discord.double.token = "another"
    with pytest.raises(ChannelFatal, match="Reset Token"):
        await harness.channel.send(plain("x"))


async def test_an_edit_that_was_cut_may_be_repeated(harness: DiscordHarness) -> None:
    sent = await harness.channel.send(plain("a"))
    await harness.discord.fault("edit_message", "drop_after")
    with pytest.raises(ChannelBusy):
        await harness.channel.edit(sent, plain("b"))
    await harness.channel.edit(sent, plain("b"))


async def test_a_forbidden_reaction_does_not_close_the_place(harness: DiscordHarness) -> None:
    said = await harness.says("hi")
    await harness.discord.fault("react", "error", status=403, code=90001, message="Reaction blocked")
    with pytest.raises(ChannelRejected) as raised:
        await given(harness.channel.presence).react(said, "👀")
    assert not isinstance(raised.value, ChannelGone)


async def test_before_the_login_a_send_is_busy(discord: Discord, services: House) -> None:
    from adapters.discord.adapter import DiscordAdapter

    adapter = DiscordAdapter(discord.settings(), services.adapter_context)
    with pytest.raises(ChannelBusy):
        await adapter.channel(DM).send(plain("x"))


async def test_a_refused_connection_is_no_ambiguity(harness: DiscordHarness, discord: Discord) -> None:
    """A channel that keeps keys may be sent the same again."""
    await discord.goes_down()
    with pytest.raises(ChannelBusy):
        await harness.channel.send(plain("x"))


# -- long answers

LONG = "\n\n".join(
    f"# Part {n} 🚀\n\nWords with **bold {n}**, `code_{n}`, a [link](https://example.org/{n}) and emoji 👩‍👩‍👧‍👦. "
    + "More words follow here, quite a few of them. " * 17
    + f"\n\n```python\ndef f_{n}():\n    return '{'x' * 40}'  # {n}\n```\n\n"
    + f"| name | value |\n|---|---:|\n| row {n} | {n} |\n| other | {n * n} |\n\n- one\n- two\n  - nested {n}"
    for n in range(10)
)


@pytest.mark.requirement("G-10")
async def test_a_long_answer_arrives_whole_in_messages_that_fit(harness: DiscordHarness) -> None:
    assert len(LONG) > 10_000
    document = parse(LONG)
    for part in split(document, TEXT_LIMIT, measure):
        await at_last(partial(harness.channel.send, Outbound(document=part)), SystemClock(), hasty=False)
    contents = [m["content"] for m in harness.discord.mine()]
    assert len(contents) > 3
    assert all(len(content) <= TEXT_LIMIT for content in contents)
    assert all(content.count("```") % 2 == 0 for content in contents)
    read = "\n".join(map(readable, contents))
    for n in range(10):
        for piece in (
            f"bold {n}",
            f"def f_{n}():\n    return '{'x' * 40}'  # {n}",
            f"row {n}",
            f"nested {n}",
            "👩‍👩‍👧‍👦",
        ):
            assert piece in read


@pytest.mark.requirement("G-10")
async def test_text_of_2000_characters_goes_and_of_2001_is_rejected(harness: DiscordHarness) -> None:
    await harness.channel.send(plain("x" * 2000))
    with pytest.raises(ChannelRejected):
        await harness.channel.send(plain("x" * 2001))


@pytest.mark.requirement("G-11")
async def test_edits_are_a_second_and_a_half_apart_unless_configured(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        assert adapter.channel(DM).capabilities.stream_every_s == 1.5
    async with connected(discord, services, stream_interval_ms=3000, reactions=False) as adapter:
        assert adapter.channel(DM).capabilities.stream_every_s == 3.0
        assert adapter.channel(DM).capabilities.reactions is False


async def test_more_buttons_than_a_row_holds_go_on_in_the_next(harness: DiscordHarness) -> None:
    buttons = tuple(Button(label=str(n), action=f"b:{n}") for n in range(12))
    await harness.channel.send(Outbound(document=(Plain("pick"),), buttons=(buttons,)))
    (message,) = harness.discord.mine()
    assert [len(row["components"]) for row in message["components"]] == [5, 5, 2]
    with pytest.raises(ChannelRejected, match="25 buttons"):
        await harness.channel.send(Outbound(document=(Plain("x"),), buttons=(buttons, buttons, buttons)))


async def test_silent_and_previews_are_flags(harness: DiscordHarness) -> None:
    await harness.channel.send(Outbound(document=(Plain("https://example.org"),), silent=True))
    await harness.channel.send_ephemeral(plain("status"), None)
    assert [m["flags"] for m in harness.discord.mine()] == [4096 | 4, 4096 | 4]


# -- files in


async def test_an_attachment_is_fetched_and_its_address_asked_for_anew(harness: DiscordHarness, tmp_path: Path) -> None:
    await harness.discord.says("see", files=[{"name": "a.txt", "text": "hello"}])
    await eventually(lambda: bool(harness.services.of(MessageReceived)))
    (attachment,) = harness.services.of(MessageReceived)[0].attachments
    assert (attachment.name, attachment.kind, attachment.size) == ("a.txt", "file", 5)
    assert await given(harness.channel.files).fetch(attachment, tmp_path / "a", limit=10) == 5
    assert (tmp_path / "a").read_text() == "hello"

    channel, message, number, url = attachment.handle.split(" ")
    expired = type(attachment)(
        kind="file",
        handle=f"{channel} {message} {number} {url.replace(number, '1')}",
        name="a.txt",
        mime_type="text/plain",
    )
    assert await given(harness.channel.files).fetch(expired, tmp_path / "b", limit=10) == 5
    with pytest.raises(ChannelRejected, match="larger than 4 bytes"):
        await given(harness.channel.files).fetch(expired, tmp_path / "c", limit=4)
    assert not (tmp_path / "c").exists()
    assert not any(call["name"] == "attachment" for call in harness.discord.double.calls)


async def test_the_address_of_a_forwarded_file_is_asked_for_anew(harness: DiscordHarness, tmp_path: Path) -> None:
    await harness.discord.says("", forward={"content": "see", "files": [{"name": "a.txt", "text": "hello"}]})
    await eventually(lambda: bool(harness.services.of(MessageReceived)))
    quoted = given(harness.services.of(MessageReceived)[0].quoted)
    (attachment,) = quoted.attachments
    number, url = attachment.handle.split(" ")[2:]
    expired = replace(attachment, handle=attachment.handle.replace(url, url.replace(number, "1")))
    assert await given(harness.channel.files).fetch(expired, tmp_path / "a", limit=10) == 5
    assert (tmp_path / "a").read_text() == "hello"


async def test_a_file_that_is_gone_is_rejected(harness: DiscordHarness, tmp_path: Path) -> None:
    message_id = await harness.discord.says("see", files=[{"name": "a.txt", "text": "hello"}])
    await eventually(lambda: bool(harness.services.of(MessageReceived)))
    (attachment,) = harness.services.of(MessageReceived)[0].attachments
    harness.discord.double.attachments.clear()
    del harness.discord.double.messages[DM, message_id]
    with pytest.raises(ChannelRejected):
        await given(harness.channel.files).fetch(attachment, tmp_path / "a", limit=10)


async def test_a_paragraph_can_be_edited_into_a_plain_text(harness: DiscordHarness) -> None:
    sent = await harness.channel.send(Outbound(document=(Paragraph((Text("a *b"),)),)))
    await harness.channel.edit(sent, plain("a *b*"))
    assert [readable(m["content"]) for m in harness.discord.mine()] == ["a *b*"]
