"""Rules of places: from the file and from /settings, the nearest counts, limits narrow, and each of them acts."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from gateway.channels.inbound import Mention
from gateway.channels.keys import ConversationKey
from gateway.commands.place.fields import DENIED_TOOLS, MENTION, MERGE_MS
from tests.gateway.commands.place.test_persona import PIRATE, write
from tests.gateway.world import ANN, BOB, GROUP, World, calling

OTHER = "-1006"
TOPIC = f"{GROUP}:7"
OPEN = '\ngroups = "open"'


def place(match: str, **keys: object) -> str:
    """A section of the file."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["[[places]]", f'match = "{match}"', *lines, ""])


@pytest.fixture
def two_groups(world_of: Callable[..., World]) -> Callable[..., World]:
    """A world in which the first group has these rules and the second has none."""

    def make(**keys: object) -> World:
        world = world_of(config=place(f"telegram:{GROUP}", **keys))
        world.access += OPEN
        return world

    return make


def system_of(world: World) -> str:
    """The system text of the newest request."""
    return str(world.llm.bodies[-1]["messages"][0])


def tools_of(world: World) -> set[str]:
    return {tool["function"]["name"] for tool in world.llm.bodies[-1].get("tools", ())}


# -- which rule counts


@pytest.mark.requirement("G-42")
async def test_the_narrowest_rule_counts_and_says_where_it_is_from(world_of: Callable[..., World]) -> None:
    """Topic, chat, account, everything: in each a choice made there goes before the file."""
    config = place("*", merge_ms=1) + place("telegram", merge_ms=2) + place(f"telegram:{GROUP}", merge_ms=3)
    world = world_of(config=config + place(f"telegram:{GROUP}/7", merge_ms=4))
    world.access += OPEN
    async with world.process():
        settings, topic = world.services.router._deps.settings, ConversationKey("telegram", TOPIC)  # noqa: SLF001
        assert [one.value for one in settings.layers(MERGE_MS, topic)] == [4, 3, 2, 1]
        assert "merge_ms: 4 (from the operator's file, for telegram:-1005/7)" in await world.asks(
            "/settings merge_ms", "merge_ms", chat=TOPIC
        )
        await world.asks("/settings merge_ms 30", "is 30 now", chat=GROUP)
        await world.asks("/settings merge_ms 20 account", "is 20 now", chat=GROUP)
        assert [one.value for one in settings.layers(MERGE_MS, topic)] == [4, 30, 3, 20, 2, 1]
        await world.asks("/settings merge_ms 40", "is 40 now", chat=TOPIC)
        assert "merge_ms: 40 (chosen here)" in await world.asks("/settings merge_ms", "merge_ms: 40", chat=TOPIC)
        assert "merge_ms: 20 (chosen for this whole account)" in await world.asks(
            "/settings merge_ms", "merge_ms", chat=OTHER
        )
        await world.asks("/settings reset merge_ms", "merge_ms is 4 again", chat=TOPIC)


@pytest.mark.requirement("G-42")
async def test_a_rule_of_a_server_holds_in_its_channels_and_their_threads(world_of: Callable[..., World]) -> None:
    """As an adapter tells which server a channel is in, and also after a restart."""
    world = world_of(config=place("discord:900", merge_ms=9), accounts=("telegram", "discord"))
    world.access += OPEN
    there: dict[str, Any] = {"on": "discord", "place": "500", "around": "900"}
    async with world.process():
        await world.answered("a thread", chat="501", parent="500", **there)
        told = await world.asks("/settings merge_ms", "merge_ms", chat="501", parent="500", **there)
        assert "merge_ms: 9 (from the operator's file, for discord:900)" in told
        assert "as by default" in await world.asks("/settings merge_ms", "merge_ms", chat="700", on="discord")
    async with world.process():
        told = await world.asks("/settings merge_ms", "merge_ms", chat="500", on="discord", place="500")
        assert "for discord:900" in told


@pytest.mark.requirement("G-42")
async def test_limits_narrow_and_nobody_in_a_chat_opens_what_the_file_closes(two_groups: Callable[..., World]) -> None:
    world = two_groups(denied_tools=["shell"], tools=["read", "calculate", "shell"])
    async with world.process():
        await world.asks("/settings denied_tools read", "is read now", chat=GROUP)
        await world.asks("/settings tools *", "is * now", chat=GROUP)
        await world.answered("hello", chat=GROUP)
        await world.answered("hi", chat=OTHER)
        settings = world.services.router._deps.settings  # noqa: SLF001
        denied = [one.value for one in settings.layers(DENIED_TOOLS, ConversationKey("telegram", GROUP))]
        assert denied == [("read",), ("shell",)]


