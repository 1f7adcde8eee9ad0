"""People on the dashboard: who is let in, as what, and changes of that which count at once."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection, delete, update

from agent.core.ids import ConversationId
from agent.storage.tables import inbox, memory, turn
from agent.storage.watch_tables import turn_trace
from gateway.channels.inbound import Sender
from gateway.channels.keys import UserId
from gateway.storage import identities
from gateway.storage.grants import Grant
from gateway.storage.identities import DirectChat
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.world import BOB, GROUP, ZOE, World

HOSTILE = "<script>alert(1)</script>"


@pytest.mark.requirement("G-88")
async def test_everybody_is_listed_with_role_and_source(owner: Browsing) -> None:
    world = owner.world
    await world.asks("hello")
    await world.asks("hello", person=BOB)
    await world.settled()
    await world.services.traces.flush()
    page = await owner.page("/people")
    assert "Person 77" in page
    assert "Person 78" in page
    assert "in the configuration" in page
    assert "discord:77" in page, "whom the configuration alone names"
    found = await owner.page("/people?find=person+78&role=member")
    assert "Person 78" in found
    assert "Person 77" not in found
    assert "Nobody matches." in await owner.page("/people?find=nobody")
    one = await owner.page("/people/telegram%3A78")
    assert "names this account" in one
    assert "not told" in one
    await world.asks("/timezone Asia/Tokyo", person=BOB)
    assert "Asia/Tokyo" in await owner.page("/people/telegram%3A78")


async def test_the_pages_say_how_a_role_is_changed(owner: Browsing) -> None:
    await owner.world.asks("hello", person=BOB)
    await owner.world.services.traces.flush()
    page = await owner.page("/people")
    assert re.search(r'<td data-label="Role"><span class="state \w+">member</span>', page)
    assert "says what gives somebody their role, and changes it." in page
    assert "The owner, who signs in by a link or at the terminal" in page
    assert '<option value="owner">' not in page, "nobody is found by it"
    one = await owner.page("/people/telegram%3A78")
    assert 'hx-post="/person/role/telegram%3A78"' in one
    assert "lets this account in as a member: a higher role can be given here, the membership is changed in" in one
    admin = await owner.page("/people/telegram%3A77")
    assert "makes this account an admin: no less can be chosen here, that is changed in" in admin
    assert '<a href="/settings/roles">[[roles]]</a>' in one
    async with looking(owner.world, ["view"]) as client:
        one = (await client.get("/people/telegram%3A78")).text
        assert "Changing a role needs the right “configure”." in one


async def test_who_is_let_in_has_the_name_of_the_request_until_a_turn_tells_one(owner: Browsing) -> None:
    world = owner.world
    await world.say("may I?", person=ZOE)
    (number,) = set(re.findall(r"/pairings/([^/]+)/approve", await owner.page("/people")))
    await owner.act(f"/pairings/{number}/approve")
    await world.shows("You are in", ZOE)
    for path in ("/conversations", "/places", "/memory"):
        assert "Person 99" in await owner.page(path), path
    assert "Person 99" in await owner.page("/conversations?find=person+99")
    one = await owner.page("/people/telegram%3A99")
    assert "by the operator" in one
    assert "web:operator" not in one


async def test_another_role_is_asked_about_with_who_gets_what(owner: Browsing) -> None:
    await owner.world.asks("hello", person=BOB)
    await owner.world.services.traces.flush()
    one = await owner.page("/people/telegram%3A78")
    form = one.partition('<form hx-post="/person/role/telegram%3A78"')[2].partition(">")[0]
    assert 'hx-confirm="Person 78 (telegram:78) is “member” now. Change that to “{choice}”?' in form
    await owner.act("/person/role/telegram%3A78", role="admin")
    page = await owner.page("/people?find=person+78")
    assert "; member in the configuration" in page


@pytest.mark.requirement("G-69", "G-88")
async def test_an_account_of_the_web_server_is_a_member(world_of: Callable[..., World]) -> None:
    async with world_of(accounts=("telegram", "web")).process() as world, browsing(world) as owner:
        anna = {"person": "anna", "on": "web", "chat": "anna:main"}
        assert "role member" in await world.asks("/whoami", **anna)
        await world.asks("hello", **anna)
        await world.settled()
        await world.services.traces.flush()
        assert ">not let in<" not in await owner.page("/people/web%3Aanna")
        assert "web:anna" in await owner.page("/people?role=member")
        assert "web:anna" not in await owner.page("/people?role=stranger")
        await owner.act("/person/role/web%3Aanna", role="blocked")
        assert "web:anna" in await owner.page("/people?role=blocked")
        operator = {"person": "operator", "on": "web", "chat": "operator:main"}
        told = await world.asks("/allow remove web:anna", "no longer blocked", **operator)
        assert told == "web:anna is no longer blocked and is let in as before."


@pytest.mark.requirement("G-89")
async def test_a_person_is_let_in_made_admin_blocked_and_let_go(owner: Browsing) -> None:
    world = owner.world
    await world.say("may I?", person=ZOE)
    page = await owner.page("/people")
    assert "People who ask to be let in" in page
    assert "Let in<span" in page
    told = await owner.act("/person/add", account="telegram:99", role="member")
    assert told == "telegram:99 is a member from now on."
    await world.answered("hello", person=ZOE)
    assert "People who ask to be let in" not in await owner.page("/people")
    assert "by the operator" in await owner.page("/people/telegram%3A99")
    await owner.act("/person/role/telegram%3A99", role="admin")
    assert "admin" in await world.asks("/whoami", person=ZOE)
    await owner.act("/person/role/telegram%3A99", role="blocked")
    assert (await world.say("hello?", person=ZOE)).outcome != "accepted"
    assert "(admin before)" in await owner.page("/people/telegram%3A99")
    await owner.act("/person/role/telegram%3A99", role="none")
    assert "admin" in await world.asks("/whoami", person=ZOE)
    await owner.act("/person/role/telegram%3A99", role="none")
    assert (await world.say("hello?", person=ZOE)).outcome != "accepted"
    details = [one.detail for one in await owner.actions()]
    assert details == [
        "was stranger, is member",
        "was member, is admin",
        "was admin, is blocked",
        "was blocked, is admin",
        "was admin, is stranger",
    ]


@pytest.mark.requirement("G-89")
@pytest.mark.parametrize(
    ("path", "form", "says"),
    [
        ("/person/role/telegram%3A77", {"role": "member"}, "The configuration makes telegram:77 an admin."),
        ("/person/role/telegram%3A78", {"role": "none"}, "The configuration lets telegram:78 in."),
        ("/person/role/telegram%3A78", {"role": "king"}, "There is no role 'king'."),
        ("/person/role/telegram%3A404", {"role": "admin"}, "Nobody is known as telegram:404."),
        ("/person/add", {"account": "pigeon:5"}, "No platform of this gateway has an account 'pigeon:5'."),
        ("/person/add", {"account": ""}, "No platform of this gateway has an account ''."),
        ("/person/part/telegram%3A78", {}, "No account is linked with telegram:78."),
        ("/person/take/telegram%3A78", {"place": "telegram:-1"}, "No role was given to telegram:78 there."),
    ],
)
async def test_what_cannot_be_is_refused_in_a_sentence(
    owner: Browsing, path: str, form: dict[str, str], says: str
) -> None:
    refused = await owner.post(path, **form)
    assert refused.status_code in (404, 409)
    assert refused.json()["error"].startswith(says)
    assert await owner.actions() == []


@pytest.mark.requirement("G-88")
async def test_linked_accounts_and_roles_in_places_are_shown_and_taken_back(world_of: Callable[..., World]) -> None:
    world = world_of(accounts=("telegram", "discord"))
    given = Grant(
        subject="telegram:78", kind="person", role="admin", place="telegram:-1005", granted_by="telegram:77", at=1
    )
    world.grants = (given,)
    async with world.process(), browsing(world) as owner:
        await world.asks("hello", person=BOB)
        chats = [DirectChat(person=one, conversation=ConversationId(one)) for one in ("telegram:78", "discord:78")]
        await world.database.write(lambda conn: identities.join(conn, chats, new="p1", at=1))
        linked = await world.database.read(identities.all_accounts)
        world.services.packages.rights.identities.relink(linked)
        page = await owner.page("/people/telegram%3A78")
        assert "in telegram:-1005" in page
        assert "each keeps its own rank" in page
        await owner.act("/person/take/telegram%3A78", place="telegram:-1005")
        assert ("telegram:78", "telegram:-1005") not in world.services.packages.rights.book.grants.in_place
        await owner.act("/person/part/telegram%3A78")
        await world.shows("telegram:78", "78", "discord")
        assert world.services.packages.rights.identities.accounts("telegram:78") == ("telegram:78",)
        assert "Part this account" not in await owner.page("/people/telegram%3A78")


@pytest.mark.requirement("G-89")
async def test_roles_are_for_who_may_configure(owner: Browsing) -> None:
    world = owner.world
    await world.say("may I?", person=ZOE, sender=Sender(id=UserId(ZOE), display=HOSTILE))
    async with looking(world, ["view", "operate", "transcripts"]) as client:
        page = (await client.get("/people")).text
        assert HOSTILE not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "/pairings/" in page
        assert 'hx-post="/person/' not in page
        assert 'hx-post="/person/' not in (await client.get("/people/telegram%3A78")).text
        for path in ("/person/add", "/person/role/telegram%3A78", "/person/part/telegram%3A78"):
            assert (await client.post(path, data={"role": "admin", "account": "telegram:99"})).status_code == 403
    async with looking(world, ["view"]) as client:
        assert "/pairings/" not in (await client.get("/people")).text
    missing = await owner.visitor.client.get("/people/telegram%3A404", headers={"accept": "text/html"})
    assert "Nobody is known as telegram:404." in missing.text


@pytest.mark.requirement("G-107")
async def test_what_is_kept_of_a_person_is_told_exported_and_erased(owner: Browsing) -> None:
    world = owner.world
    await world.asks(f"/memory add I am allergic to nuts {HOSTILE}", person=BOB)
    await world.answered("my bicycle is green", person=BOB)
    await world.answered("the van of Bob is blue", person=BOB, chat=GROUP)
    await world.answered("the boat of Ann is red", chat=GROUP)
    await world.answered("my kite is yellow")
    await world.settled()
    await world.services.traces.flush()
    page = await owner.page("/people/telegram%3A78")
    assert "<dt>Facts</dt><dd>1</dd>" in page
    assert "<dt>Groups</dt><dd>1 " in page
    assert "<dt>Messages in direct chats</dt><dd>2</dd>" in page
    assert "nuts" not in page, "the page tells numbers, no words"
    file = await owner.visitor.client.get("/person/export/telegram%3A78")
    assert [one["text"] for one in file.json()["kept"] if one["kind"] == "fact"] == [f"I am allergic to nuts {HOSTILE}"]
    assert "boat" not in file.text
    refused = await owner.post("/person/erase/telegram%3A78", confirm="telegram:77")
    assert refused.status_code == 409
    assert refused.json()["error"].startswith("Nothing was erased: that is not the id of this person.")
    assert "green" in await owner.page("/conversations/telegram%3A78")
    assert (await owner.act("/person/erase/telegram%3A78", confirm="telegram:78")).startswith("Erased of telegram:78: ")
    assert "green" not in await owner.page("/conversations/telegram%3A78")
    there = await owner.page("/conversations/telegram%3A-1005")
    assert "van of Bob" not in there
    assert "boat of Ann" in there, "the words of others stay"
    assert "yellow" in await owner.page("/conversations/telegram%3A77")
    assert "allergic" not in await world.asks("/memory", person=BOB)
    assert "<dt>Facts</dt><dd>0</dd>" in await owner.page("/people/telegram%3A78")
    kept = [(one.action, one.subject) for one in await owner.actions() if one.action.startswith("people.")]
    assert kept == [("people.export", "telegram:78"), ("people.erase", "telegram:78")]
    assert not any("bicycle" in one.detail or "nuts" in one.detail for one in await owner.actions())


def forgets_kinds(conn: Connection, *, keeps_private: str = "") -> None:
    """As after [retention]: the inbox and the traces are gone. `keeps_private`: a group that was a direct chat once."""
    for table in (turn, inbox, turn_trace):
        conn.execute(delete(table))
    here = (memory.c.conv == keeps_private, memory.c.person == "telegram:78")
    conn.execute(update(memory).where(*here).values(audience="person:telegram:78"))
    conn.execute(delete(memory).where(memory.c.conv == keeps_private, memory.c.audience.startswith("place:")))


@pytest.mark.requirement("G-107")
@pytest.mark.parametrize(
    "keeps_private", ["", f"telegram:{GROUP}"], ids=["a group", "a direct chat that became a group"]
)
async def test_chats_whose_kind_nobody_knows_any_more_lose_the_words_of_the_person_alone(
    owner: Browsing, keeps_private: str
) -> None:
    world = owner.world
    await world.answered("my bicycle is green", person=BOB)
    await world.answered("the van of Bob is blue", person=BOB, chat=GROUP)
    await world.answered("the boat of Ann is red", chat=GROUP)
    await world.settled()
    await world.services.traces.flush()
    await world.database.write(partial(forgets_kinds, keeps_private=keeps_private))
    assert "<dt>Groups</dt><dd>1 " in await owner.page("/people/telegram%3A78")
    await owner.act("/person/erase/telegram%3A78", confirm="telegram:78")
    assert "green" not in await owner.page("/conversations/telegram%3A78")
    there = await owner.page("/conversations/telegram%3A-1005")
    assert "van of Bob" not in there
    assert "boat of Ann" in there, "the words of others stay"


@pytest.mark.requirement("G-107")
async def test_a_person_forgets_in_their_own_chat_no_words_of_others_in_a_group_that_was_theirs(
    owner: Browsing,
) -> None:
    world = owner.world
    await world.answered("the van of Bob is blue", person=BOB, chat=GROUP)
    await world.answered("the boat of Ann is red", chat=GROUP)
    await world.settled()
    await world.database.write(partial(forgets_kinds, keeps_private=f"telegram:{GROUP}"))
    await world.asks("/memory add I am allergic to nuts", person=BOB)
    await world.hears(world.said("/memory forget all", person=BOB))
    await until(lambda: len(world.screen(BOB).shown[-1].actions) > 1)
    await world.press(world.screen(BOB).shown[-1].actions[0], person=BOB)
    await world.shows("Forgotten", BOB)
    assert "boat of Ann" in await owner.page("/conversations/telegram%3A-1005")


@pytest.mark.requirement("G-107")
async def test_who_may_only_look_neither_exports_nor_erases(owner: Browsing) -> None:
    world = owner.world
    await world.asks("/memory add I am allergic to nuts", person=BOB)
    async with looking(world, ["view", "operate"]) as client:
        page = (await client.get("/people/telegram%3A78")).text
        assert "<dt>Facts</dt><dd>1</dd>" in page
        assert "/person/export" not in page
        assert "/person/erase" not in page
        assert (await client.get("/person/export/telegram%3A78")).status_code == 403
        assert (await client.post("/person/erase/telegram%3A78", data={"confirm": "telegram:78"})).status_code == 403
    assert "nuts" in await world.asks("/memory", person=BOB)
    missing = await owner.visitor.client.get("/person/export/telegram%3A404", headers={"accept": "text/html"})
    assert missing.status_code == 404


@pytest.mark.requirement("G-107")
async def test_the_words_of_every_account_of_a_person_are_erased_in_groups(world_of: Callable[..., World]) -> None:
    world = world_of(accounts=("telegram", "discord"))
    world.access += '\ndm = "open"\ngroups = "open"'
    async with world.process(), browsing(world) as owner:
        await world.answered("the van of Bob is blue", person=BOB, chat=GROUP)
        await world.answered("the tent of Bob is orange", person="78", chat="-7007", on="discord")
        await world.answered("the boat of Dan is red", person="79", chat="-7007", on="discord")
        chats = [DirectChat(person=one, conversation=ConversationId(one)) for one in ("telegram:78", "discord:78")]
        await world.database.write(lambda conn: identities.join(conn, chats, new="p1", at=1))
        world.services.packages.rights.identities.relink(await world.database.read(identities.all_accounts))
        await world.settled()
        await world.services.traces.flush()
        assert "tent of Bob" in await owner.page("/conversations/discord%3A-7007")
        await owner.act("/person/erase/telegram%3A78", confirm="telegram:78")
        assert "van of Bob" not in await owner.page("/conversations/telegram%3A-1005")
        there = await owner.page("/conversations/discord%3A-7007")
        assert "tent of Bob" not in there, "said by the linked account"
        assert "boat of Dan" in there, "the words of others stay"


@pytest.mark.requirement("G-88")
async def test_whom_a_named_role_alone_names_is_listed_with_it(world_of: Callable[..., World]) -> None:
    config = '[[roles]]\nname = "helper"\npeople = ["telegram:55"]\ntools = ["read"]\n'
    async with world_of(config=config).process() as world, browsing(world) as owner:
        assert "telegram:55" in await owner.page("/people")
        assert "helper" in await owner.page("/people/telegram%3A55")
