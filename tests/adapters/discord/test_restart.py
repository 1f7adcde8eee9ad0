"""The real adapter behind a real delivery, killed and started again: what stands on Discord then, minutes later and
when Discord has forgotten the keys.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from adapters.discord.channel import DiscordChannel
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.storage import outbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.channels.document import Plain
from gateway.channels.outbound import Outbound
from gateway.delivery.ephemeral.messages import encode, unnamed
from gateway.delivery.outbox import rows
from gateway.delivery.outbox.call_journal import CallJournal
from gateway.delivery.outbox.delivery import Delivery
from gateway.delivery.rendering.markdown import parse
from gateway.testing.harness import running
from tests.adapters.discord.harness import DM, Discord, House, LaterClock, connected
from tests.fakes.waiting import until
from tests.gateway.delivery.world import QUIET, Reports, phrase

CONVERSATION = ConversationId(f"discord:{DM}")
REPEAT = "(This may be a repeat: the connection broke off while I was sending.)"


@asynccontextmanager
async def killed_while_sending(
    discord: Discord, services: House, database: Database, text: str
) -> AsyncIterator[tuple[DiscordChannel, rows.Claimed]]:
    """A process that ends with an answer marked as being sent; what of it arrived is up to the test."""
    at = to_timestamp(services.adapter_context.clock.now())
    await database.write(
        lambda conn: outbox_rows.add(
            conn,
            conversation=CONVERSATION,
            inbox_id=1,
            part=0,
            dedup="1",
            say=OutgoingMessage(text=text, kind="reply"),
            at=at,
        )
    )
    journal = CallJournal(Path())  # which notes nothing: the message may have been sent
    taking = partial(rows.claim, key=CONVERSATION, now=at, journal=journal, is_free=lambda row: True)
    claimed = await database.write(taking)
    assert isinstance(claimed, rows.Claimed)
    async with connected(discord, services) as adapter:
        yield adapter.channel(DM), claimed


async def the_next_process(discord: Discord, home: Path, database: Database, later_s: float) -> list[str]:
    """The bot's messages, once the process that was started so much later has nothing left to do."""
    await discord.control("settings", {"clock_ahead": later_s})
    services = House(home, clock=LaterClock(later_s))
    async with connected(discord, services) as adapter:
        channel = adapter.channel(DM)
        delivery = Delivery(
            database,
            lambda _: channel,
            services.adapter_context.clock,
            home=home,
            journal=CallJournal(home),
            phrase=phrase,
            reports=Reports(),
            settings=QUIET,
        )

        async def is_sent() -> bool:
            return not await database.read(outbox_rows.conversations_with_open)

        async with running(delivery.run):
            await until(is_sent)
    return [str(message["content"]) for message in discord.mine()]


@pytest.mark.requirement("B-52", "G-08")
@pytest.mark.parametrize("arrived", [True, False], ids=["it had arrived", "it had not"])
@pytest.mark.parametrize("later_s", [10, 600], ids=["soon", "ten minutes later"])
async def test_an_answer_stands_there_once(
    discord: Discord, services: House, sqlite_database: Database, tmp_path: Path, arrived: bool, later_s: float
) -> None:
    async with killed_while_sending(discord, services, sqlite_database, "Once and for **all**.") as (channel, row):
        if arrived:
            await channel.send(Outbound(document=parse("Once and for **all**."), key=row.key(0)))
    texts = await the_next_process(discord, tmp_path, sqlite_database, later_s)
    assert texts == ["Once and for **all**."]


async def test_what_reads_otherwise_makes_it_a_repeat_that_says_so(
    discord: Discord, services: House, sqlite_database: Database, tmp_path: Path
) -> None:
    async with killed_while_sending(discord, services, sqlite_database, "Once.") as (channel, row):
        await channel.send(Outbound(document=(Plain("Once, as another version wrote it."),), key=row.key(0)))
    texts = await the_next_process(discord, tmp_path, sqlite_database, 600)
    assert texts == ["Once, as another version wrote it.", f"{REPEAT}\nOnce."]


@pytest.mark.requirement("G-08")
@pytest.mark.parametrize("arrived", [True, False], ids=["beside its answer", "without its answer"])
async def test_a_whole_preview_is_not_taken_for_the_answer(
    discord: Discord, services: House, sqlite_database: Database, tmp_path: Path, arrived: bool
) -> None:
    """Killed before the preview had a name: it reads like the answer, and goes."""
    async with killed_while_sending(discord, services, sqlite_database, "Once.") as (channel, row):
        note = encode(unnamed("p-1", of=1))
        await sqlite_database.write(
            lambda conn: outbox_rows.note(conn, conversation=CONVERSATION, kind="preview", ref=note, at=1)
        )
        await channel.send(Outbound(document=(Plain("Once."),), key="p-1"))
        (preview,) = discord.mine()
        if arrived:
            await channel.send(Outbound(document=(Plain("Once."),), key=row.key(0)))
    assert await the_next_process(discord, tmp_path, sqlite_database, 10) == ["Once."]
    assert preview["id"] not in [message["id"] for message in discord.mine()]
