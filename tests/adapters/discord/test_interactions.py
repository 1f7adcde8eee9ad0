"""Slash commands and buttons: nothing is lost, Discord never waits too long, what is private stays private."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from adapters.discord.channel import WHISPER, DiscordChannel
from adapters.discord.commands import payload_of
from adapters.discord.intake import QUEUED
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelUnsure, GatewayUnavailable
from gateway.channels.inbound import ButtonClicked, Inbound, Mention, MessageReceived, Outcome
from gateway.channels.keys import UserId
from gateway.channels.outbound import Button, CommandSpec, Outbound
from gateway.testing.channel_contract import plain
from tests.adapters.discord.harness import ANN, DM, GENERAL, GUILD, Discord, House, connected, eventually, given
from tests.fakes.clock import FakeClock

ASK = CommandSpec(name="ask", description="Ask something", options="[question]")


async def slash(discord: Discord, services: House, channel: str = GENERAL, question: str = "why") -> MessageReceived:
    before = len(services.of(MessageReceived))
    await discord.event(kind="slash", channel=channel, command="ask", options={"arguments": question})
    await eventually(lambda: len(services.of(MessageReceived)) > before)
    return services.of(MessageReceived)[-1]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime.now(UTC))  # Discord's ids hold their moment


@pytest.fixture
def timed_program(tmp_path: Path, clock: FakeClock) -> House:
    """The gateway's side with a clock that moves when told."""
    return House(tmp_path, clock=clock)


async def sign_shown(discord: Discord, clock: FakeClock) -> None:
    """Let time pass until Discord was given a sign."""

    async def shown() -> bool:
        clock.advance(0.2)
        return interaction_types(discord) == [5]

    await eventually(shown)


def interaction_types(discord: Discord) -> list[int | None]:
    return [found["type"] for found in discord.double.interactions.values()]


async def test_a_slash_command_arrives_as_text(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, services)
        assert (said.text, said.mention, said.sender.id) == ("/ask why", Mention.DIRECT, ANN)
        assert said.key.channel_id == GENERAL
        assert said.grantable == (GUILD,)
        assert said.interaction_id == said.message_id
        assert said.sender.language == "en-US"
        assert said.interaction is not None


async def test_an_answer_within_two_seconds_stands_under_the_command(discord: Discord, timed_program: House) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, timed_program)
        channel = adapter.channel(GENERAL)
        sent = await channel.send(Outbound(document=(Plain("because"),), interaction=said.interaction, key="k1"))
        (answer,) = discord.mine(GENERAL)
        assert (answer["content"], answer["flags"] & 64, answer["type"]) == ("because", 0, 20)
        assert sent.id == answer["id"]
        await channel.edit(sent, plain("because so"))
        # What follows is an ordinary message: it has a nonce.
        await channel.send(Outbound(document=(Plain("and more"),), interaction=said.interaction, key="k2"))
        assert [(m["content"], m["type"]) for m in discord.mine(GENERAL)] == [("because so", 20), ("and more", 0)]


