"""Linked accounts and their codes in the database, and what is joined by them on reading; on both databases."""

from functools import partial

import pytest

from agent.core.ids import ConversationId
from agent.storage.database import Database
from gateway.scheduler import person_zones
from gateway.scheduler.person_zones import Zone
from gateway.storage import identities
from gateway.storage.identities import DirectChat

T, D, S, E = "telegram:77", "discord:123", "slack:U0ANN", "discord:9"


def chat(person: str) -> DirectChat:
    return DirectChat(person=person, conversation=ConversationId(f"{person}:direct"), language="de")


async def joined(database: Database, *people: str, new: str = "i") -> str:
    return await database.write(lambda conn: identities.join(conn, [chat(person) for person in people], new=new, at=5))


async def known(database: Database) -> dict[str, tuple[str, str | None]]:
    rows = await database.read(identities.all_accounts)
    return {row.person: (row.identity, row.rights) for row in rows}


@pytest.mark.requirement("G-54")
async def test_a_code_is_taken_once_and_in_time(database: Database) -> None:
    put = partial(identities.put_code, chat=chat(T), display="Ann", expires=100)
    await database.write(partial(put, code_hash="first"))
    await database.write(partial(put, code_hash="second"))
    assert await database.read(partial(identities.find_code, code_hash="first", now=1)) is None, "the newer one counts"
    take = partial(identities.take_code, code_hash="second", by=D)
    assert not await database.write(partial(take, now=100))
    assert await database.write(partial(take, now=99))
    assert not await database.write(partial(take, now=99))
    found = await database.read(partial(identities.find_code, code_hash="second", now=99))
    assert found is not None
    assert (found.chat, found.display, found.used_by) == (chat(T), "Ann", D)
    await database.write(partial(identities.prune, now=100))
    assert await database.read(partial(identities.find_code, code_hash="second", now=1)) is None


@pytest.mark.requirement("G-56", "G-58")
async def test_accounts_join_with_all_that_they_are_linked_with_and_part_again(database: Database) -> None:
    assert await joined(database, T, D) == "i"
    await database.write(partial(identities.set_rights, identities=("i",), among="r"))
    assert await joined(database, S, E, new="j") == "j"
    assert await joined(database, D, S, new="k") == "i", "the first one's name stays"
    assert await known(database) == {T: ("i", "r"), D: ("i", "r"), S: ("i", None), E: ("i", None)}
    left = await database.write(partial(identities.leave, person=T))
    assert {one.person: one.chat for one in left} == {person: chat(person) for person in (T, D, S, E)}
    assert set(await known(database)) == {D, S, E}
    await database.write(partial(identities.leave, person=S))
    await database.write(partial(identities.leave, person=E))
    assert await known(database) == {}, "nobody is linked with themselves"
    assert await database.write(partial(identities.leave, person=E)) == ()


@pytest.mark.requirement("G-55")
async def test_the_zone_that_was_told_last_on_any_account_holds(database: Database) -> None:
    for at, (person, zone) in enumerate(((D, "Europe/Oslo"), (T, "Asia/Tokyo"), (S, "America/Lima"))):
        await database.write(partial(person_zones.set_zone, person=person, zone=zone, at=at))
    await database.write(partial(person_zones.note_asked, person=E, at=9))
    zone_of = partial(person_zones.zone_of, told=None, assumed="UTC")
    assert await database.read(partial(zone_of, accounts=(D,))) == Zone("Europe/Oslo", "person")
    assert await database.read(partial(zone_of, accounts=(D, T, E))) == Zone("Asia/Tokyo", "person")
    assert await database.read(partial(zone_of, accounts=(E,))) == Zone("UTC", "assumed")
    assert await database.write(partial(person_zones.forget_zone, accounts=(D, T)))
    assert await database.read(partial(zone_of, accounts=(D, T))) == Zone("UTC", "assumed")
    assert await database.read(partial(zone_of, accounts=(S,))) == Zone("America/Lima", "person")
