"""A place gets a new name: everything follows at once, and whoever still works under the old one is fenced."""

from functools import partial
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection, insert, select, text

from agent.core.errors import Fenced
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.goals import store as goals
from agent.goals.goal import Auto, Limits, Owner
from agent.ledger import rows as ledger_rows
from agent.ledger import sums
from agent.ledger.rows import Approval
from agent.ledger.spending import Account
from agent.storage import conversation_rows, outbox_rows
from agent.storage.database import Database, check_epoch
from agent.storage.tables import conversation, guideline, message, metadata, session
from gateway.storage import grants, settings_rows
from gateway.storage.grants import Grant
from gateway.storage.rekey import rekey, rekey_grants
from gateway.storage.repair import open_database
from gateway.storage.settings_rows import Row
from gateway.storage.tables import schedule
from tests.agent.ledger.test_sums import NOW, call, summed_up
from tests.fakes.agents import admit

OLD, NEW = ConversationId("telegram:-5"), ConversationId("telegram:-1005")
SETTINGS = ("persona", "only old", "only new")


def furnish(conn: Connection, key: ConversationId, name: str) -> int:
    """A row of everything that a conversation can have; returns its epoch."""
    epoch = conversation_rows.claim(conn, key, worker="w", run=name, now=0, until=900)
    assert epoch is not None
    session_row = {"id": name, "conv": key, "created_at": 1, "updated_at": 1}
    conn.execute(insert(session), session_row)
    conn.execute(conversation.update().where(conversation.c.key == key).values(session_id=name))
    conn.execute(insert(message), {"session_id": name, "conv": key, "role": "user", "parts": "[]", "created_at": 1})
    conn.execute(insert(guideline), {"conv": key, "session_id": name, "body": name, "at": 1})
    outbox_rows.add(
        conn, conversation=key, inbox_id=None, part=0, dedup=name, say=OutgoingMessage(text=name, kind="reply"), at=1
    )
    outbox_rows.note(conn, conversation=key, kind="status", ref="5", at=1)
    settings_rows.put(conn, key, "persona", name, at=1)
    settings_rows.put(conn, key, f"only {name}", name, at=1)
    goals.add(conn, conversation=key, origin=None, owner=Owner(), text=name, limits=Limits(), auto=Auto(most=5), at=1)
    settings_rows.note(conn, settings_rows.Change(key, "persona", name, "telegram:77", 1))
    planned: dict[str, object] = {
        "conv": key,
        "name": "report",
        "action": "ask",
        "text": name,
        "rule": "{}",
        "zone": "UTC",
    }
    planned |= {"zone_source": "given", "misfire": "once", "created_at": 1, "updated_at": 1}
    conn.execute(insert(schedule), planned)
    return epoch


def names_left(conn: Connection) -> set[str]:
    """Every conversation that any table speaks of."""
    found: set[str] = set(conn.execute(select(conversation.c.key)).scalars())
    for table in metadata.sorted_tables:
        if "conv" in table.c:
            found |= set(conn.execute(select(table.c.conv)).scalars())
    return found


async def test_everything_follows(database: Database) -> None:
    epoch = await database.write(partial(furnish, key=OLD, name="old"))
    await admit(database, OLD, "waiting")
    assert await database.write(partial(rekey, old=OLD, new=NEW))
    assert await database.read(names_left) == {NEW}
    assert await database.read(partial(settings_rows.all_of, names=SETTINGS)) == {
        NEW: {"persona": Row("old"), "only old": Row("old")}
    }
    changes = await database.read(partial(settings_rows.changes, conversations=[NEW], key="persona", most=9))
    assert [change.value for change in changes] == ["old"], "who changed it is known there, too"
    assert await database.read(lambda conn: conn.execute(select(conversation.c.session_id)).scalar_one()) == "old"
    for key in (OLD, NEW):
        with pytest.raises(Fenced):
            await database.write(partial(check_epoch, conversation=key, epoch=epoch))


async def test_where_both_have_something_the_new_places_settings_and_the_older_session_stay(
    database: Database,
) -> None:
    epochs = [await database.write(partial(furnish, key=key, name=name)) for key, name in ((OLD, "old"), (NEW, "new"))]
    assert await database.write(partial(rekey, old=OLD, new=NEW))
    assert await database.read(names_left) == {NEW}
    assert await database.read(partial(settings_rows.all_of, names=SETTINGS)) == {
        NEW: {"persona": Row("new"), "only old": Row("old"), "only new": Row("new")}
    }
    assert await database.read(lambda conn: conn.execute(select(conversation.c.session_id)).scalar_one()) == "old"
    assert [row.say.text for row in await database.read(partial(outbox_rows.open_rows, conversation=NEW))] == [
        "old",
        "new",
    ]
    assert await database.read(lambda conn: conn.execute(select(guideline.c.body)).scalars().all()) == ["old"]
    names = await database.read(lambda conn: conn.execute(select(schedule.c.text, schedule.c.name)).all())
    assert sorted(map(tuple, names)) == [("new", "report"), ("old", None)]  # known by its number from now on
    with pytest.raises(Fenced):
        await database.write(partial(check_epoch, conversation=NEW, epoch=epochs[1]))


