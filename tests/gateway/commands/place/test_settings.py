"""/settings, and the declarations that it reads: one each, with its phrases and its row in the documentation."""

import re
from collections.abc import Callable
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.core.ids import ConversationId
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.commands.all import all_commands
from gateway.commands.command import AnyCall, Command, Commands, Reply, Setting, one_of
from gateway.commands.place.settings import settings_command
from gateway.commands.state.status import VERBOSITY
from gateway.commands.work.queue import QUEUE_MODE
from gateway.commands.work.schedules import QUIET_HOURS
from gateway.config.settings import Settings
from gateway.delivery.settings import Settings as DeliverySettings
from gateway.delivery.settings import Verbosity
from gateway.phrases.catalogue import read_catalogue
from gateway.storage import settings_rows
from gateway.storage.tables import schedule
from tests.fakes.sandbox import sandboxed
from tests.fakes.waiting import until
from tests.gateway.commands.place.test_persona import PIRATE, write
from tests.gateway.world import ANN, BOB, GROUP, World, slowly

COMMANDS = all_commands()
TOPIC = f"{GROUP}:7"
CHANNEL, THREAD = "500", "501"  # on Discord a thread's key does not tell its channel
PAGE = (Path(__file__).parents[4] / "docs/commands-settings.md").read_text()
ROWS = dict(re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", PAGE[PAGE.index("## Settings of a chat") :], re.MULTILINE))


async def nothing(call: AnyCall) -> Reply:
    return Reply()


def declared(key: str) -> Setting[str]:
    return Setting(
        key=key, command="x", default=lambda settings, place: "a", parse=one_of(("a", "b")), changed="x", choices=("a",)
    )


# -- the declarations


def test_two_settings_of_one_key_are_found_at_start() -> None:
    first = Command(name="one", run=nothing, group="more", settings=(declared("same"),))
    second = Command(name="two", run=nothing, group="more", settings=(declared("same"),))
    with pytest.raises(ValueError, match="two settings are called same"):
        Commands((first, second))


def test_a_setting_is_collected_from_its_command_alone() -> None:
    """A feature names it once; the registry, /settings and the start have it from there."""
    at_once = Command(name="one", run=nothing, group="more", immediate=True, settings=(declared("quick"),))
    in_turn = Command(name="two", run=nothing, group="more", settings=(declared("slow"), declared("in_turn")))
    assert set(Commands((at_once, in_turn)).settings) == {"quick", "slow", "in_turn"}
    command = settings_command((at_once, in_turn))
    assert command.is_immediate("quick b")
    for words in ("slow b", "SLOW", "slow\nb", "in-turn b", "in_turn b", "reset all", "reset", "all default"):
        assert not command.is_immediate(words), "as its own command waits its turn"
    assert command.is_immediate("history slow")


def test_what_is_stored_under_these_keys_since_earlier_versions() -> None:
    assert {"queue_mode", "verbosity", "persona", "quiet_hours"} <= set(COMMANDS.settings)


@pytest.mark.parametrize("setting", COMMANDS.settings.values(), ids=lambda setting: setting.key)
def test_each_setting_is_told_in_all_languages_and_in_the_documentation(setting: Setting[Any]) -> None:
    phrase = read_catalogue()
    for language in phrase.languages:
        assert phrase(f"setting.{setting.key}", language)
        values = {"setting": "s", "value": "v", "source": "o", "allowed": "a"}
        assert "v" in phrase(setting.changed, language, **values)
        assert "." not in phrase(f"setting.{setting.key}", language)[-1:], "sentences are made of it"
        assert phrase(setting.cleared, language, **values)
    assert phrase(f"setting.{setting.key}", "de") != phrase(f"setting.{setting.key}", "en")
    row = ROWS[setting.key]
    assert f"`/{setting.command}`" in row
    for value in re.split(r"[ |]+", setting.written_as):
        assert value in row
    command = COMMANDS.named(setting.command.partition(" ")[0])
    assert command is not None
    assert setting in command.settings


def test_the_documentation_tells_of_no_other_setting() -> None:
    assert set(ROWS) == set(COMMANDS.settings)


def test_every_choice_can_be_stored_and_nothing_else() -> None:
    for setting in COMMANDS.settings.values():
        for choice in setting.choices:
            assert setting.show(setting.parse(choice)) == choice
    for setting in (QUEUE_MODE, VERBOSITY, QUIET_HOURS):
        with pytest.raises(ValueError, match="purple"):
            setting.parse("purple")


@pytest.mark.parametrize(
    ("place", "shown"),
    [("-1005:7", "verbose"), ("-1005", "quiet"), ("-1005:8", "quiet"), ("-2", "normal")],
    ids=["a topic", "its group", "another topic", "the platform"],
)
def test_the_configured_verbosity_is_that_of_the_place_or_around_it(place: str, shown: Verbosity) -> None:
    told: dict[str, Verbosity] = {"telegram": "normal", "telegram:-1005": "quiet", "telegram:-1005:7": "verbose"}
    configured = Settings.model_construct(delivery=DeliverySettings(verbosity="verbose", verbosities=told))
    assert VERBOSITY.default(configured, ConversationKey("telegram", place)) == shown


# -- what people see and do


async def test_it_lists_each_with_value_source_and_command(world: World) -> None:
    await world.asks("/queue drop", "From now on", chat=GROUP)
    await world.asks("/settings verbosity verbose", "I show: verbose", chat=TOPIC)
    listed = await world.asks("/settings", "Settings of this chat", chat=TOPIC)
    assert "queue_mode: drop (chosen in the group or channel around). What a message meets" in listed
    assert "verbosity: verbose (chosen here)" in listed
    assert "persona: default (as by default). Who answers" in listed
    assert "quiet_hours: – (as by default)" in listed
    assert "Einstellungen dieses Chats" in await world.asks("/settings", chat=TOPIC, language="de")


async def test_one_tells_its_values(world: World) -> None:
    told = await world.asks("/settings queue-mode")
    assert "queue_mode: queue (as by default)" in told
    assert "Values: queue | drop | interrupt, or default. Change it with /queue" in told
    assert "in this place alone" in await world.asks("/settings quiet_hours", "quiet_hours: –")


async def test_a_change_counts_at_once_and_default_takes_it_back(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        assert "From now on: interrupt." in await world.asks("/settings queue_mode INTERRUPT")
        assert "queue_mode is queue again, as by default." in await world.asks("/settings queue_mode default")
        await world.asks("/settings queue_mode drop", "From now on: drop")
        assert "Mode: drop" in await world.asks("/queue", "Mode: ")
    async with world.process():
        assert "queue_mode: drop (chosen here)" in await world.asks("/settings queue_mode", "queue_mode: ")


@sandboxed  # without it there is no tool of that name
async def test_wrong_words_are_told_with_what_would_be_right(world: World) -> None:
    known = (await world.asks("/settings zzz red")).partition("There are: ")[2]
    assert set(known.rstrip(".").split(", ")) == set(COMMANDS.settings)
    assert "Did you mean language?" in await world.asks("/settings languag red")
    assert "Near it: shell" in await world.asks("/settings denied_tools shel")
    assert "no whole number from 0 to 60000" in await world.asks("/settings merge_ms soon")
    assert "no amount in USD" in await world.asks("/settings daily_usd much")
    assert "is no language" in await world.asks("/settings language german!")
    assert "“loud” is no value for it. Choose quiet, normal, verbose, or default." in await world.asks(
        "/settings verbosity loud"
    )
    assert "Choose queue (in order), drop" in await world.asks("/settings queue_mode maybe")
    assert "There are: default." in await world.asks("/settings persona nobody")
    assert "as quiet hours" in await world.asks("/settings quiet_hours night")
    assert "chosen here" not in await world.asks("/settings", "Settings of this chat"), "nothing was changed"


async def test_in_a_group_everybody_looks_and_admins_change(world: World) -> None:
    for key, value in (("queue_mode", "drop"), ("verbosity", "quiet"), ("quiet_hours", "22-7"), ("persona", "default")):
        assert "is for admins" in await world.asks(f"/settings {key} {value}", person=BOB, chat=GROUP)
        assert "is for admins" in await world.asks(f"/settings {key} default", person=BOB, chat=GROUP)
    listed = await world.asks("/settings", "Settings of this chat", person=BOB, chat=GROUP)
    assert "chosen" not in listed
    assert "I show: normal" in await world.asks("/verbose", person=BOB, chat=GROUP)
    assert "is for admins" in await world.asks("/verbose quiet", person=BOB, chat=GROUP)
    assert "Here it is for admins." in await world.asks("/settings verbosity", "Values", person=BOB, chat=GROUP)
    assert "I show: quiet" in await world.asks("/settings verbosity quiet", person=ANN, chat=GROUP)
    assert "I show: verbose" in await world.asks("/settings verbosity verbose", person=BOB), "their own chat is theirs"


@pytest.mark.requirement("G-46")
async def test_a_role_that_denies_a_command_denies_its_setting(world_of: Callable[..., World]) -> None:
    denies = '[[roles]]\nname = "careful"\npeople = ["telegram:78"]\ncommands = ["!queue", "!provider"]\n'
    async with world_of().process() as world:
        await world.asks("/settings queue_mode drop", "From now on: drop", person=BOB)
        await world.asks("/settings verbosity verbose", "I show: verbose", person=BOB)
        world.config = denies
        world.reload()
        for words in ("queue_mode drop", "queue-mode default", "reset queue_mode", "provider b", "provider_locked on"):
            name = "queue" if "queue" in words else "provider"
            told = await world.asks(f"/settings {words}", person=BOB)
            assert told == f"/{name} is denied to people with the role careful.", words
        told = await world.asks("/settings queue_mode", "Values", person=BOB)
        assert "/queue is denied to people with the role careful." in told
        assert world.screen(BOB).shown[-1].actions == (), "nothing to press that would be refused"
        said = world.said("/settings queue_mode ", person=BOB)
        assert set(await world.services.gateway.suggest(said)) == {"settings queue_mode"}
        told = await world.asks("/settings reset all", "Back to what holds around", person=BOB)
        assert told == "Back to what holds around this chat: verbosity."
        assert "queue_mode: drop (chosen here)" in await world.asks("/settings queue_mode", "queue_mode", person=BOB)
        await world.asks("/settings queue_mode drop", "From now on: drop", person=ANN)


async def test_reset_all_waits_its_turn_and_tells_what_it_took_back(world: World) -> None:
    await world.asks("/settings verbosity quiet", "I show: quiet")
    await world.asks("/settings provider b", "now uses")
    world.script(slowly("slow"))
    await world.say("slow please")
    await world.until_asked()
    assert (await world.say("/settings reset all")).reason == "", "it is not done beside the turn"
    assert "verbosity: quiet (chosen here)" in await world.asks("/settings verbosity", "verbosity: ")
    world.go_on()
    told = await world.shows("Back to")
    assert "verbosity" in told
    assert "provider" in told
    assert "as by default" in await world.asks("/settings verbosity", "verbosity: normal")


async def test_the_words_of_a_text_are_all_its_own(world: World) -> None:
    """Its last word may be `account`; for the whole account that word comes first. Line ends are blanks, too."""
    await world.asks("/settings instructions\nClose the account", "is “Close the account” now")
    assert "“Close the account” (chosen here)" in await world.asks("/settings instructions", "chosen here")
    await world.asks("/settings instructions account", "is “account” now")
    await world.asks("/settings instructions account Be brief.\nBe kind.", "Be kind.” now")
    told = await world.asks("/settings instructions", "chosen for this whole account", chat=GROUP)
    assert "Be brief.\nBe kind." in told
    assert "“account” (chosen here)" in await world.asks("/settings instructions", "“account”")
    await world.asks("/settings instructions account default", "again", chat=GROUP)
    assert "instructions: – (as by default)" in await world.asks("/settings instructions", "as by", chat=GROUP)
    await world.asks("/settings merge_ms\n30\naccount", "is 30 now")
    assert "30 (chosen for this whole account)" in await world.asks("/settings merge_ms", "merge_ms: 30", chat=GROUP)


@pytest.mark.requirement("G-42")
async def test_a_change_for_the_account_leaves_a_choice_of_this_chat_and_default_takes_it_back(world: World) -> None:
    write(world, "pirate", PIRATE)
    write(world, "broken", "---\ncolour: red\n---\n")
    await world.answered("hello", chat=GROUP)
    await world.asks("/persona default", "I am default")
    await world.asks("/settings persona pirate account", "I am pirate")
    await world.answered("who is it")
    assert "like a pirate" not in str(world.llm.bodies[-1]["messages"][0]), "this chat has a choice of its own"
    await world.answered("and here", chat=GROUP)
    assert world.models_asked[-1] == "model-b", "as that persona wants"
    assert "like a pirate" in str(world.llm.bodies[-1]["messages"][0])
    assert "broken cannot be used" in await world.asks("/settings persona broken account")
    assert "There are: broken, default, pirate." in await world.asks("/settings persona nobody account")
    assert "pirate (chosen for this whole account)" in await world.asks("/settings persona", "persona: ", chat=GROUP)
    await world.asks("/settings provider b account", "Every chat")
    assert "provider: b (chosen for this whole account)" in await world.asks("/settings provider", "provider: b")
    await world.asks("/settings provider default account", "Back to the default: a")
    assert "provider: a (as by default)" in await world.asks("/settings provider", "provider: a")
    await world.asks("/settings persona default account", "persona is default again")
    await world.asks("/persona pirate", "I am pirate")
    await world.asks("/settings persona default account", "persona is default again")
    await world.answered("who is it now")
    assert "like a pirate" in str(world.llm.bodies[-1]["messages"][0]), "nothing was to be taken back"


async def test_a_topic_and_a_discord_thread_have_what_was_chosen_around_them(world_of: Callable[..., World]) -> None:
    world = world_of(accounts=("telegram", "discord"))
    world.access += '\ngroups = "open"'
    on_discord: dict[str, Any] = {"on": "discord", "place": CHANNEL}
    async with world.process():
        await world.asks("/verbose quiet", "I show: quiet", chat=GROUP)
        assert "I show: quiet" in await world.asks("/verbose", chat=TOPIC)
        await world.asks("/verbose quiet", "I show: quiet", chat=CHANNEL, **on_discord)
        await world.asks("/queue drop", "drop", chat=CHANNEL, **on_discord)
        await world.answered("a thread", chat=THREAD, parent=CHANNEL, **on_discord)
        key = ConversationKey("discord", THREAD)
        assert world.services.delivery.verbosity(key) == "quiet"
    async with world.process():
        assert "chosen in the group or channel around" in await world.asks(
            "/settings verbosity", "verbosity: quiet", chat=THREAD, parent=CHANNEL, **on_discord
        )
        assert "Mode: drop" in await world.asks("/queue", chat=THREAD, parent=CHANNEL, **on_discord)
        status = await world.asks("/status", "Status", chat=THREAD, parent=CHANNEL, **on_discord)
        assert "drop" in status


async def test_quiet_hours_hold_in_their_place_alone(world: World) -> None:
    await world.asks("/settings quiet_hours 22-7", "Quiet hours from now on: 22:00-07:00 UTC.", chat=GROUP)
    assert "22:00-07:00 UTC (chosen here)" in await world.asks("/settings quiet_hours", "quiet_hours: ", chat=GROUP)
    assert "no quiet hours" in await world.asks("/schedules quiet", chat=TOPIC)
    assert "No more quiet hours." in await world.asks("/settings quiet_hours off", chat=GROUP)
    assert "no quiet hours" in await world.asks("/schedules quiet", "no quiet hours", chat=GROUP)


async def test_what_recurs_waits_for_the_end_of_the_quiet_hours_that_were_set(world: World) -> None:
    now = world.clock.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    end = now + timedelta(hours=4)
    await world.asks(f"/settings quiet_hours {(now - timedelta(hours=1)).hour}-{end.hour}", "Quiet hours from now on")
    await world.asks("/remind every hour drink water", "drink water")
    world.clock.ahead_s += 2 * 3600
    world.services.schedules.look()

    async def waits() -> bool:
        next_at = select(schedule.c.next_at)
        return bool(await world.database.read(lambda conn: conn.execute(next_at).scalar_one()) == to_timestamp(end))

    await until(waits)


async def test_a_persona_answers_until_default_lets_the_configured_one_again(world: World) -> None:
    write(world, "pirate", PIRATE)
    assert "I am pirate" in await world.asks("/settings persona pirate")
    await world.answered("ahoy")
    assert "like a pirate" in str(world.llm.bodies[-1]["messages"][0])
    assert "persona is default again" in await world.asks("/settings persona default")
    await world.answered("hello")
    assert "like a pirate" not in str(world.llm.bodies[-1]["messages"][0])
    await world.services.conversations.forget(ConversationId(f"telegram:{ANN}"))
    await world.answered("hello again")
    assert "like a pirate" not in str(world.llm.bodies[-1]["messages"][0])


async def test_what_another_process_stored_counts_when_the_agent_wakes(world: World) -> None:
    await world.asks("/queue drop", "From now on")
    await world.answered("hello")
    conversation = ConversationId(f"telegram:{ANN}")
    await world.database.write(
        partial(settings_rows.put, conversation=conversation, key="queue_mode", value="interrupt", at=1)
    )
    await world.services.conversations.forget(conversation)
    await world.answered("hello again")
    assert "queue_mode: interrupt" in await world.asks("/settings queue_mode", "queue_mode: ")


async def test_a_changed_configuration_counts_where_nobody_chose(world: World) -> None:
    assert "verbosity: normal (as by default)" in await world.asks("/settings verbosity")
    await world.asks("/settings verbosity quiet", "I show: quiet", chat=GROUP)
    world.config = "verbosity = 'verbose'\n[scheduler]\nenabled = false\n"
    world.reload()
    listed = await world.asks("/settings", "Settings of this chat")
    assert "verbosity: verbose (as by default)" in listed
    assert "quiet_hours" not in listed, "nothing recurs any more"
    assert "verbosity: quiet (chosen here)" in await world.asks("/settings", "Settings of this chat", chat=GROUP)
    verbosity = world.services.delivery.verbosity
    assert [verbosity(ConversationKey("telegram", chat)) for chat in (ANN, TOPIC)] == ["verbose", "quiet"]


async def test_a_refused_change_of_the_file_is_a_trouble_until_it_is_mended(world: World) -> None:
    (world.home / "gateway.toml").write_text("verbosity = 'loud'\n[queue\n")
    world.live.reload()
    (trouble,) = world.troubles.open
    assert (trouble.kind, trouble.subject, trouble.blocking) == ("config", "gateway.toml", False)
    assert "the changed file is not used" in trouble.text
    assert "tieline config check" in trouble.fix
    world.reload()
    assert world.troubles.open == ()


async def test_keys_and_values_are_suggested_to_whom_they_help(world: World) -> None:
    async def suggested(text: str, **fields: Any) -> set[str]:
        return set(await world.services.gateway.suggest(world.said(text, **fields)))

    assert {"settings queue_mode", "settings persona"} <= await suggested("/settings ")
    assert await suggested("/settings verbosity q") == {"settings verbosity quiet"}
    assert await suggested("/settings verbosity ", person=BOB, chat=GROUP) == {"settings verbosity"}


async def test_it_stands_behind_help_all(world: World) -> None:
    assert "/settings" not in await world.asks("/help")
    assert "/settings" in await world.asks("/help all", "/settings")
    assert "/settings verbosity quiet" in await world.asks("/help settings", "/settings verbosity quiet")
