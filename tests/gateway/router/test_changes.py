"""Platform life: a group gets a new key, the bot is shown out and comes back."""

from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest

from agent.core.ids import ConversationId
from agent.memory.notes import path_of, write
from agent.tools.output_files import Outputs
from gateway.channels.errors import ChannelGone
from gateway.channels.inbound import ChatType, Membership, Moved, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.storage import grants
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World, slowly

NEW = "-1009"
OTHER = "-2002"


def moved(world: World, old: str = GROUP, new: str = NEW) -> Moved:
    return Moved(
        key=ConversationKey("telegram", old),
        place=old,
        message_id="m1",
        sender=Sender(id=UserId(ANN)),
        received_at=world.clock.now(),
        chat_type=ChatType.GROUP,
        new_key=ConversationKey("telegram", new),
        new_place=new,
    )


def membership(world: World, chat: str = GROUP, *, present: bool, on: str = "telegram") -> Membership:
    return Membership(
        key=ConversationKey(on, chat),
        place=chat,
        message_id="m1",
        sender=Sender(id=UserId(ANN)),
        received_at=world.clock.now(),
        chat_type=ChatType.GROUP,
        present=present,
    )


class TestMoving:
    async def test_everything_follows_to_the_new_key(self, world: World) -> None:
        await world.asks("/provider b", "now uses", chat=GROUP)
        await world.asks("/queue drop", "drop", chat=GROUP)
        await world.asks("/verbose quiet", "quiet", chat=GROUP)
        await world.answered("remember plover", chat=GROUP)
        notes = path_of(world.home, ConversationId(f"telegram:{GROUP}"))
        write(notes, "- the hut is by the lake\n", at=world.clock.now())
        kept = await Outputs(world.home).keep(ConversationId(f"telegram:{GROUP}"), "long output")
        assert kept is not None
        verbosity = world.services.delivery.verbosity
        assert (await world.hears(moved(world))).outcome == "accepted"
        assert verbosity(ConversationKey("telegram", NEW)) == "quiet", "at once, before anybody writes there"
        assert verbosity(ConversationKey("telegram", GROUP)) == "normal"
        assert (await world.hears(moved(world))).outcome == "ignored"

        await world.answered("which bird", chat=NEW, person=BOB)
        assert world.models_asked[-1] == "model-b", "the preference, and the grant that stands in the configuration"
        assert "plover" in str(world.llm.bodies[-1]), "the history"
        assert "the hut is by the lake" in str(world.llm.bodies[-1]), "MEMORY.md"
        assert not notes.parent.exists()
        assert await Outputs(world.home).read(ConversationId(f"telegram:{NEW}"), kept) == "long output"
        assert "Mode: drop" in await world.asks("/queue", chat=NEW)
        world.script(slowly("slow"))
        await world.say("slow please", chat=NEW)
        await world.until_asked(3)
        assert (await world.say("and this", chat=NEW)).outcome == "refused", "at once, not only after a restart"

    async def test_a_grant_given_in_the_chat_follows(self, world_of: Callable[..., World]) -> None:
        world = world_of()
        async with world.process():
            await world.asks("/allow", "let in", chat=OTHER)
            assert (await world.hears(moved(world, OTHER))).outcome == "accepted"
            assert (await world.say("hello", chat=NEW, person=BOB)).outcome == "accepted"
            assert (await world.say("hello", chat=OTHER, person=BOB)).reason == "group not allowed"
        async with world.process():
            assert (await world.say("hello", chat=NEW, person=BOB)).outcome == "accepted"
            given = await world.database.read(grants.all_grants)
            assert [grant.subject for grant in given] == ["telegram:-1009"]

    async def test_what_runs_and_what_waits_is_answered_in_the_new_place(self, world: World) -> None:
        world.script({**slowly("slow"), "times": 1})
        await world.say("slow please", chat=GROUP)
        await world.until_asked()
        await world.say("and this", chat=GROUP)
        assert (await world.hears(moved(world))).outcome == "accepted"
        await world.shows("and this", NEW)
        assert "slow please" in world.texts(NEW)[0]
        assert world.texts(GROUP) == []

    async def test_nobody_waits_for_an_agent_that_takes_its_time_to_end(self, world: World) -> None:
        """A platform's adapter hands over one batch after another: one move must not hold up its other chats."""
        old = ConversationId(f"telegram:{GROUP}")
        await world.answered("remember plover", chat=GROUP)
        notes = path_of(world.home, old)
        write(notes, "- the hut is by the lake\n", at=world.clock.now())
        begun, ends = anyio.Event(), anyio.Event()

        async def turn() -> None:
            async with world.services.conversations.use(old):
                begun.set()
                await ends.wait()

        async with running(turn):
            await begun.wait()
            with anyio.fail_after(10):
                assert (await world.hears(moved(world))).outcome == "accepted"
            assert not notes.exists(), "files follow before the platform is told that we know: a crash keeps them"
            await world.answered("which bird", chat=NEW, person=BOB)
            assert "plover" in str(world.llm.bodies[-1])
            write(notes, "- a last word\n", at=world.clock.now())
            ends.set()
            await until(lambda: not notes.exists())
        assert "a last word" in path_of(world.home, ConversationId(f"telegram:{NEW}")).read_text()

    async def test_a_group_nobody_spoke_in_moves_its_grants_alone(self, world: World) -> None:
        receipt = await world.hears(moved(world))
        assert receipt.reason == "nothing known there"
        assert (await world.say("hello", chat=NEW, person=BOB)).outcome == "accepted"


