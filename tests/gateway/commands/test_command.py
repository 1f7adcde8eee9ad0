"""Commands: recognition, rights, publication on platforms."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text as sql

from gateway.access.policy import Role
from gateway.channels.document import List
from gateway.channels.inbound import Mention
from gateway.commands.all import all_commands, specs
from gateway.commands.command import MOST_ACTION, AnyCall, Command, Commands, Reply, choices, split_command
from gateway.phrases.catalogue import read_catalogue
from tests.gateway.world import BOB, GROUP, World

COMMANDS = all_commands()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("/help", ("help", ""), id="alone"),
        pytest.param("  /Help  ", ("help", ""), id="spaces and capitals"),
        pytest.param("/provider b", ("provider", "b"), id="with words"),
        pytest.param("/provider\tb", ("provider", "b"), id="a tab"),
        pytest.param("/new\nand then this", ("new", "and then this"), id="a line break"),
        pytest.param("/ask a\nb  c", ("ask", "a\nb  c"), id="the words stay as they are"),
        pytest.param("/clear_queue", ("clear-queue", ""), id="as Telegram writes it"),
        pytest.param("/etc/hosts is a file", ("", ""), id="a path"),
        pytest.param("/", ("", ""), id="a slash"),
        pytest.param("/ help", ("", ""), id="a slash apart"),
        pytest.param("/_", ("", ""), id="no letters"),
        pytest.param("no /help here", ("", ""), id="not at the beginning"),
        pytest.param("", ("", ""), id="nothing"),
    ],
)
def test_what_is_a_command(text: str, found: tuple[str, str]) -> None:
    assert split_command(text) == found


def test_two_of_one_name_are_found_at_start() -> None:
    async def run(call: AnyCall) -> Reply:
        return Reply()

    with pytest.raises(ValueError, match="/quit"):
        Commands(
            (
                Command(name="quit", run=run, group="more"),
                Command(name="exit", run=run, group="more", aliases=("quit",)),
            )
        )


def test_a_family_without_its_dependencies_is_found_at_start() -> None:
    async def run(call: AnyCall) -> Reply:
        return Reply()

    class PoetryDeps:
        """A family's."""

    commands = Commands(
        (
            Command(name="rhyme", run=run, group="more", deps=PoetryDeps),
            Command(name="plain", run=run, group="more"),
        )
    )
    with pytest.raises(ValueError, match="PoetryDeps"):
        commands.given(())
    deps = PoetryDeps()
    assert commands.given((deps,))[PoetryDeps] is deps


@pytest.mark.parametrize(
    ("name", "role", "in_group", "allowed"),
    [
        pytest.param("status", Role.MEMBER, True, True, id="looking is for all"),
        pytest.param("stop", Role.MEMBER, True, True, id="stopping too"),
        pytest.param("provider", Role.MEMBER, False, True, id="one's own chat is one's own"),
        pytest.param("provider", Role.MEMBER, True, False, id="a group's provider is the admins'"),
        pytest.param("provider", Role.ADMIN, True, True, id="which admins may"),
        pytest.param("allow", Role.MEMBER, False, False, id="letting in is the admins', everywhere"),
        pytest.param("allow", Role.OWNER, False, True, id="and the owners'"),
    ],
)
def test_who_may(name: str, role: Role, in_group: bool, allowed: bool) -> None:
    command = COMMANDS.named(name)
    assert command is not None
    assert command.allowed(role, in_group=in_group) is allowed


def test_platforms_learn_each_command_with_a_sentence() -> None:
    phrase = read_catalogue()
    known = {spec.name: spec for spec in specs(lambda key: phrase(key, "en"))}
    assert {"help", "stop", "provider", "allow", "queue", "sessions", "usage", "why"} <= set(known)
    assert "start" not in known, "platforms send it by themselves"
    assert known["provider"].options == "[name | reset | lock | unlock] [account]"
    assert known["allow"].admin
    assert all(spec.description and len(spec.description) <= 100 for spec in known.values())


