"""Conversations on the dashboard: the list, transcripts with costs, and what operators do to them."""

import html
import re
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from agent.core.ids import ConversationId, SessionId
from agent.core.messages import Message, TextPart
from agent.ledger import rows
from agent.sessions import store
from agent.sessions.store import Stored
from agent.storage.timestamps import to_timestamp
from gateway.storage import conversation_list
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.dashboard.looking import looking
from tests.gateway.world import BOB, GROUP, slowly

ANNS = "/conversations/telegram%3A77"
HOSTILE = "<script>alert(1)</script>"


@pytest.mark.requirement("G-61")
async def test_a_conversation_is_found_by_name_and_by_words(owner: Browsing) -> None:
    world = owner.world
    assert "Nobody has talked to the bot yet." in await owner.page("/conversations")
    await world.asks("where is the blue kettle?")
    await world.asks("good morning", person="78")
    page = await owner.page("/conversations")
    assert page.index("Person 78") < page.index("Person 77"), "the one used last comes first"
    found = await owner.page("/conversations?find=person+77")
    assert "<strong>Person 77</strong>" in found
    assert "Person 78" not in found
    found = await owner.page("/conversations?find=kettle")
    assert "Messages with these words" in found
    assert "where is the blue kettle?" in found
    assert "No conversation matches." in await owner.page("/conversations?find=nowhere")
    assert "Messages with these words" not in await owner.page("/conversations?find=k%25ttle")
    assert {one.action for one in await owner.actions()} == {"conversations.search"}


@pytest.mark.requirement("G-61")
async def test_a_group_is_found_by_what_people_call_it(owner: Browsing) -> None:
    world = owner.world
    await world.answered("good morning", chat=GROUP, chat_title="Harbour club")
    await world.answered("good evening", person=BOB)
    found = await owner.page("/conversations?find=harbour+club")
    assert f"telegram:{GROUP}" in found
    assert "Harbour club" in found
    assert f"telegram:{BOB}" not in found
    async with looking(world, ["view"]) as client:
        found = (await client.get("/places?find=harbour+club")).text
        assert f"telegram:{GROUP}" in found
        assert f"telegram:{BOB}" not in found


@pytest.mark.requirement("G-59", "G-61")
async def test_a_search_tells_nobody_words_that_they_may_not_read(owner: Browsing) -> None:
    world = owner.world
    await world.asks("where is the blue kettle?")  # the title of its session
    async with looking(world, ["view"]) as client:
        for path in ("/conversations", "/places"):
            assert "telegram:77" in (await client.get(f"{path}?find=person+77")).text
            assert "telegram:77" not in (await client.get(f"{path}?find=kettle")).text
        assert "/conversations/telegram" not in (await client.get("/conversations")).text, "it would be refused"


@pytest.mark.requirement("G-61")
async def test_a_transcript_shows_words_calls_and_what_a_turn_cost(owner: Browsing, llm: LlmServer) -> None:
    world = owner.world
    await world.asks(f"remember {HOSTILE}")
    page = await owner.page(ANNS)
    assert HOSTILE not in page
    assert "remember &lt;script&gt;" in page
    assert "1 model call · " in page
    assert "Person 77" in page
    (read,) = await owner.actions()
    assert (read.action, read.subject) == ("conversations.read", "telegram:77")
    await owner.fragment(ANNS)
    assert len(await owner.actions()) == 1, "an open page that looks again is the same reading"
    await owner.page(ANNS)
    assert len(await owner.actions()) == 2, "a page that is opened again is another one"
    lines = await owner.visitor.client.get("/conversation-export/telegram%3A77")
    assert f"remember {HOSTILE}" in lines.text
    assert "tokens" in await owner.page("/conversation-window/telegram%3A77")