async def test_a_place_nobody_knows_and_a_second_telling_change_nothing(database: Database) -> None:
    assert not await database.write(partial(rekey, old=OLD, new=NEW))
    await database.write(partial(furnish, key=OLD, name="old"))
    assert await database.write(partial(rekey, old=OLD, new=NEW))
    assert not await database.write(partial(rekey, old=OLD, new=NEW))
    assert not await database.write(partial(rekey, old=NEW, new=NEW))


async def test_grants_of_the_place_and_in_the_place_follow(database: Database) -> None:
    given = [
        Grant(subject="telegram:-5", kind="place", role="member", granted_by="x", at=1),
        Grant(subject="telegram:77", kind="person", place="telegram:-5", role="admin", granted_by="x", at=1),
        Grant(subject="telegram:78", kind="person", place="telegram:-5", role="admin", granted_by="x", at=1),
        Grant(subject="telegram:78", kind="person", place="telegram:-1005", role="blocked", granted_by="x", at=1),
        Grant(subject="telegram:79", kind="person", role="member", granted_by="x", at=1),
    ]
    for grant in given:
        await database.write(partial(grants.give, grant=grant))
    await database.write(partial(rekey_grants, old_place="telegram:-5", new_place="telegram:-1005"))
    found = [(one.subject, one.place, one.role) for one in await database.read(grants.all_grants)]
    assert found == [
        ("telegram:-1005", "", "member"),
        ("telegram:77", "telegram:-1005", "admin"),
        ("telegram:78", "telegram:-1005", "blocked"),
        ("telegram:79", "", "member"),
    ]


async def test_approvals_of_more_follow_numbered_after_those_of_the_new_place(database: Database) -> None:
    await database.write(partial(furnish, key=OLD, name="old"))
    given = [
        *(Approval(account=Account("channel", OLD, "2026-11-22"), number=at, usd=at, tokens=0, by="x", at=at)
          for at in (1, 2)),
        Approval(account=Account("channel", OLD, "2026-11"), number=1, usd=9.0, tokens=0, by="x", at=1),
        Approval(account=Account("channel", NEW, "2026-11-22"), number=1, usd=5.0, tokens=0, by="x", at=1),
        Approval(account=Account("person", OLD, "2026-11-22"), number=1, usd=7.0, tokens=0, by="x", at=1),
    ]  # fmt: skip
    for approval in given:
        assert await database.write(partial(ledger_rows.approve, approval=approval))
    assert await database.write(partial(rekey, old=OLD, new=NEW))
    found = await database.read(partial(ledger_rows.approvals, periods=["2026-11-22", "2026-11"]))
    assert sorted((*one.account, one.number, one.usd) for one in found) == [
        ("channel", NEW, "2026-11", 1, 9.0),
        ("channel", NEW, "2026-11-22", 1, 5.0),
        ("channel", NEW, "2026-11-22", 2, 1.0),
        ("channel", NEW, "2026-11-22", 3, 2.0),
        ("person", OLD, "2026-11-22", 1, 7.0),
    ]


@pytest.mark.parametrize("renamed_first", [False, True], ids=["while sums are made", "before sums are made"])
async def test_sums_that_are_made_at_the_same_time_lose_no_call_and_count_none_twice(
    postgres_url: str, tmp_path: Path, renamed_first: bool
) -> None:
    """PostgreSQL alone: SQLite has one writer."""
    postgres = await open_database(postgres_url, tmp_path)
    calls = [call(number, place=OLD) for number in range(6)]
    await postgres.write(partial(furnish, key=OLD, name="old"))
    await postgres.write(lambda conn: ledger_rows.add(conn, calls[:3]))
    await summed_up(postgres)
    await postgres.write(lambda conn: ledger_rows.add(conn, calls[3:]))
    newest = await postgres.read(sums.newest)

    def rename(conn: Connection) -> None:
        rekey(conn, OLD, NEW)

    def sum_up(conn: Connection) -> None:
        sums.sum_up(conn, up_to=newest)

    first, second = (rename, sum_up) if renamed_first else (sum_up, rename)
    changed = anyio.Event()

    def held(conn: Connection) -> None:
        first(conn)
        changed.set()
        conn.execute(text("select pg_sleep(1)"))  # the other is done by then, or waits for this transaction to end

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(postgres.write, held)
        await changed.wait()
        await postgres.write(second)
    by = await postgres.read(partial(sums.by_name, kind="channel", periods=sums.months_until(NOW, 12)))
    assert {name: one.calls for name, one in by.items()} == {NEW: 6}
    await postgres.aclose()


async def test_one_goal_stays_active_that_of_the_new_place(database: Database) -> None:
    for key, name in ((OLD, "old"), (NEW, "new")):
        await database.write(partial(furnish, key=key, name=name))
    await database.write(partial(rekey, old=OLD, new=NEW))
    found = await database.read(partial(goals.all_of, conversation=NEW))
    assert {(goal.text, goal.status, goal.is_autonomous) for goal in found} == {
        ("old", "paused", False), ("new", "active", True),
    }  # fmt: skip