async def test_a_slow_answer_shows_a_private_sign_that_goes_with_the_answer(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        sleepers = clock.sleepers
        said = await slash(discord, timed_program)
        await eventually(lambda: clock.sleepers > sleepers)
        clock.advance(2.9)  # Discord waits for three seconds
        await eventually(lambda: [m["flags"] for m in discord.mine(GENERAL)] == [64 | 128])
        channel = adapter.channel(GENERAL)
        sent = await channel.send(Outbound(document=(Plain("finally"),), interaction=said.interaction, key="k1"))
        (message,) = discord.mine(GENERAL)
        (made,) = await discord.calls("create_message")
        assert (message["id"], message["content"], made["body"]["nonce"]) == (sent.id, "finally", "k1")


async def test_the_sign_goes_even_if_the_answer_does_not_name_the_command(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        await slash(discord, timed_program)
        await sign_shown(discord, clock)
        assert discord.mine(GENERAL)
        await adapter.channel(GENERAL).send(plain("a streamed preview"))
        assert [m["content"] for m in discord.mine(GENERAL)] == ["a streamed preview"]


async def test_storing_takes_too_long_so_discord_gets_a_sign_first(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    stored = anyio.Event()

    async def slow(inbound: Inbound) -> None:
        await stored.wait()

    timed_program.on_admit = slow
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        await discord.event(kind="slash", channel=GENERAL, command="ask", options={"arguments": "why"})
        await sign_shown(discord, clock)
        assert not timed_program.admitted
        stored.set()
        await eventually(lambda: timed_program.texts() == ["/ask why"])


async def test_a_sign_nobody_took_away_goes_before_its_token_dies(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        sleepers = clock.sleepers
        await slash(discord, timed_program)
        await eventually(lambda: clock.sleepers > sleepers)
        clock.advance(2.0)
        await eventually(lambda: [m["flags"] for m in discord.mine(GENERAL)] == [64 | 128])
        await eventually(lambda: clock.sleepers > sleepers)  # the answer to it has come as well
        clock.advance(700.0)
        assert discord.mine(GENERAL)
        clock.advance(150.0)
        await eventually(lambda: discord.mine(GENERAL) == [])


async def test_a_press_is_stored_before_it_is_acknowledged(discord: Discord, services: House) -> None:
    types_at_admit: list[list[int | None]] = []

    async def look(inbound: Inbound) -> None:
        types_at_admit.append(interaction_types(discord))

    services.on_admit = look
    async with connected(discord, services) as adapter:
        channel = adapter.channel(DM)
        sent = await channel.send(Outbound(document=(Plain("?"),), buttons=((Button(label="Yes", action="y"),),)))
        await discord.event(kind="button", channel=DM, message_id=sent.id, custom_id="y")
        await eventually(lambda: interaction_types(discord) == [6])
        assert types_at_admit == [[None]]


async def test_a_button_works_after_a_restart(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        buttons = ((Button(label="Yes", action="approve:17", style="primary"),),)
        sent = await adapter.channel(GENERAL).send(Outbound(document=(Plain("ok?"),), buttons=buttons))
    later = House(services.adapter_context.home)
    async with connected(discord, later):
        await discord.event(kind="button", channel=GENERAL, message_id=sent.id, custom_id="approve:17")
        await eventually(lambda: bool(later.of(ButtonClicked)))
        (pressed,) = later.of(ButtonClicked)
        assert (pressed.action, pressed.message_id, pressed.place) == ("approve:17", sent.id, GENERAL)


async def test_an_interaction_of_before_the_restart_is_answered_once(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, services)
        await adapter.channel(GENERAL).send(Outbound(document=(Plain("42"),), interaction=said.interaction, key="k"))
    async with connected(discord, House(services.adapter_context.home)) as adapter:
        channel = adapter.channel(GENERAL)
        await channel.send(Outbound(document=(Plain("42"),), interaction=said.interaction, key="k"))
        assert [m["content"] for m in discord.mine(GENERAL)] == ["42"]


async def test_a_waiting_sign_of_before_the_restart_goes_with_the_answer(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, timed_program)
        await sign_shown(discord, clock)
        assert [m["flags"] for m in discord.mine(GENERAL)] == [64 | 128]
    async with connected(discord, House(timed_program.adapter_context.home)) as adapter:
        channel = adapter.channel(GENERAL)
        await channel.send(Outbound(document=(Plain("42"),), interaction=said.interaction, key="k"))
        assert [(m["content"], m["flags"] & 64) for m in discord.mine(GENERAL)] == [("42", 0)]


async def test_a_cut_answer_to_a_command_is_not_given_twice(discord: Discord, timed_program: House) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, timed_program)
        await discord.fault("interaction_callback", "drop_after")
        message = Outbound(document=(Plain("once"),), interaction=said.interaction, key="k")
        channel = adapter.channel(GENERAL)
        with pytest.raises(Exception, match="no answer"):
            await channel.send(message)
        sent = await channel.send(message)
        (answer,) = discord.mine(GENERAL)
        assert (answer["id"], answer["content"]) == (sent.id, "once")


# Discord has carried out what it answered with a cut: what stands there then is no answer of ours.


async def cut_sign(discord: Discord, services: House, clock: FakeClock) -> MessageReceived:
    """A slash command that shows a sign of waiting, and nobody heard that it does."""
    await discord.fault("interaction_callback", "drop_after")
    said = await slash(discord, services)
    await sign_shown(discord, clock)
    assert [m["flags"] for m in discord.mine(GENERAL)] == [64 | 128]
    return said


@pytest.mark.requirement("G-12")
async def test_a_cut_waiting_sign_is_not_taken_for_the_answer(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await cut_sign(discord, timed_program, clock)
        channel = adapter.channel(GENERAL)
        sent = await channel.send(Outbound(document=(Plain("42"),), interaction=said.interaction, key="k"))
        assert [(m["id"], m["content"], m["flags"] & 64) for m in discord.mine(GENERAL)] == [(sent.id, "42", 0)]


async def test_a_cut_waiting_sign_becomes_the_whisper(discord: Discord, timed_program: House, clock: FakeClock) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await cut_sign(discord, timed_program, clock)
        message = Outbound(document=(Plain("no"),), interaction=said.interaction)
        sent = given(await adapter.channel(GENERAL).send_ephemeral(message, UserId(ANN)))
        assert [(m["id"], m["content"], m["flags"]) for m in discord.mine(GENERAL)] == [(sent.id, "no", 64)]


async def test_a_cut_waiting_sign_goes_when_nothing_is_said(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await cut_sign(discord, timed_program, clock)
        assert said.interaction is not None
        await given(adapter.channel(GENERAL).interactions).acknowledge(said.interaction)
        assert discord.mine(GENERAL) == []


async def test_a_cut_waiting_sign_goes_before_its_token_dies(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        sleepers = clock.sleepers
        await cut_sign(discord, timed_program, clock)
        await eventually(lambda: clock.sleepers > sleepers)  # the sign is waited for, whether it came or not
        clock.advance(850.0)
        await eventually(lambda: discord.mine(GENERAL) == [])


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize("private", [True, False], ids=["a status line", "the first half of an answer"])
async def test_a_cut_first_word_is_not_taken_for_the_answer(
    discord: Discord, timed_program: House, private: bool
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, timed_program)
        channel = adapter.channel(GENERAL)
        await discord.fault("interaction_callback", "drop_after")
        first = Outbound(document=(Plain("It is"),), interaction=said.interaction)
        with pytest.raises(ChannelUnsure):
            await (channel.send_ephemeral(first, UserId(ANN)) if private else channel.send(first))
        sent = await channel.send(Outbound(document=(Plain("It is 42"),), interaction=said.interaction, key="k"))
        assert [(m["id"], m["flags"] & 64) for m in discord.mine(GENERAL) if m["content"] == "It is 42"] == [
            (sent.id, 0)
        ]


async def test_a_whisper_after_a_cut_sign_of_a_press_is_no_other_message(discord: Discord, services: House) -> None:
    """The first answer of a press is the message its button hangs on: deleting the whisper must not take it away."""
    await discord.fault("interaction_callback", "drop_after")
    async with connected(discord, services) as adapter:
        channel = adapter.channel(GENERAL)
        asked = await channel.send(Outbound(document=(Plain("?"),), buttons=((Button(label="Yes", action="y"),),)))
        await discord.event(kind="button", channel=GENERAL, message_id=asked.id, custom_id="y")
        await eventually(lambda: interaction_types(discord) == [6])
        (pressed,) = services.of(ButtonClicked)
        message = Outbound(document=(Plain("no"),), interaction=pressed.interaction)
        sent_ephemeral = given(await channel.send_ephemeral(message, UserId(ANN)))
        await channel.delete(sent_ephemeral)
        assert [m["content"] for m in discord.mine(GENERAL)] == ["?"]


@pytest.mark.requirement("G-08")
async def test_a_whisper_is_ephemeral_where_an_interaction_is_open(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, services)
        channel = adapter.channel(GENERAL)
        status = await channel.send_ephemeral(
            Outbound(document=(Plain("working"),), interaction=said.interaction), UserId(ANN)
        )
        assert status is not None
        assert status.kind.startswith(WHISPER)
        await channel.edit(status, plain("still working"))
        assert [(m["content"], m["flags"] & 64) for m in discord.mine(GENERAL)] == [("still working", 64)]
        second = await channel.send_ephemeral(plain("a second one"), UserId(ANN))  # found by the person
        assert second is not None
        for sent in (status, second, second):
            await channel.delete(sent)
        assert discord.mine(GENERAL) == []
        other = await channel.send_ephemeral(plain("for somebody else"), UserId("42"))
        assert other is not None
        assert discord.mine(GENERAL)[0]["flags"] & 64 == 0  # silent, for the caller to delete


async def test_a_whisper_changes_the_waiting_sign(discord: Discord, timed_program: House, clock: FakeClock) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, timed_program)
        await sign_shown(discord, clock)
        status = await adapter.channel(GENERAL).send_ephemeral(
            Outbound(document=(Plain("compacting"),), interaction=said.interaction), UserId(ANN)
        )
        assert status is not None
        assert [(m["id"], m["content"], m["flags"]) for m in discord.mine(GENERAL)] == [(status.id, "compacting", 64)]


@pytest.mark.parametrize("visible", [False, True])
@pytest.mark.parametrize("late", [False, True])
async def test_acknowledge_with_words(
    discord: Discord, timed_program: House, clock: FakeClock, visible: bool, late: bool
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, timed_program)
        if late:
            await sign_shown(discord, clock)
        assert said.interaction is not None
        interactions = given(adapter.channel(GENERAL).interactions)
        await interactions.acknowledge(said.interaction, "@everyone noted *well*", visible=visible)
        (message,) = discord.mine(GENERAL)
        assert (message["content"], bool(message["flags"] & 64)) == (r"@everyone noted \*well\*", not visible)
        sent = [
            body.get("data", body) for body in (call["body"] for call in discord.double.calls) if isinstance(body, dict)
        ]
        said_to_all = [body for body in sent if "everyone" in body.get("content", "")]
        assert [body["allowed_mentions"] for body in said_to_all] == [{"parse": []}]


async def test_acknowledge_without_words_takes_the_sign_away(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        await adapter.publish([ASK])
        said = await slash(discord, services)
        assert said.interaction is not None
        await given(adapter.channel(GENERAL).interactions).acknowledge(said.interaction)
        assert interaction_types(discord) == [5]
        assert discord.mine(GENERAL) == []


async def test_a_press_can_be_answered_in_private(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        channel = adapter.channel(GENERAL)
        sent = await channel.send(Outbound(document=(Plain("?"),), buttons=((Button(label="Yes", action="y"),),)))
        await discord.event(kind="button", channel=GENERAL, message_id=sent.id, custom_id="y")
        await eventually(lambda: interaction_types(discord) == [6])
        (pressed,) = services.of(ButtonClicked)
        assert pressed.interaction is not None
        await given(channel.interactions).acknowledge(pressed.interaction, "not yours to decide")
        assert [(m["content"], m["flags"] & 64) for m in discord.mine(GENERAL)] == [
            ("?", 0),
            ("not yours to decide", 64),
        ]
        await channel.edit(sent, plain("decided"))
        assert discord.mine(GENERAL)[0]["components"] == []


async def test_a_dead_interaction_is_no_error(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        channel = adapter.channel(GENERAL)
        for handle in ("slash.1.tok", "button.1.tok", "nonsense"):
            await given(channel.interactions).acknowledge(handle, "too late")
            await channel.send(Outbound(document=(Plain("x"),), interaction=handle))
        assert [m["content"] for m in discord.mine(GENERAL)] == ["x", "x", "x"]


async def test_what_is_not_for_the_bot_leaves_no_sign(discord: Discord, services: House) -> None:
    services.outcome = Outcome.IGNORED
    async with connected(discord, services) as adapter:
        await adapter.publish([ASK])
        await slash(discord, services)
        await eventually(lambda: interaction_types(discord) == [5])
        await eventually(lambda: discord.mine(GENERAL) == [])


async def interact(discord: Discord, channel: DiscordChannel, kind: str) -> None:
    if kind == "slash":
        await discord.event(kind=kind, channel=GENERAL, command="ask", options={"arguments": "why"})
    else:
        sent = await channel.send(Outbound(document=(Plain("?"),), buttons=((Button(label="Yes", action="y"),),)))
        await discord.event(kind=kind, channel=GENERAL, message_id=sent.id, custom_id="y")


def ephemerals(discord: Discord) -> list[str]:
    return [m["content"] for m in discord.mine(GENERAL) if m["flags"] & 64]


@pytest.mark.requirement("G-12")
@pytest.mark.parametrize("kind", ["slash", "button"])
async def test_what_cannot_be_stored_is_told_to_the_person(
    discord: Discord, timed_program: House, clock: FakeClock, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(inbound: Inbound) -> None:
        raise GatewayUnavailable("disk")

    timed_program.on_admit = fail
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        await interact(discord, adapter.channel(GENERAL), kind)

        async def told() -> bool:
            clock.advance(0.2)
            return ephemerals(discord) == ["not taken (en-US)"]

        await eventually(told)
        assert "is lost" in caplog.text


@pytest.mark.parametrize("kind", ["slash", "button"])
async def test_what_does_not_fit_any_more_is_told_to_the_person(
    discord: Discord, timed_program: House, kind: str
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        hold, begun = anyio.Event(), anyio.Event()

        async def slow(inbound: Inbound) -> None:
            begun.set()
            await hold.wait()

        timed_program.on_admit = slow
        await discord.control("events", {"events": [{"channel": DM, "content": "flood"}] * QUEUED})
        await begun.wait()
        await interact(discord, adapter.channel(GENERAL), kind)
        await eventually(lambda: ephemerals(discord) == ["not taken (en-US)"])
        assert not timed_program.admitted


async def test_an_interaction_told_twice_is_acknowledged_once(
    discord: Discord, timed_program: House, clock: FakeClock
) -> None:
    async with connected(discord, timed_program) as adapter:
        await adapter.publish([ASK])
        await discord.event(kind="slash", channel=GENERAL, command="ask", options={"arguments": "x"}, duplicate=1)
        await eventually(lambda: len(timed_program.of(MessageReceived)) == 2)
        first, second = timed_program.of(MessageReceived)
        assert first.interaction_id == second.interaction_id  # the house tells them to be one
        await sign_shown(discord, clock)
        assert len([call for call in discord.double.calls if call["name"] == "interaction_callback"]) == 1


NAMED = CommandSpec(name="provider", description="Which model answers", options="[name]", suggests=True)


def offered(discord: Discord) -> list[str]:
    (found,) = (one for one in discord.double.interactions.values() if one["interaction_type"] == 4)
    return [choice["value"] for choice in found.get("choices", ())]


async def test_words_are_suggested_while_somebody_types(discord: Discord, services: House) -> None:
    asked: list[MessageReceived] = []

    async def suggest(said: MessageReceived) -> list[str]:
        asked.append(said)
        return ["status", "provider " + "x" * 101, *(f"provider model-{number}" for number in range(30))]

    services.adapter_context = replace(services.adapter_context, suggest=suggest)
    async with connected(discord, services) as adapter:
        await adapter.publish([NAMED])
        (registered,) = discord.double.commands[""]
        assert registered["options"][0]["autocomplete"]
        await discord.event(kind="autocomplete", channel=GENERAL, command="provider", options={"arguments": "mo"})
        await eventually(lambda: bool(offered(discord)))
        assert [(said.text, said.sender.id, said.key.channel_id) for said in asked] == [("/provider mo", ANN, GENERAL)]
        assert offered(discord) == [f"model-{number}" for number in range(25)]
        assert services.admitted == [], "nothing was said yet"


async def test_the_command_for_all_others_gets_whole_lines(discord: Discord, services: House) -> None:
    async def suggest(said: MessageReceived) -> list[str]:
        return ["persona default"] if said.text == "/persona d" else []

    services.adapter_context = replace(services.adapter_context, suggest=suggest)
    async with connected(discord, services) as adapter:
        await adapter.publish([NAMED, CommandSpec(name="persona", description="Who answers", menu=False)])
        options = {"arguments": "persona d"}
        await discord.event(kind="autocomplete", channel=GENERAL, command="tieline", options=options)
        await eventually(lambda: bool(offered(discord)))
        assert offered(discord) == ["persona default"]


async def test_a_list_of_words_that_comes_too_late_ends_nothing(discord: Discord, services: House) -> None:
    async def suggest(said: MessageReceived) -> list[str]:
        return ["provider a"]

    services.adapter_context = replace(services.adapter_context, suggest=suggest)
    discord.double.settings["interaction_deadline"] = 0
    async with connected(discord, services) as adapter:
        await adapter.publish([NAMED])
        await discord.event(kind="autocomplete", channel=GENERAL, command="provider", options={"arguments": "a"})

        async def refused() -> bool:
            return bool(await discord.calls("interaction_callback"))

        await eventually(refused)
        assert offered(discord) == []
        discord.double.settings["interaction_deadline"] = 3
        await discord.event(kind="autocomplete", channel=DM, command="provider", options={"arguments": "a"})
        await eventually(lambda: any(one.get("choices") for one in discord.double.interactions.values()))


def test_a_list_too_long_to_register_is_suggested() -> None:
    words = tuple(f"word-{number}" for number in range(26))
    (command,) = payload_of([CommandSpec(name="pick", description="Pick", options="[word]", choices=words)])
    assert command["options"][0].get("autocomplete")
    assert "choices" not in command["options"][0]