async def test_an_older_page_reads_no_calls_of_long_after_its_last_message(owner: Browsing) -> None:
    world = owner.world
    await world.asks("good morning")
    await world.services.ledger.flush()

    def again(conn: Connection) -> None:
        (entry,), _ = rows.page(conn)
        rows.add(conn, [replace(entry, call="later", at=entry.at + 30 * 86_400_000_000)])

    await world.database.write(again)
    assert "2 model calls · " in await owner.page(ANNS), "the call is one of the same turn"
    assert "1 model call · " in await owner.page(f"{ANNS}?before=999")


@pytest.mark.requirement("G-61")
async def test_a_reading_is_kept_however_the_page_is_fetched(owner: Browsing) -> None:
    world = owner.world
    await world.asks("where is the blue kettle?")

    async def kept(path: str) -> list[str]:
        before = len(await owner.actions())
        await owner.fragment(path)
        await owner.fragment(path)  # open, and fetched anew
        return [f"{one.action} {one.detail}" for one in (await owner.actions())[before:]]

    session = (await owner.page(ANNS)).partition("?session=")[2].partition('"')[0]
    assert await kept(f"{ANNS}?session={session}&before=99") == [f"conversations.read session {session}"]
    assert await kept("/conversations?find=kettle") == ["conversations.search "], "the field of the page asks so"
    assert await kept("/conversations?find=nowhere") == []
    assert await kept("/conversation-window/telegram%3A77") == ["conversations.read window"]


async def test_what_there_is_not_is_said(owner: Browsing) -> None:
    response = await owner.visitor.client.get("/conversations/telegram%3A404", headers={"accept": "text/html"})
    assert response.status_code == 404
    assert "There is no conversation telegram:404." in response.text
    refused = await owner.post("/conversation/clear/telegram%3A404")
    assert refused.status_code == 404


@pytest.mark.requirement("G-62")
async def test_an_operator_clears_begins_anew_and_switches(owner: Browsing) -> None:
    world = owner.world
    await world.asks("the secret word is heron")
    assert "hidden" in await owner.act("/conversation/clear/telegram%3A77")
    await world.shows("1")  # the answer to /clear
    await until(lambda: any("clear" in text.lower() or "hid" in text.lower() for text in world.texts()))
    assert "not in the window" in await owner.page(ANNS)
    assert "new session" in await owner.act("/conversation/new/telegram%3A77")
    assert await owner.act("/conversation/provider/telegram%3A77", provider="b") == (
        "b answers there from its next call on."
    )
    await world.shows("model-b")
    await world.asks("hello again")
    assert "b (model-b)" in await owner.page(ANNS)
    refused = await owner.post("/conversation/provider/telegram%3A77", provider="nobody")
    assert refused.json() == {"error": "There is no provider 'nobody'."}
    deeds = [one.action for one in await owner.actions() if one.action != "conversations.read"]
    assert deeds == ["conversations.clear", "conversations.new", "conversations.provider"]


@pytest.mark.requirement("G-62")
async def test_people_are_told_in_their_own_language(owner: Browsing) -> None:
    await owner.world.asks("guten Tag", language="de")
    await owner.act("/conversation/clear/telegram%3A77")
    await owner.world.shows("Vor dem Modell verborgen")


@pytest.mark.requirement("G-62")
async def test_an_operator_stops_a_turn(owner: Browsing, llm: LlmServer) -> None:
    world = owner.world
    refused = await owner.post("/conversation/stop/telegram%3A77")
    assert refused.status_code == 404
    await world.asks("hello")
    refused = await owner.post("/conversation/stop/telegram%3A77")
    assert refused.json() == {"error": "Nothing runs there now."}
    world.script(slowly("think hard"))
    await world.say("think hard")
    await world.until_asked(2)
    assert "answering" in await owner.page("/conversations")
    assert await owner.act("/conversation/stop/telegram%3A77") == "The turn is being stopped."
    await world.settled()
    assert world.texts()[-1] == "Stopped.", "the people there are told"
    assert [one.action for one in await owner.actions()] == ["conversations.stop"]


