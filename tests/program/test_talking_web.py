"""A person talks to the running program from a browser and from a terminal."""

import base64
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
import pytest_asyncio

from tests.adapters.web.visitor import Visitor, text_of
from tests.fakes.waiting import PATIENCE_S
from tests.program.doubles import until
from tests.program.stage import ODD_PLAIN, PICTURE, POEM, Stage, becomes, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with on_stage(tmp_path_factory.mktemp("h", numbered=True), lambda *_: "") as stage:
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(stage: Stage) -> AsyncIterator[Visitor]:
    """Signed in with a link of `tieline sign-in`."""
    link = stage.program.sign_in_link()
    async with httpx2.AsyncClient(base_url=stage.program.url, timeout=PATIENCE_S, trust_env=False) as client:
        page = await client.get(link, follow_redirects=True)
        token = re.search(r'name="csrf" content="([^"]+)"', page.text)
        assert token, page.text
        yield Visitor(client, token[1])
    async with httpx2.AsyncClient(base_url=stage.program.url, timeout=PATIENCE_S, trust_env=False) as another:
        assert (await another.get(link)).status_code == 403  # the link was good for once


async def a_room(ann: Visitor) -> str:
    """A conversation of its own for a test."""
    made = await ann.post("/chat/conversations", {})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def messages(ann: Visitor, session: str) -> list[dict[str, Any]]:
    """The bot's messages that are there."""
    return [message for message in (await ann.state(session))["messages"] if message["who"] == "bot"]


async def texts(ann: Visitor, session: str) -> list[str]:
    return ["\n\n".join(map(text_of, message["blocks"])) for message in await messages(ann, session)]


async def hears(ann: Visitor, session: str, what: str, *, seconds: float = PATIENCE_S) -> str:
    async def found() -> str | None:
        return next((text for text in await texts(ann, session) if what in text), None)

    text: str = await until(found, seconds=seconds, what=f"{what!r} in the browser")
    return text


async def drafted(ann: Visitor, session: str, what: str) -> None:
    """Wait for a draft that holds these words."""

    async def found() -> bool:
        return what in str((await ann.state(session))["drafts"])

    await until(found, what=f"a draft with {what!r}")


@asynccontextmanager
async def watching(ann: Visitor, session: str) -> AsyncIterator[list[dict[str, Any]]]:
    """All events of the page while the block runs, the first one already there when it begins."""
    seen: list[dict[str, Any]] = []
    begun = anyio.Event()

    async def watch() -> None:
        async with ann.events(session) as events:
            async for _, event in events:
                seen.append(event)
                begun.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await begun.wait()
        yield seen
        tasks.cancel_scope.cancel()


async def window_in(ann: Visitor, session: str) -> Any:
    """The text of the header's gauge."""
    return (await ann.client.get(f"/chat/c/{session}/window")).json()["window"]


@pytest.mark.requirement("Z-76")
async def test_everyday(stage: Stage, ann: Visitor) -> None:
    session = await a_room(ann)
    assert await window_in(ann, session) is None
    await stage.script("good morning", "Good morning, **Ann**.")
    await ann.say("good morning", session=session)
    assert await hears(ann, session, "Good morning") == "Good morning, Ann."
    assert "<strong>Ann</strong>" in (await messages(ann, session))[0]["blocks"][0]

    await ann.say("/status", session=session)
    status = await hears(ann, session, "Status")
    assert "model-a" in status
    gauge = await window_in(ann, session)
    assert (gauge["colour"], gauge["badge"], gauge["subgoal"]) == ("green", "", "")
    assert f"🟢 {gauge['used']:,} of {gauge['window']:,} tokens" in status
    await ann.say("/provider", session=session)
    await hears(ann, session, "Providers")
    menu = (await messages(ann, session))[-1]
    chosen = next(one["action"] for row in menu["buttons"] for one in row if "provider b" in one["action"])
    press = {"id": secrets.token_hex(16), "message": menu["id"], "action": chosen}
    assert (await ann.post(f"/chat/c/{session}/press", press)).status_code == 200
    await hears(ann, session, "This chat now uses")
    await ann.say("with the other one", session=session)
    await hears(ann, session, "with the other one")
    assert (await stage.asked("with the other one"))[0]["body"]["model"] == "model-b"

    other = await a_room(ann)
    await ann.say("in the other room", session=other)
    await hears(ann, other, "in the other room")
    (call,) = await stage.asked("in the other room")
    assert call["body"]["model"] == "model-a"
    assert "good morning" not in str(call["body"]["messages"])
    names = {command["name"] for command in (await ann.state(session))["commands"]}
    assert {"help", "new", "stop"} <= names


@pytest.mark.requirement("Z-45", "Z-58")
async def test_what_is_worked_on_reaches_the_header_once_a_model_has_named_it(stage: Stage, ann: Visitor) -> None:
    session = await a_room(ann)
    named = {"system_contains": "You follow a conversation", "contains": "garden"}
    reply = {"text": "CURRENT: plan the garden\nCOMPLETED: NONE"}
    await stage.doubles.llm.post("script", [{"match": named, "reply": reply}], append="1")
    for number in range(5):  # a fifth of the window: nothing is asked before
        await ann.say(f"garden {number}: " + "a bed of roses by the old wall " * 900, session=session)
        await hears(ann, session, f"garden {number}")

    async def shown() -> bool:
        await ann.say("and now, garden?", session=session)  # an answer of the background counts from the next call on
        return bool((await window_in(ann, session))["subgoal"])

    await until(shown, what="a subgoal in the header")
    assert (await window_in(ann, session))["subgoal"] == "plan the garden"