class TestComingAndGoing:
    async def test_nothing_is_sent_while_the_bot_is_out_and_all_of_it_afterwards(self, world: World) -> None:
        world.script(slowly("slow"))
        await world.say("slow please", chat=GROUP)
        await world.until_asked()
        assert (await world.hears(membership(world, present=False))).outcome == "accepted"
        assert (await world.hears(membership(world, present=False))).outcome == "duplicate"
        await world.shows("⚠️ I was removed from or blocked in telegram:-1005")
        await until(lambda: not world.services.dispatcher.running)
        assert world.texts(GROUP) == []
        assert (await world.hears(membership(world, present=True))).outcome == "accepted"
        await world.shows("Stopped.", GROUP)
        await world.settled()
        assert sum("removed from" in text for text in world.texts()) == 1

    async def test_topics_go_and_come_with_their_group(self, world: World) -> None:
        for topic in ("3", "4"):
            await world.answered(f"in topic {topic}", chat=f"{GROUP}:{topic}")
        await world.say("/whoami", chat="-10055")
        await world.hears(membership(world, present=False))
        for topic in ("3", "4"):
            await world.notice("while away", f"{GROUP}:{topic}")
        await world.asks("/whoami", "role", chat="-10055")
        await world.shows("removed from or blocked in telegram:-1005")
        await world.hears(membership(world, present=True))
        for topic in ("3", "4"):
            await world.shows("while away", f"{GROUP}:{topic}")
        await world.settled()
        assert sum("removed from" in text for text in world.texts()) == 1

    async def test_a_place_that_nobody_spoke_in_is_no_news(self, world: World) -> None:
        assert (await world.hears(membership(world, "-4711", present=False))).outcome == "duplicate"
        assert (await world.hears(membership(world, "-4711", present=True))).outcome == "duplicate"
        await world.settled()
        assert world.texts() == []

    async def test_a_server_goes_with_all_its_channels_and_is_told_once(self, world: World) -> None:
        await world.answered("hello")
        await world.answered("hello", chat=GROUP)
        await world.answered("hello", chat=OTHER)
        channels = tuple(ConversationKey("telegram", chat) for chat in (GROUP, OTHER))
        server = replace(membership(world, "-9", present=False), also=channels)
        assert (await world.hears(server)).outcome == "accepted"
        await world.shows("I was removed")
        assert sum("I was removed" in text for text in world.texts()) == 1
        await world.notice("are you there", GROUP)
        assert (await world.hears(replace(server, present=True))).outcome == "accepted"
        assert "are you there" in await world.shows("are you there", GROUP)

    async def test_what_the_sender_finds_out_is_told_to_the_owner_once_too(self, world: World) -> None:
        world.screen(BOB).fail("send", ChannelGone("bot was blocked by the user"), times=5)
        await world.say("/whoami", person=BOB)
        await world.shows("blocked in telegram:78")
        assert (await world.hears(membership(world, BOB, present=False))).outcome == "duplicate"


@pytest.mark.parametrize("on", ["telegram", "telegram@work"])
async def test_accounts_are_apart(world_of: Callable[..., World], on: str) -> None:
    async with world_of(accounts=("telegram", "telegram@work")).process() as world:
        for account in ("telegram", "telegram@work"):
            await world.say("/whoami", chat=GROUP, on=account)
        await world.settled()
        await world.hears(membership(world, present=False, on=on))
        other = "telegram@work" if on == "telegram" else "telegram"
        await world.asks("/whoami", "role", chat=GROUP, on=other)
