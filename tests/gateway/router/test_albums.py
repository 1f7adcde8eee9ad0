"""An album arrives as one message a file and is one piece of work: one turn with all of them, one answer."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import pytest
from sqlalchemy import select

from agent.core.messages import FilePart
from agent.inbox import Incoming
from agent.storage.inbox_rows import MAX_WAITING
from agent.storage.tables import inbox, outbox
from gateway.channels.inbound import Mention, Receipt
from gateway.router.albums import joined
from tests.gateway.world import ANN, BOB, GROUP, World, file, slowly

AT = datetime(2026, 1, 1, tzinfo=UTC)


def part(text: str, name: str, *notes: str) -> Incoming:
    picture = FilePart(path=name, mime_type="image/png", name=name, size=1)
    return Incoming(text="\n".join(filter(None, (text, *notes))), files=(picture,), notes=notes, received_at=AT)


def test_notes_of_all_parts_stand_below_all_words() -> None:
    album = joined(joined(part("look", "a", "[no b]"), part("", "c")), part("and here", "d", "[no e]", "[no f]"))
    assert album.text == "look\nand here\n[no b]\n[no e]\n[no f]"
    assert [picture.name for picture in album.files] == ["a", "c", "d"]
    assert album.notes == ("[no b]", "[no e]", "[no f]")


async def sends(world: World, *names: str, caption: str = "what is this", **fields: Any) -> list[Receipt]:
    """Parts of one album, the words below the first one."""
    receipts = []
    for number, name in enumerate(names):
        text = "" if number else caption
        values = {"album": "g1", "attachments": (file(name, f"in {name}"),)} | fields
        receipts.append(await world.say(text, **values))
    return receipts


async def one_turn(world: World, *names: str, chat: str = ANN) -> None:
    await world.shows("what is this", chat)
    await world.settled()
    (body,) = (body for body in world.llm.bodies if "what is this" in str(body))
    assert [name for name in names if name not in str(body)] == []
    assert len(world.screen(chat).made("send")) == 1


async def test_an_album_is_one_turn_with_all_files_and_one_answer(world: World) -> None:
    names = [f"{number}.txt" for number in range(10)]
    receipts = await sends(world, *names)
    assert {receipt.outcome for receipt in receipts} == {"accepted"}
    await one_turn(world, *names)
    assert [status for status, _ in await world.rows()] == ["done", *["merged"] * 9]


async def test_its_parts_take_one_place_in_the_queue_and_count_once(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.access = "messages_per_minute = 3"
    async with world.process():
        world.script({**slowly("slow"), "times": 1})
        await world.say("slow please")
        await world.until_asked()
        receipts = await sends(world, *(f"{number}.txt" for number in range(10)))
        assert {receipt.outcome for receipt in receipts} == {"accepted"}
        assert (await world.say("and this")).outcome == "accepted"
        world.go_on()
        await world.shows("and this")


@pytest.mark.parametrize(
    ("before", "waiting", "limit", "why", "notices"),
    [
        pytest.param((), MAX_WAITING, 1000, "queue full", 2, id="queue full"),
        pytest.param(("/queue drop",), 0, 1000, "busy", 2, id="busy"),
        pytest.param((), 0, 1, "flood limit", 1, id="too many, which is said once for all"),
    ],
)
async def test_an_album_is_refused_once(
    world_of: Callable[..., World], before: tuple[str, ...], waiting: int, limit: int, why: str, notices: int
) -> None:
    world = world_of()
    world.access = f"messages_per_minute = {limit}"

    async def said_so_far() -> int:
        return await world.database.read(lambda conn: len(conn.execute(select(outbox.c.id)).all()))

    async with world.process():
        world.script({**slowly("slow"), "times": 1})
        for text in (*before, "slow please"):
            await world.say(text)
        await world.until_asked()
        for number in range(waiting):
            await world.say(f"m{number}")
        shown = await said_so_far()
        receipts = await sends(world, "a.txt", "b.txt", "c.txt")
        assert [receipt.reason for receipt in receipts] == [why, *["part of an album that was refused"] * 2]
        assert (await sends(world, "d.txt", album="g2"))[0].reason == why
        assert await said_so_far() - shown == notices
        assert not (world.home / "files").exists()  # nothing was fetched in vain


async def test_parts_without_the_caption_are_meant_for_the_bot_too(world: World) -> None:
    await world.say("what is this", chat=GROUP, album="g1", attachments=(file("a.txt", "in a.txt"),))
    receipt = await world.say(
        "", chat=GROUP, album="g1", attachments=(file("b.txt", "in b.txt"),), mention=Mention.NONE
    )
    assert receipt.outcome == "accepted"
    for stranger in ({"album": "g2"}, {"album": "g1", "person": BOB}):
        said = await world.say("", chat=GROUP, attachments=(file("c.txt"),), mention=Mention.NONE, **stranger)
        assert said.outcome == "ignored"
    await one_turn(world, "a.txt", "b.txt", chat=GROUP)


async def test_a_repeat_of_a_part_adds_nothing(world: World) -> None:
    async def due_at() -> int | None:
        return await world.database.read(lambda conn: conn.execute(select(inbox.c.not_before)).scalars().first())

    await sends(world, "a.txt")
    again = world.said("", album="g1", attachments=(file("b.txt", "in b.txt"),), id="9")
    assert (await world.hears(again)).outcome == "accepted"
    due = await due_at()
    assert (await world.hears(again)).outcome == "duplicate"
    assert await due_at() == due  # and delays nothing
    await one_turn(world, "a.txt", "b.txt")
    (body,) = world.llm.bodies
    assert str(body).count("in b.txt") == 1


async def test_what_is_said_behind_it_is_answered_behind_it_and_at_once(world: World) -> None:
    await sends(world, "a.txt", "b.txt")
    await world.answered("and now", chat=ANN)
    first, second = world.llm.bodies
    assert ("in b.txt" in str(first), "and now" in str(first), "and now" in str(second)) == (True, False, True)


@pytest.mark.parametrize("away_s", [0, 600])
@pytest.mark.parametrize("parts", [1, 2])
async def test_a_crash_between_its_parts_loses_none(world_of: Callable[..., World], parts: int, away_s: float) -> None:
    world, names = world_of(), ["a.txt", "b.txt", "c.txt"]
    async with world.process():
        await sends(world, *names[:parts], chat=GROUP)
    world.clock.ahead_s += away_s
    async with world.process():
        await world.asks("hello", person=BOB)  # whatever is due is begun before
        for name in names[parts:]:
            attachments = (file(name, f"in {name}"),)
            await world.say("", chat=GROUP, album="g1", attachments=attachments, mention=Mention.NONE)
        await one_turn(world, *names, chat=GROUP)


async def test_a_file_that_takes_its_time_is_waited_for(world: World) -> None:
    await sends(world, "a.txt")
    arrives = world.screen().hold("fetch")
    async with anyio.create_task_group() as tasks:
        second = partial(world.say, "", album="g1", attachments=(file("b.txt", "in b.txt"),))
        tasks.start_soon(second)
        await anyio.sleep(2.5)  # longer than an album waits for its parts
        assert not world.llm.bodies
        arrives.set()
    await one_turn(world, "a.txt", "b.txt")