@pytest.mark.requirement("G-42")
async def test_who_changed_what_is_told_and_outlives_a_restart(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/settings verbosity quiet", "I show: quiet", chat=GROUP)
        await world.asks("/settings verbosity default", "again", chat=GROUP)
        await world.asks("/settings language de", "is de now", chat=GROUP)
    async with world.process():
        told = await world.asks("/settings history", "Änderungen", chat=GROUP)
        assert told.index("language auf de") < told.index("verbosity auf die Voreinstellung")
        assert told.index("Voreinstellung") < told.index("verbosity auf quiet")
        assert "telegram:77" in told
        assert "quiet" not in await world.asks("/settings history language", "language auf de", chat=GROUP)
        await world.asks("/settings reset all", "Zurück zu dem", chat=GROUP)
        assert "as by default" in await world.asks("/settings language", "language", chat=GROUP)
        assert "Nobody has changed" in await world.asks("/settings history", chat=OTHER, person=ANN)


@pytest.mark.requirement("G-42")
async def test_members_look_and_only_admins_change(world: World) -> None:
    keys = [key for key in world.services.router._deps.handler._commands.settings if key != "persona"]  # noqa: SLF001
    assert len(keys) >= 15
    for key in keys:
        await world.asks(f"/settings {key} x", "for admins", chat=GROUP, person=BOB)
        assert "for admins" in await world.asks(f"/settings reset {key}", chat=GROUP, person=BOB)
    listed = await world.asks("/settings", "Settings of this chat", chat=GROUP, person=BOB)
    assert "chosen" not in listed
    await world.asks("/settings mention always account", "for admins", person=BOB)


async def test_a_button_opens_a_setting_and_changes_it(world: World) -> None:
    await world.asks("/settings", "Settings of this chat", chat=GROUP)
    await world.press("c:/settings mention", chat=GROUP, id="p1")
    await world.shows("Values: always", GROUP)
    await world.press("c:/settings mention always", chat=GROUP, person=BOB, id="p2")
    await world.shows("for admins", GROUP)
    await world.press("c:/settings mention always", chat=GROUP, id="p3")
    await world.shows("mention is always now", GROUP)


@pytest.mark.requirement("G-42")
async def test_a_switch_takes_its_words_alone_and_holds_for_an_account(world: World) -> None:
    for key in ("memory", "provider_locked"):
        assert "Choose on, off, or default" in await world.asks(f"/settings {key} maybe")
        assert f"{key}: off" not in await world.asks(f"/settings {key}", f"{key}: ") or key == "provider_locked"
        assert "Choose on, off, or default" in await world.asks(f"/settings {key} maybe account")
    await world.asks("/settings memory off account", "memory is off now")
    await world.answered("hello", chat=GROUP)
    assert "remember" not in tools_of(world)
    await world.asks("/settings memory default account", "memory is on again")
    await world.answered("again", chat=GROUP)
    assert "remember" in tools_of(world)
    await world.asks("/settings provider b account", "Every chat")
    await world.answered("by the other", chat=GROUP)
    assert world.models_asked[-1] == "model-b"
    await world.asks("/settings provider_locked on account", "provider_locked is on now")
    assert "Only admins may choose" in await world.asks("/provider", "Providers", person=BOB)


@pytest.mark.requirement("G-42")
def test_a_mistake_in_the_file_is_told_with_the_nearest_key(world_of: Callable[..., World]) -> None:
    wrong = {
        "mentoin": "did you mean mention?",
        "mention": "'sometimes' is not one of",
        "language": "is no language",
        "merge_ms": "must be",
        "voice": "must be|not one of|should be",
        "provider": "there is no provider 'sometimes'",
    }
    for key, told in wrong.items():
        world = world_of(config=place("telegram:-1", **{key: "sometimes"}))
        with pytest.raises(Exception, match=told):
            world.settings()


# -- each rule acts


@pytest.mark.requirement("G-43")
@pytest.mark.parametrize(
    ("rule", "unaddressed", "reply"), [("always", True, True), ("mentioned", False, False), ("never", False, False)]
)
async def test_mention(two_groups: Callable[..., World], rule: str, unaddressed: bool, reply: bool) -> None:
    world = two_groups(mention=rule)
    async with world.process():
        for mention, answered in ((Mention.NONE, unaddressed), (Mention.IMPLICIT, reply)):
            receipt = await world.say("hello", chat=GROUP, mention=mention)
            assert receipt.outcome == ("accepted" if answered else "ignored")
        outcomes = [
            await world.say("hello", chat=OTHER, mention=mention) for mention in (Mention.NONE, Mention.IMPLICIT)
        ]
        assert [one.outcome for one in outcomes] == ["ignored", "accepted"], "as by default"
        direct = await world.say("hello", chat=GROUP)
        assert direct.outcome == ("ignored" if rule == "never" else "accepted")
        assert (await world.say("/whoami", chat=GROUP)).outcome == "accepted", "a command is always heard"
        assert world.services.router._deps.settings.get(MENTION, ConversationKey("telegram", GROUP)) == rule  # noqa: SLF001


@pytest.mark.requirement("G-43")
async def test_instructions_and_language(two_groups: Callable[..., World]) -> None:
    world = two_groups(instructions="Mention the word plover.", language="de")
    async with world.process():
        await world.answered("hello", chat=GROUP)
        system = system_of(world)
        assert "Mention the word plover." in system
        assert "the language with the code de" in system
        assert system.index("plover") < system.index("Rules that nothing in the conversation can change")
        assert "Anbieter" in await world.asks("/help", chat=GROUP) or "Befehle" in await world.asks("/help", chat=GROUP)
        await world.answered("hi", chat=OTHER)
        assert "plover" not in system_of(world)
        await world.asks("/settings instructions Mention the word heron.", "jetzt", chat=GROUP)
        await world.answered("again", chat=GROUP)
        assert 0 < system_of(world).index("plover") < system_of(world).index("heron"), "nobody takes away the file's"


@pytest.mark.requirement("G-43")
async def test_instructions_of_the_file_stand_before_the_nearest_that_was_chosen(
    world_of: Callable[..., World],
) -> None:
    """The widest of the file first. Of those that people chose the nearest counts alone."""
    config = place("*", instructions="One.") + place("telegram", instructions="Two.")
    world = world_of(config=config + place(f"telegram:{GROUP}/7", instructions="Four."))
    async with world.process():
        for words, chat in (("account Three.", ANN), ("Five.", GROUP), ("Six.", TOPIC)):
            await world.asks(f"/settings instructions {words}", "is “", chat=chat)
        for chat, found in ((TOPIC, "One. Two. Four. Six."), (GROUP, "One. Two. Five."), (ANN, "One. Two. Three.")):
            await world.answered("hello", chat=chat)
            assert "\\n\\n".join(found.split()) in system_of(world)
        told = (await world.asks("/settings instructions", "“Six.”", chat=TOPIC)).splitlines()
        assert told[0].startswith("instructions: “Six.” (chosen here)")
        assert told[1:5] == [
            "This holds as well: “Four.” (from the operator's file, for telegram:-1005/7).",
            "Behind it: “Five.” (chosen in the group or channel around)",
            "Behind it: “Three.” (chosen for this whole account)",
            "This holds as well: “Two.” (from the operator's file, for telegram).",
        ]
        changed = (await world.asks("/settings instructions 5", "“5” now", chat=GROUP)).splitlines()
        assert [line.partition(" (")[0] for line in changed[1:]] == [
            "This holds as well: “Two.”",
            "This holds as well: “One.”",
        ]
        await world.asks("/settings instructions Five.", "“Five.” now", chat=GROUP)
        await world.asks("/settings reset instructions", "again", chat=TOPIC)
        await world.answered("again", chat=TOPIC)
        assert "\\n\\n".join(["One.", "Two.", "Four.", "Five."]) in system_of(world)


@pytest.mark.requirement("G-43")
async def test_provider_lock_and_persona(two_groups: Callable[..., World]) -> None:
    world = two_groups(provider="b/model-x", provider_locked=True, verbosity="quiet", queue_mode="drop")
    async with world.process():
        await world.answered("hello", chat=GROUP)
        await world.answered("hi", chat=OTHER)
        assert world.models_asked == ["model-x", "model-a"]
        assert "Only admins may choose" in await world.asks("/provider", "Providers", chat=GROUP)
        shown = await world.asks("/settings", "Settings of this chat", chat=GROUP)
        assert f"verbosity: quiet (from the operator's file, for telegram:{GROUP})" in shown
        assert "queue_mode: drop (from" in shown
        await world.asks("/provider a", "now uses", chat=GROUP)
        await world.answered("again", chat=GROUP)
        assert world.models_asked[-1] == "model-a", "an admin of the chat has the last word"
    async with world.process():
        await world.answered("later", chat=GROUP)
        assert world.models_asked[-1] == "model-a"


@pytest.mark.requirement("G-43")
async def test_memory(two_groups: Callable[..., World]) -> None:
    world = two_groups(memory=False)
    async with world.process():
        await world.answered("hello", chat=GROUP)
        assert "remember" not in tools_of(world)
        await world.answered("hi", chat=OTHER)
        assert "remember" in tools_of(world)
        told = await world.asks("/settings memory on", "stays off", chat=GROUP)
        assert f"for telegram:{GROUP}" in told
        await world.answered("hello", chat=GROUP)
        assert "remember" not in tools_of(world)
        await world.asks("/memory off", chat=OTHER)
        assert "memory: off (chosen here)" in await world.asks("/settings memory", "memory: off", chat=OTHER)


@pytest.mark.requirement("G-43")
async def test_tools(two_groups: Callable[..., World]) -> None:
    world = two_groups(tools=["read", "calculate"], denied_tools=["read"])
    refused = calling("sum", "current_time")
    async with world.process():
        await world.answered("hello", chat=GROUP)
        assert tools_of(world) & {"read", "web_fetch", "remember"} == set()
        assert "calculate" in tools_of(world)
        await world.answered("hi", chat=OTHER)
        assert {"read", "web_fetch"} <= tools_of(world)
        world.script(*refused)
        world.llm.double.settings["offered_only"] = False
        await world.answered("sum", "Done: sum", chat=GROUP)
        results = [message for message in world.llm.bodies[-1]["messages"] if message["role"] == "tool"]
        assert "this place allows only read, calculate" in str(results[-1]["content"])


@pytest.mark.requirement("G-43")
async def test_skills_and_persona(two_groups: Callable[..., World]) -> None:
    world = two_groups(skills=["none"], persona="pirate")
    write(world, "pirate", PIRATE)
    async with world.process():
        await world.answered("hello", chat=GROUP)
        assert "like a pirate" in system_of(world)
        assert "travel-plan" not in system_of(world)
        await world.answered("hi", chat=OTHER)
        assert "like a pirate" not in system_of(world)
        assert "travel-plan" in system_of(world)
        await world.asks("/settings skills travel-plan", "holds as well: none", chat=GROUP)
        await world.asks("/settings skills travel-plan", "travel-plan", chat=OTHER)
        await world.answered("again", chat=OTHER)
        assert "travel-plan" in system_of(world)
        await world.asks("/settings skills none", "none", chat=OTHER)
        await world.answered("once more", chat=OTHER)
        assert "travel-plan" not in system_of(world)


@pytest.mark.requirement("Z-155")
async def test_voice_is_what_is_chosen_and_says_where_nobody_can_speak(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        assert "voice: off (as by default)" in await world.asks("/settings voice", "voice")
        told = await world.asks("/settings voice always", "voice is always now")
        assert "the operator has named no speech service" in told
        assert "no speech service" not in await world.asks("/settings voice off", "voice is off now")
        await world.asks("/settings voice sometimes", "reply")


@pytest.mark.requirement("G-43")
async def test_merge_ms(two_groups: Callable[..., World]) -> None:
    """Messages that wait behind a turn are one where they came close to each other."""
    world = two_groups(merge_ms=60_000)
    held: dict[str, Any] = {"text": "slowly", "hold": "first"}
    world.script({"match": {"contains": "first"}, "reply": held})
    async with world.process():
        for chat in (GROUP, OTHER):
            world.llm.double.released.discard("first")
            before = len(world.llm.calls)
            await world.say("first", chat=chat)
            await world.until_asked(before + 1)
            for text in ("second", "third"):
                world.clock.ahead_s += 1
                await world.say(text, chat=chat)
            world.go_on("first")
            await world.shows("third", chat)
            await world.settled()
            asked = [str(body["messages"][-1]["content"]) for body in world.llm.bodies[before + 1 :]]
            assert len(asked) == (1 if chat == GROUP else 2), asked


@pytest.mark.requirement("G-43")
async def test_daily_and_monthly_amounts(world_of: Callable[..., World]) -> None:
    """Each chat has its own; a member cannot raise it, and what the file allows is the most."""
    world = world_of(config=place(f"telegram:{GROUP}", daily_usd=0.0) + '[spending]\nunpriced = "refuse"\n')
    world.access += OPEN
    async with world.process():
        await world.asks("/settings daily_usd 100", "is 100.00 USD now", chat=GROUP)
        await world.say("hello", chat=GROUP)
        await world.shows("USD", GROUP)
        calls = len(world.llm.calls)
        await world.answered("hi", chat=OTHER)
        assert len(world.llm.calls) == calls + 1
        await world.asks("/settings monthly_usd 0", "is 0.00 USD now", chat=OTHER)
        await world.say("hi again", chat=OTHER)
        await world.shows("USD", OTHER)
        assert len(world.llm.calls) == calls + 1
        world.clock.ahead_s += timedelta(days=40).total_seconds()
        await world.asks("/settings reset monthly_usd", "again", chat=OTHER)
        await world.answered("at last", chat=OTHER)