def test_names_that_do_not_fit_into_a_button_have_none() -> None:
    names = ["short", "x" * 60, "ü" * 30, *(f"n{number}" for number in range(20))]
    buttons = choices("persona", names, most=8)
    assert len(buttons) == 8
    assert [button.label for (button,) in buttons][:2] == ["short", "n0"]
    assert all(len(button.action.encode()) <= MOST_ACTION for (button,) in buttons)


async def test_help_shows_what_this_person_may_use_here(world: World) -> None:
    for_admin = await world.asks("/help")
    assert "/allow" in for_admin
    for_member = await world.asks("/help", person=BOB)
    assert "/allow" not in for_member
    assert "/provider" in for_member
    in_group = await world.asks("/help", person=BOB, chat=GROUP)
    assert "/provider" not in in_group
    assert "/stop" in in_group
    assert "/exit" not in for_admin, "only a terminal can be left"
    auf_deutsch = await world.asks("/help", "Befehle", person=BOB, language="de-AT")
    assert "Modell" in auf_deutsch


async def test_help_is_short_and_all_of_it_is_one_word_away(world: World) -> None:
    short = await world.asks("/help")
    named = re.findall(r"^\W*/(\w+): ", short, re.MULTILINE)
    assert 8 <= len(named) <= 12, short
    assert "/remind tomorrow 9:00 pay the rent" in short
    assert "/help all" in short
    everything = await world.asks("/help all")
    assert "/allow" in everything
    assert "/debug-dump" in everything
    assert len(await world.asks("/help all", person=BOB)) < 4096, "one message on Telegram"


async def test_platforms_are_told_the_words_that_verbose_takes(world: World) -> None:
    words = {command.name: command for command in world.accounts["telegram"].published}["verbose"].choices
    assert words == ("quiet", "normal", "verbose")
    for word in words:
        assert word in await world.asks(f"/verbose {word}")


async def test_help_names_nothing_that_is_switched_off(world_of: Callable[..., World]) -> None:
    async with world_of(config="[scheduler]\nenabled = false\n").process() as world:
        assert "/remind" not in (await world.asks("/help")).split("\n\n")[1]
        everything = await world.asks("/help all")
        assert not re.search(r"/(graph|focus|sidequest|remind|schedules|exit)\b", everything), everything
        published = {command.name for command in world.accounts["telegram"].published}
        assert not published & {"graph", "focus", "sidequest", "remind", "exit"}


@pytest.mark.requirement("Z-94")
async def test_goals_that_are_switched_off_are_offered_nowhere(world_of: Callable[..., World]) -> None:
    for config, offered in (("", {"goal", "done"}), ("[agent.goal]\nenabled = false\n", set())):
        async with world_of(config=config).process() as world:
            published = {command.name for command in world.accounts["telegram"].published}
            assert published & {"goal", "done"} == offered
            assert set(re.findall(r"/(goal|done)\b", await world.asks("/help all"))) == offered


@pytest.mark.parametrize(("platform", "typed"), [("discord", "/bo clear-queue"), ("telegram", "/clear_queue")])
async def test_commands_are_named_as_they_are_typed_there(
    world_of: Callable[..., World], platform: str, typed: str
) -> None:
    async with world_of(accounts=(platform,)).process() as world:
        account = world.accounts[platform]
        prefix, dash = ("/bo ", "-") if platform == "discord" else ("/", "_")
        account.capabilities = replace(account.capabilities, command_prefix=prefix, command_dash=dash)
        answer = await world.asks("/help all", person="77", on=platform)
        assert typed in answer
        answer = await world.asks("/xyzzy", on=platform)
        assert typed.partition("clear")[0] + "help" in answer, "in every sentence of ours"
        await world.answered("say /clear-queue", "say /clear-queue", on=platform)


