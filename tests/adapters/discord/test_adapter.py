"""The connection: logins that fail, faults of the gateway, order, catch-up, deafness, the end."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from adapters.discord.adapter import DiscordAdapter
from adapters.discord.limits import snowflake_at
from gateway.channels.adapter import State
from gateway.channels.errors import ChannelBusy, ChannelFatal, ChannelUnsure, GatewayUnavailable
from gateway.channels.inbound import ChatType, Deleted, Edited, Inbound, Membership, Mention, MessageReceived
from gateway.channels.outbound import CommandSpec
from gateway.testing.channel_contract import plain
from gateway.testing.harness import running
from tests.adapters.discord.harness import (
    ANN,
    BOT,
    DM,
    GENERAL,
    GUILD,
    TOKEN,
    Discord,
    House,
    connected,
    eventually,
    place,
)
from tests.doubles.discord_api import CONTENT, PRIVILEGED
from tests.fakes.clock import FakeClock

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


# -- the login


@pytest.mark.requirement("Z-36", "G-28")
async def test_a_bad_token_is_fatal_with_the_fix_and_without_the_token(discord: Discord, services: House) -> None:
    adapter = DiscordAdapter(discord.settings(token="very-secret-token"), services.adapter_context)
    with pytest.raises(ChannelFatal, match="Reset Token") as raised, anyio.fail_after(60):
        await adapter.run(services.admit)
    assert "very-secret" not in str(raised.value)
    assert adapter.health().state is State.FAILED
    assert "Reset Token" in adapter.health().detail


@pytest.mark.requirement("Z-36")
async def test_a_missing_intent_is_fatal_with_the_fix(discord: Discord, services: House) -> None:
    await discord.control("settings", {"privileged_intents": PRIVILEGED & ~CONTENT})
    adapter = DiscordAdapter(discord.settings(), services.adapter_context)
    with pytest.raises(ChannelFatal, match="Message Content intent"), anyio.fail_after(60):
        await adapter.run(services.admit)
    async with connected(discord, services, message_content=False) as adapter:
        await discord.says("unseen", GENERAL)
        await discord.says(f"<@{BOT}> seen", GENERAL)
        await eventually(lambda: services.texts() == ["seen"])


async def test_a_platform_that_is_down_at_the_start_is_waited_for(discord: Discord, services: House) -> None:
    await discord.fault("me", "server_error", status=503)
    async with connected(discord, services) as adapter:
        assert adapter.health().hears
    assert [call.get("status") for call in await discord.calls("me")][:2] == [503, 200]


async def test_health_tells_the_way(discord: Discord, services: House) -> None:
    adapter = DiscordAdapter(discord.settings(), services.adapter_context)
    assert adapter.health().state is State.STARTING
    async with running(lambda: adapter.run(services.admit)):
        await eventually(lambda: adapter.health().hears)
        heard = adapter.health().last_event_at
        assert heard is not None
        assert abs((datetime.now(UTC) - heard).total_seconds()) < 60
    assert not adapter.health().hears


async def test_the_end_is_quick_and_leaves_nothing_open(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        await adapter.channel(DM).send(plain("x"))
        began = time.monotonic()
    assert time.monotonic() - began < 15
    await eventually(lambda: not discord.double.connections)
    await adapter.aclose()
    with pytest.raises(ChannelBusy):
        await adapter.channel(DM).send(plain("x"))


# -- what is heard


async def test_a_guild_channel_a_thread_and_a_direct_message(discord: Discord, services: House) -> None:
    async with connected(discord, services):
        said = await discord.says("no mention", GENERAL)
        thread = await discord.thread(GENERAL, said)
        await discord.says(f"hey <@{BOT}>, look", GENERAL)
        await discord.says("in the thread", thread)
        await discord.says("direct")
        await eventually(lambda: len(services.of(MessageReceived)) == 4)
        found = {said.text: said for said in services.of(MessageReceived)}
        group, own, direct = found["hey, look"], found["in the thread"], found["direct"]
        assert (group.mention, group.chat_type, group.place, group.grantable) == (
            Mention.DIRECT,
            ChatType.GROUP,
            GENERAL,
            (GUILD,),
        )
        assert group.chat_title == "Double #general"
        assert group.sender.is_chat_admin  # ann owns the server
        assert found["no mention"].mention is Mention.NONE
        assert (own.key.channel_id, own.place, own.mention) == (thread, GENERAL, Mention.IMPLICIT)
        assert (direct.chat_type, direct.key.channel_id, direct.grantable) == (ChatType.DIRECT, DM, ())
        assert not direct.sender.is_chat_admin


async def test_a_reply_to_the_bot_addresses_it_and_quotes(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        sent = await adapter.channel(GENERAL).send(plain("my answer"))
        await discord.says("and why?", GENERAL, reply_to=sent.id)
        await eventually(lambda: bool(services.of(MessageReceived)))
        (said,) = services.of(MessageReceived)
        assert (said.mention, said.text) == (Mention.IMPLICIT, "and why?")
        assert said.quoted is not None
        assert (said.quoted.text, said.quoted.is_own, said.quoted.message_id) == ("my answer", True, sent.id)


async def test_edits_and_deletions_of_people_only(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        sent = await adapter.channel(DM).send(plain("mine"))
        await adapter.channel(DM).edit(sent, plain("mine, changed"))
        await adapter.channel(DM).delete(sent)
        said = await discord.says("befor")
        message = discord.double.messages[DM, said]
        await discord.event(t="MESSAGE_UPDATE", d={**message, "embeds": [{"type": "link"}]})  # a link unfolded
        changed = {**message, "content": "before", "edited_timestamp": "2026-01-01T12:00:00+00:00"}
        await discord.event(t="MESSAGE_UPDATE", d=changed)
        await discord.event(t="MESSAGE_DELETE", d={"id": said, "channel_id": DM})
        await discord.event(t="MESSAGE_DELETE_BULK", d={"ids": [said, sent.id], "channel_id": DM})
        await eventually(lambda: len(services.of(Deleted)) == 2)
        (edited,) = services.of(Edited)
        assert (edited.text, edited.version, edited.message_id) == ("before", "2026-01-01T12:00:00+00:00", said)
        assert [gone.message_id for gone in services.of(Deleted)] == [said, said]
        assert [type(inbound).__name__ for inbound in services.admitted] == [
            "MessageReceived",
            "Edited",
            "Deleted",
            "Deleted",
        ]


@pytest.mark.requirement("G-12")
async def test_other_bots_are_marked_and_own_messages_ignored(discord: Discord, services: House) -> None:
    async with connected(discord, services):
        said = await discord.says("from a person")
        message = discord.double.messages[DM, said]
        other = {**message["author"], "id": "600000000000000001", "bot": True}
        await discord.event(t="MESSAGE_CREATE", d={**message, "id": "9" * 18, "author": other})
        own = {**message["author"], "id": BOT, "bot": True}
        await discord.event(t="MESSAGE_CREATE", d={**message, "id": "8" * 18, "author": own})
        hook = {**message, "id": "7" * 18, "webhook_id": "700000000000000001"}
        await discord.event(t="MESSAGE_CREATE", d=hook)
        await eventually(lambda: len(services.of(MessageReceived)) == 3)
        assert [said.sender.is_bot for said in services.of(MessageReceived)] == [False, True, True]


async def test_places_that_close(discord: Discord, services: House) -> None:
    services.places = [place(GENERAL, None, datetime.now(UTC))]
    async with connected(discord, services):
        await discord.control("channels", {"channels": [{"id": "300000000000000009", "name": "gone"}]})
        channel = discord.double.channels["300000000000000009"]
        await discord.event(t="CHANNEL_CREATE", d=channel)
        await discord.event(t="CHANNEL_DELETE", d=channel)
        await eventually(lambda: len(services.of(Membership)) == 1)
        await discord.event(t="GUILD_DELETE", d={"id": GUILD, "unavailable": True})  # an outage
        await discord.event(t="GUILD_CREATE", d=discord.double.guild())
        await discord.event(t="GUILD_DELETE", d={"id": GUILD})
        await eventually(lambda: len(services.of(Membership)) == 2)
        await discord.event(t="GUILD_CREATE", d=discord.double.guild())  # invited again
        await eventually(lambda: len(services.of(Membership)) == 3)
        told = [
            (found.key.channel_id, found.present, [key.channel_id for key in found.also])
            for found in services.of(Membership)
        ]
        assert told == [("300000000000000009", False, []), (GUILD, False, [GENERAL]), (GUILD, True, [GENERAL])]


def held_in_general(services: House) -> anyio.Event:
    """Keep messages of that channel from being stored until the event is set."""
    released = anyio.Event()

    async def held(inbound: Inbound) -> None:
        if inbound.key.channel_id == GENERAL:
            await released.wait()

    services.on_admit = held
    return released


async def test_one_place_in_order_and_many_at_once(discord: Discord, services: House) -> None:
    released = held_in_general(services)
    async with connected(discord, services):
        for number in range(20):
            await discord.says(f"g{number}", GENERAL)
            await discord.says(f"d{number}", DM)
        await eventually(lambda: services.texts() == [f"d{n}" for n in range(20)])
        released.set()
        await eventually(lambda: len(services.admitted) == 40)
        assert [said.text for said in services.of(MessageReceived) if said.key.channel_id == GENERAL] == [
            f"g{n}" for n in range(20)
        ]


async def test_what_waits_behind_another_counts_from_when_it_came(discord: Discord, services: House) -> None:
    """A stop that waits for a file must not end what began meanwhile."""
    released = held_in_general(services)
    async with connected(discord, services):
        await discord.says("a slow file", GENERAL)
        await discord.says("/stop", GENERAL)
        await discord.says("last", DM)
        await eventually(lambda: services.texts() == ["last"])
        all_came_at = datetime.now(UTC)
        released.set()
        await eventually(lambda: services.texts() == ["last", "a slow file", "/stop"])
        assert all(said.received_at <= all_came_at for said in services.of(MessageReceived))


async def test_what_cannot_be_stored_is_tried_again(discord: Discord, services: House) -> None:
    failures = iter([GatewayUnavailable("disk"), GatewayUnavailable("disk")])

    async def fail_twice(inbound: Inbound) -> None:
        for error in failures:
            raise error

    services.on_admit = fail_twice
    async with connected(discord, services):
        await discord.says("one")
        await discord.says("two")
        await eventually(lambda: services.texts() == ["one", "two"])


async def test_what_cannot_be_stored_for_long_is_tried_until_it_is(discord: Discord, tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC))
    services, broken = House(tmp_path, clock=clock), True

    async def fail(inbound: Inbound) -> None:
        if broken:
            raise GatewayUnavailable("disk")

    services.on_admit = fail
    async with connected(discord, services):
        await discord.says("one")

        async def goes_by() -> bool:
            clock.advance(1.0)
            await anyio.sleep(0.01)  # `eventually` asks again
            return clock.monotonic() > 1015

        await eventually(goes_by)
        broken = False
        assert services.texts() == []
        clock.advance(30.0)
        await eventually(lambda: services.texts() == ["one"])


@pytest.mark.requirement("G-28")
async def test_the_token_is_in_no_log(discord: Discord, services: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(discord, services) as adapter:
        await discord.fault("create_message", "server_error")
        with pytest.raises(ChannelUnsure):
            await adapter.channel(DM).send(plain("x"))
        await discord.control("gateway", {"action": "abort"})
        await discord.says("x")
        await eventually(lambda: bool(services.admitted))
    assert caplog.records
    assert TOKEN not in caplog.text


@pytest.mark.requirement("G-12")
async def test_an_event_told_twice_has_one_id(discord: Discord, services: House) -> None:
    async with connected(discord, services):
        await discord.says("twice", duplicate=1)
        await eventually(lambda: len(services.of(MessageReceived)) == 2)
        assert len({(said.key, said.message_id) for said in services.of(MessageReceived)}) == 1


# -- the gateway's faults


@pytest.mark.parametrize("action", ["reconnect", "abort", "invalidate_resumable"])
async def test_a_session_is_resumed_and_nothing_read_twice(discord: Discord, services: House, action: str) -> None:
    async with connected(discord, services) as adapter:
        await discord.says("before")
        await eventually(lambda: services.texts() == ["before"])
        services.places = [place(DM, services.of(MessageReceived)[0].message_id, datetime.now(UTC))]
        await discord.control("gateway", {"action": action})
        await discord.says("meanwhile")
        await eventually(lambda: services.texts() == ["before", "meanwhile"])
        await eventually(lambda: adapter.health().hears)
        assert not any(said.from_history for said in services.of(MessageReceived))
        assert len(discord.double.identifies) == 1
        assert not await discord.calls("list_messages")


async def test_a_new_session_catches_up(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        first = await discord.says("before")
        await eventually(lambda: services.texts() == ["before"])
        services.places = [place(DM, first, datetime.now(UTC))]
        await discord.control("gateway", {"action": "invalidate"})
        for text in ("lost one", "lost two"):
            await discord.says(text)  # nobody has a session: the event goes nowhere
        await eventually(lambda: services.texts() == ["before", "lost one", "lost two"])
        assert [said.from_history for said in services.of(MessageReceived)] == [False, True, True]
        await discord.says("live again")
        await eventually(lambda: services.texts()[-1] == "live again")
        assert adapter.health().hears


async def test_a_zombie_that_acknowledges_no_heartbeat_is_built_anew(discord: Discord, services: House) -> None:
    """Events still come, so the library sees nothing wrong."""
    await discord.control("settings", {"heartbeat_interval": 0.2, "check_heartbeat": False})
    async with connected(discord, services, deaf_after_s=1.0):
        await discord.control("settings", {"ack_heartbeats": False})
        with anyio.move_on_after(60):
            while len(discord.double.identifies) == 1:
                await discord.says("still here")
                await anyio.sleep(0.1)
        assert len(discord.double.identifies) > 1
        await discord.control("settings", {"ack_heartbeats": True})

        async def heard_again() -> bool:
            await discord.says("heard again")  # said until heard: a stop of a second makes the next link deaf as well
            return services.texts()[-1] == "heard again"

        await eventually(heard_again)


@contextmanager
def at_each(told: str, look: Callable[[], bool]) -> Iterator[list[bool]]:
    """Observations of `look`, one for each log line that begins so."""
    seen: list[bool] = []

    def note(record: logging.LogRecord) -> bool:
        if record.getMessage().startswith(told):
            seen.append(look())
        return True

    log = logging.getLogger("tieline.discord")
    log.addFilter(note)
    yield seen
    log.removeFilter(note)


@pytest.mark.slow
async def test_a_connection_that_beats_but_tells_nothing_is_built_anew(discord: Discord, services: House) -> None:
    await discord.control("settings", {"heartbeat_interval": 0.2})
    async with connected(discord, services, probe_idle_s=0.6, deaf_after_s=3.0) as adapter:
        await anyio.sleep(1.2)  # twice the silence that makes it ask
        assert len(discord.double.identifies) == 1  # idle, but it answers when asked
        first = await discord.says("before")
        await eventually(lambda: services.texts() == ["before"])
        services.places = [place(DM, first, datetime.now(UTC))]
        with at_each("Discord is deaf", lambda: adapter.health().hears) as heard_then:
            await discord.control("gateway", {"action": "deafen"})
            await discord.says("into the void")
            await eventually(lambda: services.texts() == ["before", "into the void"])
            await eventually(lambda: adapter.health().hears)
        assert heard_then[0] is False, "taking the old connection down lasts, and nobody is heard meanwhile"
        anew = len(discord.double.identifies)
        assert anew > 1  # not `== 2`: a machine that stalls for three seconds makes the next connection look deaf, too
        await anyio.sleep(1.2)  # twice the silence that makes it ask
        assert len(discord.double.identifies) == anew  # idle again, and left alone again


async def test_a_gateway_that_refuses_the_token_later_is_fatal(discord: Discord, services: House) -> None:
    adapter = DiscordAdapter(discord.settings(), services.adapter_context)

    async def revoke() -> None:
        await eventually(lambda: adapter.health().hears)
        discord.double.token = "another"
        await discord.control("gateway", {"action": "close", "code": 4004})

    async with running(revoke):
        with pytest.raises(ChannelFatal, match="Reset Token"), anyio.fail_after(20):
            await adapter.run(services.admit)
    assert adapter.health().state is State.FAILED


# -- catch-up at the start


async def test_at_the_start_young_messages_are_answered_and_old_ones_left(discord: Discord, services: House) -> None:
    old = await discord.says("old")
    message = discord.double.messages.pop((DM, old))
    moved = snowflake_at(datetime.now(UTC) - timedelta(hours=2))
    discord.double.messages[DM, moved] = {**message, "id": moved}
    for number in range(3):
        await discord.says(f"young {number}")
    services.places = [place(DM, snowflake_at(LONG_AGO), LONG_AGO)]
    async with connected(discord, services) as adapter:
        await eventually(
            lambda: services.texts() == ["old", "young 0", "young 1", "young 2"]
        )  # the house refuses the old
        assert all(said.from_history and said.sender.id == ANN for said in services.of(MessageReceived))
        assert "1 messages" in adapter.health().detail


async def test_pages_of_history_are_read_to_the_end_in_order(discord: Discord, services: House) -> None:
    for number in range(230):
        await discord.says(str(number), GENERAL)
    services.places = [place(GENERAL, snowflake_at(LONG_AGO), datetime.now(UTC))]
    async with connected(discord, services):
        await eventually(lambda: services.texts() == [str(n) for n in range(230)])


async def test_history_comes_before_what_arrives_live(discord: Discord, services: House) -> None:
    """The live message is there before the storage has told which places have to be read at all."""
    services.known_at = anyio.Event()
    services.places = [place(DM, snowflake_at(LONG_AGO), datetime.now(UTC))]
    for number in range(3):
        await discord.says(f"missed {number}")
    async with connected(discord, services):
        await discord.says("live")
        await discord.says("no history here", GENERAL)
        await anyio.wait_all_tasks_blocked()
        assert services.texts() == []
        services.known_at.set()
        await eventually(lambda: len(set(services.texts())) == 5)
        direct = [said.text for said in services.of(MessageReceived) if said.key.channel_id == DM]
        assert list(dict.fromkeys(direct)) == ["missed 0", "missed 1", "missed 2", "live"]


async def test_a_place_where_somebody_writes_is_read_at_once(discord: Discord, services: House) -> None:
    """Though all readers are busy elsewhere: newest first, but a person who waits comes before."""
    others = [f"30000000000000001{n}" for n in range(4)]
    await discord.control("channels", {"channels": [{"id": number, "name": "busy"} for number in others]})
    services.places = [place(number, snowflake_at(LONG_AGO), datetime.now(UTC)) for number in (*others, DM)]
    for number in others:
        await discord.fault("list_messages", "slow", delay=60, path=number)
    await discord.says("missed")
    async with connected(discord, services):
        await eventually(lambda: sum(call["name"] == "list_messages" for call in discord.double.calls) == 4)
        assert services.texts() == []
        await discord.says("live")
        await eventually(lambda: "live" in services.texts())
        assert list(dict.fromkeys(services.texts())) == ["missed", "live"]


async def test_a_limited_history_is_asked_again_and_a_closed_place_told(discord: Discord, services: House) -> None:
    await discord.says("missed")
    services.places = [
        place("300000000000000404", snowflake_at(LONG_AGO), datetime.now(UTC)),
        place(DM, snowflake_at(LONG_AGO), datetime.now(UTC)),
    ]
    await discord.fault("list_messages", "rate_limit", retry_after=0.2, path=DM)
    async with connected(discord, services):
        await eventually(lambda: services.texts() == ["missed"])
        await eventually(lambda: len(services.of(Membership)) == 1)
        (gone,) = services.of(Membership)
        assert (gone.key.channel_id, gone.present) == ("300000000000000404", False)


async def test_a_message_that_cannot_be_read_does_not_keep_those_behind_it(
    discord: Discord, services: House, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ("before", "broken", "behind")
    broken = [await discord.says(text) for text in texts][1]
    discord.double.messages[DM, broken]["author"] = {}
    services.places = [place(DM, snowflake_at(LONG_AGO), datetime.now(UTC))]
    async with connected(discord, services):
        await eventually(lambda: services.texts() == ["before", "behind"])
    assert broken in [getattr(record, "message_id", "") for record in caplog.records]


async def test_an_answer_that_is_no_json_ends_nothing(discord: Discord, services: House) -> None:
    await discord.says("missed")
    services.places = [place(DM, snowflake_at(LONG_AGO), datetime.now(UTC))]
    await discord.fault("list_messages", "garbled")
    async with connected(discord, services):
        await eventually(lambda: services.texts() == ["missed"])
    assert len(await discord.calls("list_messages")) >= 2


async def test_a_house_that_cannot_name_its_places_still_hears(discord: Discord, services: House) -> None:
    """And what was said before is read first: once the live one is stored, nobody knows where the gap began."""
    services.forgetful = True
    await discord.says("missed")
    async with connected(discord, services):
        await discord.says("live")
        await eventually(lambda: list(dict.fromkeys(services.texts())) == ["missed", "live"])
        await discord.says("live again")
        await eventually(lambda: services.texts()[-1] == "live again")
        assert len(await discord.calls("list_messages")) == 1


# -- commands and the doctor


async def test_commands_are_registered_only_when_they_differ(discord: Discord, services: House) -> None:
    specs = [
        CommandSpec(name="status", description="How it stands"),
        CommandSpec(name="model", description="Choose a model", options="[name]"),
    ]
    async with connected(discord, services) as adapter:
        await adapter.publish(specs)
        await adapter.publish(specs[::-1])
        assert len(await discord.calls("put_commands")) == 1
        await adapter.publish(specs[:1])
        assert [command["name"] for command in discord.double.commands[""]] == ["status"]
    async with connected(discord, services, guild_ids=(int(GUILD),)) as adapter:
        await adapter.publish(specs)
        assert [command["name"] for command in discord.double.commands[GUILD]] == ["status", "model"]


async def test_commands_wait_for_the_login(discord: Discord, services: House) -> None:
    adapter = DiscordAdapter(discord.settings(), services.adapter_context)
    specs = [CommandSpec(name="status", description="How it stands")]
    async with running(lambda: adapter.publish(specs), lambda: adapter.run(services.admit)):
        await eventually(lambda: "" in discord.double.commands)


async def test_the_doctor_finds_all_well(discord: Discord, services: House) -> None:
    adapter = DiscordAdapter(discord.settings(), services.adapter_context)
    found = await adapter.diagnose()
    assert [(line.subject, line.level) for line in found] == [
        ("token", "ok"),
        ("intents", "ok"),
        ("gateway", "ok"),
        ("servers", "ok"),
    ]


async def test_the_doctor_names_what_is_wrong(discord: Discord, services: House) -> None:
    await discord.control("settings", {"privileged_intents": PRIVILEGED & ~CONTENT})
    keys = {"guild_ids": (42,)}
    found = {
        line.subject: line
        for line in await DiscordAdapter(discord.settings(**keys), services.adapter_context).diagnose()
    }
    assert found["intents"].level == "error"
    assert "Privileged Gateway Intents" in found["intents"].fix
    assert "42" in found["servers"].finding
    (line,) = await DiscordAdapter(discord.settings(token="wrong"), services.adapter_context).diagnose()
    assert (line.subject, line.level) == ("token", "error")
    settings = discord.settings(api_base_url="http://127.0.0.1:1/api/v10")
    (line,) = await DiscordAdapter(settings, services.adapter_context).diagnose()
    assert (line.subject, line.level) == ("Discord", "error")


@pytest.mark.parametrize(
    ("fault", "subject", "says", "fix"),
    [
        pytest.param({"method": "me"}, "Discord", "answered 404 (NotFound)", "api_base_url", id="at the login"),
        pytest.param({"method": "gateway"}, "gateway", "answered 404 (NotFound)", "api_base_url", id="at the gateway"),
        pytest.param({"method": "gateway", "kind": "drop"}, "gateway", "cannot be reached", "firewall", id="no answer"),
    ],
)  # fmt: skip
async def test_the_doctor_tells_a_refusal_from_no_answer(
    discord: Discord, services: House, fault: dict[str, Any], subject: str, says: str, fix: str
) -> None:
    await discord.control("faults", {"kind": "error", "status": 404, "times": 50, **fault})
    found = {
        line.subject: line for line in await DiscordAdapter(discord.settings(), services.adapter_context).diagnose()
    }
    assert (found[subject].level, says in found[subject].finding) == ("error", True), found[subject]
    assert fix in found[subject].fix
    assert ("connection to the internet" in found[subject].fix) == (says == "cannot be reached")