async def test_older_messages_are_paged(owner: Browsing) -> None:
    world = owner.world
    await world.asks("hello")
    key = ConversationId("telegram:77")

    def fill(conn: Connection) -> None:
        entry = conversation_list.find(conn, key)
        assert entry is not None
        assert entry.session is not None
        for number in range(250):
            message = Message(role="user", parts=(TextPart(text=f"line {number:03}"),))
            stored = Stored(message=message, inbox_id=None, position=number)
            store.append(conn, entry.session, key, stored, at=to_timestamp(world.clock.now()))

    await world.database.write(fill)
    newest = await owner.page(ANNS)
    assert "line 150" in newest
    assert "line 149" not in newest
    address = newest.partition('<a class="button" href="?')[2].partition('"')[0].replace("&amp;", "&")
    older = await owner.page(f"{ANNS}?{address}")
    assert "line 149" in older
    assert "line 150" not in older
    assert "Newest messages" in older
    assert "data-from-end" in newest, "it opens at its newest message"
    assert "data-from-end" not in older
    assert newest.index("Older messages") < newest.index("line 150") < newest.index("line 249")


MARKDOWN = f"""## Plan {HOSTILE}

1. **boil** the *kettle*
2. `pour("<b>")` [there](https://example.org/?a=1&b=2)

- [x] done

> quoted <img src=x onerror=alert(1)>

```html
{HOSTILE}
```

| what | where |
| --- | --- |
| cup | <i>shelf</i> |

[click](javascript:alert(1)) [data](data:text/html,{HOSTILE}) "onmouseover="alert(1)
"""


@pytest.mark.requirement("G-103")
async def test_the_models_markdown_is_formatted_and_nothing_of_it_becomes_html(owner: Browsing) -> None:
    owner.world.script({"match": {"contains": "make tea"}, "reply": {"text": MARKDOWN}})
    await owner.world.answered("**how** do I make tea?", "boil")
    page = await owner.page(ANNS)
    transcript = page.partition('class="transcript"')[2].partition("</ol>\n<p")[0]
    assert '<p class="heading" role="heading" aria-level="4">Plan &lt;script&gt;alert(1)&lt;/script&gt;</p>' in page
    assert "<li><strong>boil</strong> the <em>kettle</em></li>" in page
    assert (
        '<a href="https://example.org/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">there</a>'
        in page
    )
    assert "<td>&lt;i&gt;shelf&lt;/i&gt;</td>" in page
    assert "[click](javascript:alert(1))" in page, "nothing that a click could run"
    assert "**how** do I make tea?" in page, "the words of people stay as they wrote them"
    tags = set(re.findall(r"<(\w+)", transcript))
    assert not tags & {"script", "img", "i", "b"}
    assert all(
        href.startswith(("https://example.org/", "/turns/")) for href in re.findall(r'href="([^"]*)"', transcript)
    )
    raw = await owner.page(f"{ANNS}?raw=1")
    assert "**boil** the *kettle*" in raw
    assert "<strong>boil" not in raw
    assert HOSTILE not in raw
    assert ">Formatted<" in raw


@pytest.mark.requirement("G-61")
async def test_words_that_are_found_in_an_old_session_are_shown(owner: Browsing) -> None:
    world = owner.world
    await world.answered("where is the blue kettle?")
    key = ConversationId("telegram:77")

    def fill(conn: Connection) -> None:
        for number in range(40):
            id = SessionId(f"session-{number:02}")
            store.open_session(conn, id, key, title="later", at=to_timestamp(world.clock.now()))
        store.set_current(conn, key, id)

    await world.database.write(fill)
    found = await owner.page("/conversations?find=kettle")
    address = found.partition("Messages with these words")[2].partition('<a href="')[2].partition('"')[0]
    page = await owner.page(html.unescape(address))
    assert "where is the blue kettle?" in page.partition('class="transcript"')[2]
    lines = await owner.visitor.client.get(_export(page))
    assert "blue kettle" in lines.text


def _export(page: str) -> str:
    return "/conversation-export/" + page.partition('href="/conversation-export/')[2].partition('"')[0]