async def test_help_tells_of_one_command(world: World) -> None:
    remind = await world.asks("/help /remind", "<when> <text>")
    assert "Also: /reminder" in remind
    assert "/status" not in remind
    assert "/remind every weekday 8:30 stand-up" in remind, "how it is written, as /remind alone tells"
    assert "Here it is for admins." in await world.asks("/help provider", "Here it is", person=BOB, chat=GROUP)
    assert "Did you mean /provider?" in await world.asks("/help provier")
    assert world.llm.calls == []


async def test_an_unknown_command_is_answered_with_the_nearest(world: World) -> None:
    assert "Did you mean /provider?" in await world.asks("/provier b")
    assert "/help lists" in await world.asks("/xyzzy")
    assert world.llm.calls == []


async def test_what_only_looks_like_a_command_goes_to_the_model(world: World) -> None:
    await world.say("/etc/hosts is a file")
    await world.shows("/etc/hosts is a file")
    assert len(world.llm.calls) == 1


async def test_members_are_refused_in_groups_and_told_alone(world: World) -> None:
    assert "is for admins" in await world.asks("/provider b", person=BOB, chat=GROUP)
    await world.asks("/provider b", "This chat now uses", chat=GROUP)
    refused = await world.asks("/allow telegram:99", person=BOB)
    assert "you are: member" in refused


async def test_a_command_needs_no_mention_in_a_group(world: World) -> None:
    assert "role" in await world.asks("/whoami", chat=GROUP, mention=Mention.NONE)


async def test_a_broken_command_ends_in_a_sentence_and_does_not_come_again(world: World) -> None:
    await world.database.write(lambda conn: conn.execute(sql("drop table access_grant")))
    broken = world.said("/allow telegram:99")
    assert (await world.hears(broken)).outcome == "accepted"
    assert re.search(r"Reference \w{8}\.$", await world.shows("That command failed"))
    assert (await world.hears(broken)).outcome == "duplicate"
    assert "role" in await world.asks("/whoami")


async def test_start_says_hello_by_name(world: World) -> None:
    assert "Hello Person 77" in await world.asks("/start")


PAGES = "".join(path.read_text() for path in (Path(__file__).parents[3] / "docs").glob("commands-*.md"))
ROWS = re.findall(r"^\| (`/.*?) \| (?:.*) \| (●?) ?\|$", PAGES, re.MULTILINE)


def test_the_pages_of_commands_name_each_and_no_other() -> None:
    named = {name for cell, _ in ROWS for name in re.findall(r"`/([a-z-]+)", cell)}
    assert named <= set(COMMANDS.names), f"there is no {sorted(named - set(COMMANDS.names))}"
    missing = {one.name for one in COMMANDS.all if not one.hidden} - named
    assert not missing, f"no docs/commands-*.md tells of {sorted(missing)}"


@pytest.mark.parametrize(("cell", "mark"), ROWS)
def test_the_pages_of_commands_say_which_are_done_at_once(cell: str, mark: str) -> None:
    for name in re.findall(r"`/([a-z-]+)", cell):
        command = COMMANDS.named(name)
        assert command is not None
        assert command.immediate is bool(mark), name


async def test_help_for_one_command_gives_each_example_a_line_of_its_own(world: World) -> None:
    await world.say("/help remind")
    await world.shows("tomorrow 9:00")
    (document,) = [one.message.document for one in world.screen().shown if "tomorrow 9:00" in one.text]
    (examples,) = [block for block in document if isinstance(block, List)]
    assert len(examples.items) >= 5, "no two run into one paragraph"


@pytest.mark.requirement("Z-09")
@pytest.mark.parametrize("chat", ["77", GROUP, f"{GROUP}:9"], ids=["direct", "group", "topic"])
async def test_commands_never_reach_the_model_and_the_chat_goes_on(world: World, chat: str) -> None:
    await world.answered("hello", chat=chat)
    for text in ("/compact", "/plan", "/undo", "/clear", "/new", "/exit"):
        await world.asks(text, chat=chat)
        await world.settled()
    assert len(world.llm.bodies) == 1
    await world.answered("and now?", chat=chat)
    assert "hello" not in str(world.llm.bodies[-1]["messages"]), "they did what they are for"
