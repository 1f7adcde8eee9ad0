"""Routes of the chat page, over HTTP."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import pytest

from adapters.web.chat_sessions import TITLE, entry_of
from adapters.web.messages import Shown
from gateway.channels.adapter import SignedIn
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelGone, ChannelRejected, GatewayUnavailable
from gateway.channels.inbound import ButtonClicked, Inbound, MessageReceived, Outcome, Receipt
from gateway.channels.keys import UserId
from gateway.channels.outbound import File, Outbound, SentRef
from gateway.config.sections import WebSettings
from tests.adapters.web.visitor import Visitor, text_of, visiting
from tests.e2e.site import Site, running_site
from tests.fakes.waiting import until

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path, WebSettings(port=0, max_upload_mb=1)) as site:
        yield site


@pytest.fixture
async def visitor(site: Site) -> AsyncIterator[Visitor]:
    async with visiting(site.server) as visitor:
        yield visitor


def plain(text: str, key: str = "") -> Outbound:
    return Outbound(document=(Plain(text),), key=key)


async def texts(visitor: Visitor, session: str = "main") -> list[str]:
    state = await visitor.state(session)
    return [message.get("text") or " ".join(map(text_of, message["blocks"])) for message in state["messages"]]


async def test_a_message_is_admitted_shown_and_answered(site: Site, visitor: Visitor) -> None:
    id = await visitor.say("hello")
    (said,) = site.brain.heard
    assert isinstance(said, MessageReceived)
    assert (said.text, said.message_id, str(said.key)) == ("hello", id, "web:operator:main")
    assert said.sender.id == "operator"
    await until(lambda: _has(visitor, "You said: hello"))
    assert await texts(visitor) == ["hello", "You said: hello"]


@pytest.mark.requirement("G-12")
async def test_posting_twice_is_saying_once(site: Site, visitor: Visitor) -> None:
    """The page posts again when it did not hear back; the id makes inbox and page know it."""
    await visitor.say("hello", id="0123456789abcdef")
    await visitor.say("hello", id="0123456789abcdef")
    assert {inbound.message_id for inbound in site.brain.heard} == {"0123456789abcdef"}
    state = await visitor.state()
    assert len([message for message in state["messages"] if message["who"] == "person"]) == 1


async def test_what_was_said_and_sent_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        async with visiting(site.server) as visitor:
            await visitor.say("before")
            await until(lambda: _has(visitor, "You said: before"))
        await site.web.channel("operator:main").send(plain("nobody looked", key="k-1"))
    async with running_site(tmp_path) as site, visiting(site.server) as visitor:
        assert await texts(visitor) == ["before", "You said: before", "nobody looked"]
        # The outbox may repeat what it does not know to have arrived: the key outlives the process.
        await site.web.channel("operator:main").send(plain("nobody looked", key="k-1"))
        assert (await texts(visitor)).count("nobody looked") == 1


async def test_a_stream_goes_on_where_it_was_cut(site: Site, visitor: Visitor) -> None:
    channel = site.web.channel("operator:main")
    async with visitor.events() as events:
        id, state = await anext(events)
        assert state["type"] == "state"
    await channel.send(plain("one"))
    await channel.send(plain("two"))
    async with visitor.events(after=id) as events:
        got = [(await anext(events))[1]["message"]["blocks"] for _ in range(2)]
        assert got == [['<p class="plain">one</p>'], ['<p class="plain">two</p>']]


async def test_a_stream_ends_with_its_session(site: Site, visitor: Visitor) -> None:
    channel = site.web.channel("operator:main")
    async with visiting(site.server) as another, visitor.events() as events:
        await anext(events)
        await another.post("/sign-out", {})
        await channel.send(plain("another session ended"))
        assert (await anext(events))[1]["type"] != "state"
        await visitor.post("/sign-out", {})
        await channel.send(plain("not for them"))
        assert [event async for event in events] == []


async def test_one_that_was_away_too_long_gets_the_whole_state(site: Site, visitor: Visitor) -> None:
    channel = site.web.channel("operator:main")
    assert channel.presence is not None
    async with visitor.events() as events:
        id, _ = await anext(events)
    await channel.send(plain("missed"))
    for _ in range(600):
        await channel.presence.typing()
    async with visitor.events(after=id) as events:
        _, event = await anext(events)
        assert event["type"] == "state"
        assert [message["blocks"] for message in event["messages"]] == [['<p class="plain">missed</p>']]


async def test_a_growing_answer_sends_only_blocks_that_changed(site: Site, visitor: Visitor) -> None:
    streams = site.web.channel("operator:main").streams
    assert streams is not None
    async with visitor.events() as events:
        await anext(events)
        sent = await streams.open((Plain("first"),), reply_to=None, to=None)
        drafts = [(await anext(events))[1]]
        for text in ("sec", "second"):
            await streams.update(sent, (Plain("first"), Plain(text)))
            drafts.append((await anext(events))[1])
        await streams.finish(sent, Outbound(document=(Plain("first"), Plain("second"))))
        assert [(draft["from"], len(draft["blocks"])) for draft in drafts] == [(0, 1), (1, 1), (1, 1)]
        _, final = await anext(events)
        assert final["replaces"] == sent.id
        assert len(final["message"]["blocks"]) == 2


async def test_who_comes_back_gets_a_long_block_once_and_not_every_frame_of_it(site: Site, visitor: Visitor) -> None:
    streams = site.web.channel("operator:main").streams
    assert streams is not None
    async with visitor.events() as events:
        id, _ = await anext(events)
    asked = await visitor.say("hello")
    sent = await streams.open((Plain("x"),), reply_to=asked, to=None)
    for length in range(2, 700):
        await streams.update(sent, (Plain("x" * length),))
    async with visitor.events(after=id) as events:
        with anyio.fail_after(60):
            while (event := (await anext(events))[1])["type"] != "draft" or event["id"] != sent.id:
                assert event["type"] != "state", "nothing that it missed is lost"
    assert (event["from"], event["reply_to"]) == (0, asked)
    assert "x" * 699 in event["blocks"][0]


async def test_two_pages_of_one_person_see_the_same(site: Site, visitor: Visitor) -> None:
    async with visiting(site.server) as other, other.events() as events:
        await anext(events)
        id = await visitor.say("hello")
        with anyio.fail_after(60):
            _, event = await anext(events)
        assert (event["message"]["id"], event["message"]["text"]) == (id, "hello")


async def test_conversations_are_listed_and_told_of_each_other(site: Site, visitor: Visitor) -> None:
    new = (await visitor.post("/chat/conversations", {})).json()["id"]
    assert new == "main"  # an empty one is used first
    await visitor.say("About the garden\nand more")
    new = (await visitor.post("/chat/conversations", {})).json()["id"]
    assert new != "main"
    async with visitor.events() as events:
        await until(lambda: _has(visitor, "You said"))
        await visitor.say("/help", session=new)
        with anyio.fail_after(60):
            async for _, event in events:
                if event["type"] == "elsewhere":
                    assert event["room"] == new
                    break
    listed = (await visitor.client.get("/chat/conversations")).json()["conversations"]
    assert {entry["id"]: entry["title"] for entry in listed}["main"] == "About the garden"


@pytest.mark.parametrize(
    ("messages", "title"),
    [
        pytest.param([("person", "/remind in 1 min tea"), ("bot", "I will remind you"), ("person", "Hi\nthere")], "Hi",
                     id="the answer to a command is no title"),
        pytest.param([("bot", "⏰ tea")], "", id="nor is what the bot says by itself"),
        pytest.param([("person", "x" * 100)], "x" * (TITLE - 1) + "…", id="long words are shortened"),
    ],
)  # fmt: skip
def test_a_conversation_is_called_as_its_person_began_it(
    messages: list[tuple[Literal["person", "bot"], str]], title: str
) -> None:
    shown = [
        Shown(id=str(order), order=order, who=who, at="", text=said if who == "person" else "",
              blocks=() if who == "person" else (f"<p>{said}</p>",))
        for order, (who, said) in enumerate(messages)
    ]  # fmt: skip
    assert entry_of("main", shown).title == title


@pytest.mark.parametrize("number", ["²", "9" * 5_000, "-1", "x", ""])
async def test_a_number_that_is_none_is_refused(visitor: Visitor, number: str) -> None:
    assert (await visitor.client.get("/chat/c/main/older", params={"before": number})).status_code == 400


@pytest.mark.requirement("G-69")
async def test_nobody_reaches_the_conversations_or_files_of_another(site: Site, visitor: Visitor) -> None:
    await visitor.say("my secret")
    file = await visitor.upload("secret.txt", b"secret")
    await site.sign_ins.add("anna", "Anna")
    link = await site.server.sign_in_link(SignedIn(id=UserId("anna"), display="Anna"))
    async with visiting(site.server, link) as anna:
        assert await texts(anna) == []
        assert (await anna.client.get(f"/chat/files/{file['id']}")).status_code == 404
        assert (await anna.client.get(f"/chat/files/..%2foperator%2f{file['id']}")).status_code == 404
        attached = {"id": "0123456789", "text": "mine", "files": [file["id"]]}
        assert (await anna.post("/chat/c/main/messages", attached)).status_code == 400
        posts: dict[str, dict[str, str]] = {
            "messages": {"id": "0123456789", "text": "as the owner"},
            "stop": {"id": "0123456789"},
            "rename": {"title": "mine"},
            "delete": {},
        }
        guesses = ("operator:main", "operator%3Amain", "..%2foperator%2fmain", "../../operator/main", "MAIN", "a" * 33)
        for session in guesses:
            for path in ("older?before=9", "events", "window"):
                assert (await anna.client.get(f"/chat/c/{session}/{path}")).status_code in (401, 404)
            for path, body in posts.items():
                assert (await anna.post(f"/chat/c/{session}/{path}", body)).status_code in (401, 404, 405)
        found = (await anna.client.get("/chat/conversations", params={"find": "secret"})).json()
        assert found["conversations"] == []
    assert [said.sender.id for said in site.brain.heard] == ["operator"]
    assert (await texts(visitor))[0] == "my secret"


async def test_a_message_the_gateway_cannot_take_is_not_shown_and_may_come_again(site: Site, visitor: Visitor) -> None:
    async def broken(inbound: Inbound) -> Receipt:
        raise GatewayUnavailable("the database is locked")

    async with anyio.create_task_group() as group:
        group.start_soon(site.web.run, broken)
        await anyio.lowlevel.checkpoint()
        response = await visitor.post("/chat/c/main/messages", {"id": "0123456789", "text": "hello"})
        group.cancel_scope.cancel()
    assert response.status_code == 503
    assert "locked" not in response.text
    assert await texts(visitor) == []


async def test_a_refused_message_says_why(site: Site, visitor: Visitor) -> None:
    async def refuse(inbound: Inbound) -> Receipt:
        return Receipt(Outcome.REFUSED, "the queue is full")

    async with anyio.create_task_group() as group:
        group.start_soon(site.web.run, refuse)
        await anyio.lowlevel.checkpoint()
        await visitor.say("hello")
        group.cancel_scope.cancel()
    (message,) = (await visitor.state())["messages"]
    assert message["note"] == "the queue is full"


async def test_the_stop_button_is_the_stop_command_without_a_message(site: Site, visitor: Visitor) -> None:
    response = await visitor.post("/chat/c/main/stop", {"id": "stop-0001"})
    assert response.json()["outcome"] == "accepted"
    (said,) = site.brain.heard
    assert isinstance(said, MessageReceived)
    assert (said.text, said.interaction_id) == ("/stop", "stop-0001")
    assert said.interaction is None, "the end of the turn tells it; another answer would be noise"
    assert await texts(visitor) == []


async def test_a_button_that_is_not_there_cannot_be_pressed(site: Site, visitor: Visitor) -> None:
    await visitor.say("ask")
    await until(lambda: _has(visitor, "Shall I"))
    message = (await visitor.state())["messages"][-1]
    forged = {"id": "press-0001", "message": message["id"], "action": "approve:everything"}
    assert (await visitor.post("/chat/c/main/press", forged)).status_code == 409
    assert not any(isinstance(inbound, ButtonClicked) for inbound in site.brain.heard)


@pytest.mark.parametrize(
    ("name", "content", "mime_type", "disposition", "served_as"),
    [
        pytest.param("a.png", PNG, "image/png", "inline", "image/png", id="a picture is shown"),
        pytest.param("a.ogg", b"OggS...", "audio/ogg", "inline", "audio/ogg", id="a sound is played"),
        pytest.param("a.ogg", b"<script>", "audio/ogg", "attachment", "application/octet-stream", id="no sound"),
        pytest.param("a.png", b"<svg onload=x>", "image/png", "attachment", "application/octet-stream", id="a fake"),
        pytest.param("a.html", b"<script>", "text/html", "attachment", "application/octet-stream", id="html"),
    ],
)
async def test_files_go_in_and_out(
    visitor: Visitor, name: str, content: bytes, mime_type: str, disposition: str, served_as: str
) -> None:
    file = await visitor.upload(name, content, mime_type)
    response = await visitor.client.get(f"/chat/files/{file['id']}")
    assert response.content == content
    assert response.headers["content-disposition"].startswith(disposition)
    assert response.headers["content-type"] == served_as
    assert "sandbox" in response.headers["content-security-policy"]


async def test_an_uploaded_file_reaches_the_agent(site: Site, visitor: Visitor, tmp_path: Path) -> None:
    file = await visitor.upload("../notes.txt", b"the notes", "text/plain")
    assert file["name"] == "notes.txt"
    await visitor.say("see", files=(file["id"],))
    (said,) = site.brain.heard
    assert isinstance(said, MessageReceived)
    (attachment,) = said.attachments
    files = site.web.channel("operator:main").files
    assert files is not None
    assert await files.fetch(attachment, tmp_path / "fetched", limit=100) == 9
    assert (tmp_path / "fetched").read_bytes() == b"the notes"


async def test_too_large_a_file_is_refused_and_leaves_nothing(site: Site, visitor: Visitor) -> None:
    headers = {"x-csrf-token": visitor.token}
    response = await visitor.client.post("/chat/files?name=big", content=b"x" * (2 << 20), headers=headers)
    assert response.status_code == 413
    kept = site.home / "web" / "chat" / "default" / "operator" / "files"
    assert not kept.exists() or not list(kept.iterdir())


async def test_a_message_in_bad_shape_is_refused_in_words(visitor: Visitor) -> None:
    response = await visitor.post("/chat/c/main/messages", {"id": "short", "text": "x"})
    assert response.status_code == 400
    assert response.json()["error"].startswith("id: ")
    response = await visitor.post("/chat/c/main/messages", {"id": "0123456789", "text": "  "})
    assert response.json() == {"error": "the message is empty"}


async def test_older_messages_come_page_by_page(site: Site, visitor: Visitor) -> None:
    channel = site.web.channel("operator:main")
    for number in range(70):
        await channel.send(plain(str(number)))
    state = await visitor.state()
    assert (len(state["messages"]), state["has_older"]) == (60, True)
    older = (await visitor.client.get(f"/chat/c/main/older?before={state['messages'][0]['order']}")).json()
    assert [text_of(message["blocks"][0]) for message in older["messages"]] == [str(number) for number in range(10)]
    assert older["has_older"] is False


async def test_a_file_of_the_bot_can_be_fetched(site: Site, visitor: Visitor, tmp_path: Path) -> None:
    (tmp_path / "chart").write_bytes(PNG)
    file = File(path=tmp_path / "chart", name="chart.png", mime_type="image/png")
    await site.web.channel("operator:main").send(Outbound(document=(Plain("see"),), files=(file,)))
    (tmp_path / "chart").unlink()  # the page keeps its own
    (message,) = (await visitor.state())["messages"]
    assert (await visitor.client.get(f"/chat/files/{message['files'][0]['id']}")).content == PNG


async def test_a_status_line_is_private_and_goes(site: Site, visitor: Visitor) -> None:
    channel = site.web.channel("operator:main")
    sent = await channel.send_ephemeral(Outbound(document=(Plain("Compacting"),), silent=True), None)
    (status,) = (await visitor.state())["private"]
    assert (status["private"], status["silent"]) == (True, True)
    await channel.delete(sent)
    assert (await visitor.state())["private"] == []


@pytest.mark.parametrize("channel_id", ["", "operator", "operator:../x", "Operator:main", "a:b:c"])
async def test_an_impossible_conversation_is_gone(site: Site, channel_id: str) -> None:
    with pytest.raises(ChannelGone):
        await site.web.channel(channel_id).send(plain("x"))


async def test_the_bots_message_cannot_be_taken_for_a_persons(site: Site, visitor: Visitor) -> None:
    id = await visitor.say("mine")
    with pytest.raises(ChannelRejected):
        await site.web.channel("operator:main").edit(SentRef(id), plain("changed"))


async def test_the_account_is_well(site: Site) -> None:
    (diagnosis,) = await site.web.diagnose()
    assert diagnosis.level == "ok"


async def _has(visitor: Visitor, text: str) -> bool:
    return any(text in each for each in await texts(visitor))


async def test_a_conversation_is_named_found_and_deleted(site: Site, visitor: Visitor) -> None:
    await visitor.say("about boats")
    await until(lambda: _has(visitor, "You said: about boats"))
    session = (await visitor.post("/chat/conversations", {})).json()["id"]
    await visitor.say("the kettle is Blue & hot", session=session)

    async def answered() -> bool:
        return any("You said: the kettle" in each for each in await texts(visitor, session))

    await until(answered)

    async def listed(find: str = "") -> list[tuple[str, str]]:
        answer = await visitor.client.get("/chat/conversations", params={"find": find} if find else {})
        return [(one["id"], one["title"]) for one in answer.json()["conversations"]]

    assert (await visitor.post(f"/chat/c/{session}/rename", {"title": "  Tea   things "})).status_code == 200
    assert (session, "Tea things") in await listed()
    assert await listed("BLUE & tea") == [(session, "Tea things")]
    assert await listed("boats") == [("main", "about boats")]
    assert await listed("no such words") == []
    assert (await visitor.post(f"/chat/c/{session}/rename", {"title": "x" * 61})).status_code == 400
    await visitor.post(f"/chat/c/{session}/rename", {"title": ""})
    assert (session, "the kettle is Blue & hot") in await listed()

    await visitor.post(f"/chat/c/{session}/rename", {"title": "Tea"})
    assert (await visitor.post(f"/chat/c/{session}/delete", {})).status_code == 200
    assert await listed() == [("main", "about boats")]
    assert await texts(visitor, session) == []
    assert (await visitor.post("/chat/c/main/delete", {})).status_code == 200
    assert ("main", "") in await listed(), "the first one is always there"


@pytest.mark.requirement("G-05")
@pytest.mark.parametrize("has_words", [True, False], ids=["stopped halfway", "stopped before a word"])
async def test_a_stop_marks_what_it_ended_and_leaves_no_message(site: Site, visitor: Visitor, has_words: bool) -> None:
    async def take(inbound: Inbound) -> Receipt:
        return Receipt(Outcome.ACCEPTED)

    async with anyio.create_task_group() as group:
        group.start_soon(site.web.run, take)
        await anyio.lowlevel.checkpoint()
        await visitor.say("tell me much", id="b" * 32)
        group.cancel_scope.cancel()
    channel = site.web.channel("operator:main")
    if has_words:
        await channel.send(replace(plain("the beginning", "k-1"), answers="b" * 32))
        await channel.send(plain("a reminder", "k-2"))
    stopped = replace(plain("Stopped.", "k-3"), answers="b" * 32, tone="stopped")
    sent = await channel.send(stopped)
    assert await channel.send(stopped) == sent, "sent again after a crash"
    found = (await visitor.state())["messages"]
    assert [message.get("tone", "") for message in found] == (["", "stopped", ""] if has_words else ["stopped"])
    assert "answers" not in found[0]
    await channel.delete(sent)
    left = (await visitor.state())["messages"]
    assert len(left) == len(found)
    assert not any("tone" in message for message in left), "only the mark goes"


async def test_a_stop_of_what_the_page_does_not_know_is_told(site: Site, visitor: Visitor) -> None:
    await site.web.channel("operator:main").send(replace(plain("Stopped."), answers="gone", tone="stopped"))
    assert await texts(visitor) == ["Stopped."]


@pytest.mark.requirement("Z-166")
async def test_the_newest_answer_is_asked_for_again_without_a_message(site: Site, visitor: Visitor) -> None:
    asked = await visitor.say("hello")
    await until(lambda: _has(visitor, "You said: hello"))
    first = (await visitor.state())["messages"][-1]
    response = await visitor.post("/chat/c/main/again", {"id": "again-0001", "message": first["id"]})
    assert response.json()["outcome"] == "accepted"
    await until(lambda: _has(visitor, "Another answer."))
    retried = site.brain.heard[-1]
    assert isinstance(retried, MessageReceived)
    assert (retried.text, retried.message_id) == ("/retry", f"again.{asked}.again-0001")
    assert await texts(visitor) == ["hello", "You said: hello", "Another answer."]
    second = (await visitor.state())["messages"][-1]
    await visitor.post("/chat/c/main/again", {"id": "again-0002", "message": second["id"]})
    assert site.brain.heard[-1].message_id == f"again.{asked}.again-0002", "it is the same message that is answered"


@pytest.mark.requirement("Z-166")
async def test_two_tabs_ask_for_one_more_answer_and_not_for_two(site: Site, visitor: Visitor) -> None:
    await visitor.say("hello")
    await until(lambda: _has(visitor, "You said: hello"))
    first = (await visitor.state())["messages"][-1]
    site.brain.pause_s = 0.5  # both tabs still show the button
    statuses: list[int] = []

    async def press(id: str) -> None:
        response = await visitor.post("/chat/c/main/again", {"id": id, "message": first["id"]})
        statuses.append(response.status_code)

    async with anyio.create_task_group() as tabs:
        for id in ("again-0001", "again-0002"):
            tabs.start_soon(press, id)
    assert sorted(statuses) == [200, 409]
    await until(lambda: _has(visitor, "Another answer."))
    assert await texts(visitor) == ["hello", "You said: hello", "Another answer."]


@pytest.mark.requirement("Z-166")
async def test_no_other_than_the_newest_answer_is_asked_for_again(site: Site, visitor: Visitor) -> None:
    asked = await visitor.say("hello")
    await until(lambda: _has(visitor, "You said: hello"))
    first = (await visitor.state())["messages"][-1]
    await site.web.channel("operator:main").send(plain("a reminder"))
    reminder = (await visitor.state())["messages"][-1]
    for message in (reminder["id"], asked, "nothing"):
        response = await visitor.post("/chat/c/main/again", {"id": "again-0001", "message": message})
        assert (response.status_code, response.json()["error"]) == (409, "this is not the newest answer any more")
    site.brain.hold = anyio.Event()
    await visitor.say("more words than one is enough")
    assert (await visitor.post("/chat/c/main/again", {"id": "again-0001", "message": first["id"]})).status_code == 409
    assert "/retry" not in [each.text for each in site.brain.heard if isinstance(each, MessageReceived)]
    assert (await visitor.post("/chat/c/none/again", {"id": "again-0001", "message": "m"})).status_code in {404, 409}


@pytest.mark.requirement("Z-166")
@pytest.mark.parametrize("has_words", [True, False], ids=["stopped halfway", "stopped before a word"])
async def test_a_stop_marks_an_answer_that_was_asked_for_again(site: Site, visitor: Visitor, has_words: bool) -> None:
    asked = await visitor.say("hello")
    await until(lambda: _has(visitor, "You said: hello"))
    channel, again = site.web.channel("operator:main"), f"again.{asked}.again-0001"
    if has_words:
        await channel.send(replace(plain("the beginning", "k-1"), answers=again))
    await channel.send(replace(plain("Stopped.", "k-2"), answers=again, tone="stopped"))
    found = (await visitor.state())["messages"]
    tones = ["", "", "stopped"] if has_words else ["stopped", ""]
    assert [message.get("tone", "") for message in found] == tones


@pytest.mark.requirement("Z-167")
async def test_a_persons_addresses_are_links_and_the_text_stays(site: Site, visitor: Visitor) -> None:
    text = '<b>see</b> https://a.example/"onclick=x and javascript://x'
    await visitor.say(text)
    message = (await visitor.state())["messages"][0]
    assert message["text"] == text
    link = '<a href="https://a.example/" target="_blank" rel="noopener noreferrer nofollow">https://a.example/</a>'
    assert message["html"] == f'&lt;b&gt;see&lt;/b&gt; {link}"onclick=x and javascript://x'