@pytest.mark.requirement("B-29", "R-13")
async def test_an_answer_grows_on_the_page_and_leaves_one_message(stage: Stage, ann: Visitor) -> None:
    session = await a_room(ann)
    await stage.script("a poem", POEM, hold={"begin": 0, "a fifth": 8, "half": 20, "end": 32})
    async with watching(ann, session) as seen:
        asked = await ann.say("a poem please", session=session)

        async def types() -> bool:
            return any(event["type"] == "typing" for event in seen)

        await until(types, what="that it types")
        await stage.release("begin")
        for words, then in (("verse7", "a fifth"), ("verse19", "half"), ("verse31", "end")):
            await drafted(ann, session, words)
            await stage.release(then)
        grown = [event for event in seen if event["type"] not in ("state", "shown", "typing", "commands", "gone")]
        assert len(grown) >= 3
        assert await hears(ann, session, "verse39") == POEM
    state = await ann.state(session)
    assert not state["drafts"]
    assert not state["private"]
    assert [message["who"] for message in state["messages"]] == ["person", "bot"]
    assert not next(one for one in state["messages"] if one["id"] == asked).get("reactions")


@pytest.mark.requirement("Z-165", "Z-166", "Z-167")
async def test_a_formula_and_an_address_are_shown_and_asked_for_again(stage: Stage, ann: Visitor) -> None:
    await stage.script("the square", "It is $x^2$; see https://example.org/squares for more.")
    session = await a_room(ann)
    await ann.say("the square", session=session)
    await hears(ann, session, "It is")
    (first,) = await messages(ann, session)
    html = "".join(first["blocks"])
    assert re.search(r'class="[^"]*(math|formula)', html), html
    assert 'href="https://example.org/squares"' in html
    again = {"id": "again-0001", "message": first["id"]}
    assert (await ann.post(f"/chat/c/{session}/again", again)).json()["outcome"] == "accepted"

    async def answered() -> int:
        return len(await messages(ann, session))

    await becomes(answered, 2)


async def test_plain_text_arrives_as_it_is(stage: Stage, ann: Visitor) -> None:
    for key, text in ODD_PLAIN.items():
        await stage.script(key, text)  # a word of its own: recall brings back what was said in other rooms
        session = await a_room(ann)
        await ann.say(key, session=session)

        async def heard(session: str = session) -> list[str]:
            return await texts(ann, session)

        await becomes(heard, [text])


async def test_files_go_both_ways(stage: Stage, ann: Visitor) -> None:
    session = await a_room(ann)
    notes = await ann.upload("notes.txt", b"the code word is heron", "text/plain")
    picture = await ann.upload("p.png", base64.b64decode(PICTURE), "image/png")
    await ann.say("look at these", session=session, files=(notes["id"], picture["id"]))
    await hears(ann, session, "look at these")
    body = json.dumps((await stage.asking("look at these"))["body"])
    assert "the code word is heron" in body
    assert PICTURE in body

    await ann.say("/export", session=session)

    async def sent() -> Any:
        return [file for message in await messages(ann, session) for file in message.get("files", ())]

    (file,) = await until(sent, what="the file")
    assert file["name"] == "conversation.jsonl"
    exported = await ann.client.get(f"/chat/files/{file['id']}")
    assert [json.loads(line)["role"] for line in exported.text.splitlines()] == ["user", "assistant"]


@pytest.mark.requirement("G-05", "R-53")
async def test_the_stop_button_ends_a_running_answer(stage: Stage, ann: Visitor) -> None:
    session = await a_room(ann)
    await stage.script("never ending", " ".join(f"word{number}" for number in range(300)), hold="never", hold_after=9)
    await ann.say("a never ending story", session=session)
    await drafted(ann, session, "word5")
    assert (await ann.post(f"/chat/c/{session}/stop", {"id": secrets.token_hex(16)})).status_code == 200
    assert (await stage.over("never ending"))["client_closed"]
    assert "word299" not in await hears(ann, session, "word5")
    assert not (await ann.state(session))["drafts"]


async def test_a_tool_is_shown_while_it_runs_and_not_afterwards(stage: Stage, ann: Visitor) -> None:
    session = await a_room(ann)
    call = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
    rules = [
        {"match": {"contains": "six times", "tool_result": True}, "reply": {"text": "It is 42.", "hold": "six"}},
        {"match": {"contains": "six times"}, "reply": {"blocks": [{"type": "text", "text": "Let me see."}, call]}},
    ]
    await stage.doubles.llm.post("script", rules, append="1")
    await ann.say("what is six times seven", session=session)

    async def shown() -> Any:
        return "calculate" in str((await ann.state(session))["private"])

    await until(shown, what="the status line")
    await stage.release("six")
    await hears(ann, session, "It is 42.")

    async def gone() -> bool:
        return not (await ann.state(session))["private"]

    await until(gone, what="no status line")


@pytest.mark.alone
@pytest.mark.requirement("Z-67")
async def test_the_console_talks_beside_it(stage: Stage) -> None:
    await stage.script("from the terminal", "Seen in the *terminal*, with 2 * 3 * 4.")
    typed = "hello from the terminal\n/provider b\nand again\n/whoami\n/exit\n"
    ran = await stage.program.cli("console", stdin=typed)
    assert ran.returncode == 0, ran.stderr
    assert "2 * 3 * 4." in ran.stdout
    assert "This chat now uses" in ran.stdout
    assert "This chat is `console:`" in ran.stdout
    assert "Bye." in ran.stdout
    assert (await stage.asked("and again"))[0]["body"]["model"] == "model-b"
    again = await stage.program.cli("console", stdin="once more\n/exit\n")
    assert "once more" in again.stdout
    assert (await stage.asked("once more"))[0]["body"]["model"] == "model-b"  # the terminal's chat is always the same
