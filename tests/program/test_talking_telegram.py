"""A person talks to the running program over Telegram, by polling and by webhook."""

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.agent.documents.make import SAMPLES
from tests.program import configs
from tests.program.doubles import TELEGRAM_TOKEN, until
from tests.program.people import ANN, GROUP, OnTelegram
from tests.program.stage import ODD_PLAIN, PICTURE, POEM, Stage, becomes, dialogue, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUICK = "draft_interval_ms = 500\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda doubles, _: configs.telegram(doubles, more=QUICK)) as stage:
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def by_webhook(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda doubles, program: configs.telegram(doubles, program=program, more=QUICK)) as stage:
        yield stage


def somebody(id: int, name: str = "Bea") -> dict[str, Any]:
    return {"id": id, "first_name": name}


async def drafted(person: OnTelegram, what: str) -> str:
    """Wait for a draft that holds these words."""

    async def found() -> str | None:
        drafts = (await person.state())["drafts"].values()
        return next((text for text in drafts if what in text), None)

    text: str = await until(found, what=f"a draft with {what!r}")
    return text


async def everyday(stage: Stage) -> None:
    """A direct message, a group with and without mention, a topic, a command, a button."""
    ann = OnTelegram(stage.doubles)
    await stage.script("good morning", "Good morning, Ann.")
    await ann.say("good morning")
    assert await ann.hears("Good morning") == "Good morning, Ann."

    silent = await ann.say("nobody is meant", chat=GROUP)
    asked = await ann.say("@double_bot what is new", chat=GROUP)
    await ann.hears("what is new", chat=-1005)
    (answer,) = await ann.messages(-1005)
    assert answer["reply_to_message"]["message_id"] == asked
    assert silent < asked
    assert not await stage.asked("nobody is meant")

    topic = {"chat": {**GROUP, "is_forum": True}, "message_thread_id": 3, "is_topic_message": True}
    await ann.say("@double_bot about the topic", **topic)
    await ann.hears("about the topic", chat=-1005)
    assert (await ann.messages(-1005))[-1]["message_thread_id"] == 3
    (call,) = await stage.asked("about the topic")
    assert "what is new" not in str(call["body"]["messages"])  # a topic is a conversation of its own

    await ann.say("/status")
    assert "model-a" in await ann.hears("Status")
    await ann.say("/whoami@double_bot", chat=GROUP)
    assert "telegram:77" in await ann.hears("telegram:77", chat=-1005)

    await ann.say("/provider")
    await ann.hears("Providers")
    menu = (await ann.messages())[-1]
    await ann.press(menu["message_id"], "c:/provider b")
    await ann.hears("This chat now uses")
    await ann.say("with the other one")
    await ann.hears("with the other one")
    assert (await stage.asked("with the other one"))[0]["body"]["model"] == "model-b"


async def test_everyday_by_polling(stage: Stage) -> None:
    await everyday(stage)
    state = await OnTelegram(stage.doubles).state()
    menus = [{command["command"] for command in menu} for menu in state["commands"].values()]
    assert menus
    assert all({"help", "stop", "new", "provider"} <= menu for menu in menus)
    assert all(8 <= len(menu) <= 12 for menu in menus)


async def test_everyday_by_webhook(by_webhook: Stage) -> None:
    await everyday(by_webhook)
    bot = await OnTelegram(by_webhook.doubles).state()
    assert bot["webhook"]["secret"]
    assert bot["webhook_delivered"] >= 8


@pytest.mark.requirement("B-29", "R-13")
async def test_an_answer_grows_as_a_draft_and_leaves_nothing_behind(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(201))
    await stage.script("a poem", POEM, hold={"poem, begin": 0, "poem, go on": 8, "poem, end": 24})
    asked = await bea.say("a poem please")
    mark = f"201:{asked}"

    async def acknowledged() -> Any:
        return (await bea.state())["reactions"].get(mark)

    assert (await until(acknowledged, what="the reaction"))[0]["emoji"] == "👀"
    await stage.release("poem, begin")
    for words, then in (("verse7", "poem, go on"), ("verse23", "poem, end")):
        assert POEM.startswith(await drafted(bea, words))
        assert "ended_at" not in await stage.asking("a poem")
        await stage.release(then)
    assert await bea.hears("verse39") == POEM
    assert await bea.calls("sendChatAction")

    async def nothing_left() -> bool:
        state = await bea.state()
        return not state["drafts"] and not state["reactions"].get(mark)

    await until(nothing_left, what="a clean screen")
    assert len(await bea.messages()) == 1


@pytest.mark.requirement("G-11")
async def test_in_a_group_the_answer_grows_in_place(stage: Stage) -> None:
    ann, chat = OnTelegram(stage.doubles), {**GROUP, "id": -1201}
    await stage.script("an epic", POEM, hold="epic", hold_after=10)
    await ann.say("@double_bot an epic", chat=chat)

    await ann.hears("verse9", chat=-1201)
    (first,) = await ann.messages(-1201)
    assert "ended_at" not in (await stage.asking("an epic"))
    assert POEM.startswith(first["text"])
    await stage.release("epic")
    await ann.hears("verse39", chat=-1201)
    (last,) = await ann.messages(-1201)
    assert last["message_id"] == first["message_id"]
    assert last["text"] == POEM
    edits = [call["at"] for call in await ann.calls("editMessageText") if call["params"]["chat_id"] in (-1201, "-1201")]
    assert 1 <= len(edits) <= 3


@pytest.mark.requirement("G-06", "R-54")
async def test_plain_text_arrives_as_it_is_for_many_people_at_once(stage: Stage) -> None:
    people = {key: OnTelegram(stage.doubles, somebody(300 + number)) for number, key in enumerate(ODD_PLAIN)}
    for key, text in ODD_PLAIN.items():
        await stage.script(f"odd {key}", text, hold="odd")
    for key, person in people.items():
        await person.say(f"odd {key}")
    for key in people:
        await stage.asking(f"odd {key}")  # all are under way together
    await stage.release("odd")
    for key, person in people.items():

        async def heard(person: OnTelegram = person) -> list[str]:
            return await person.texts()

        await becomes(heard, [ODD_PLAIN[key]])
        assert not (await person.messages())[0].get("entities")
    calls = [call for key in ODD_PLAIN for call in await stage.asked(f"odd {key}")]
    assert len(calls) == len(ODD_PLAIN)


async def test_a_message_edited_before_its_turn_is_answered_as_it_now_reads(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(202))
    await stage.script("hold on", "held", hold="edited")
    await stage.script("say alpha", "alpha it is")
    await bea.say("hold on")
    await stage.asking("hold on")
    second = await bea.say("say aplha")
    await bea.edit(second, "say alpha")
    await stage.program.waits("say alpha")
    await stage.release("edited")
    await bea.hears("held")
    await bea.hears("alpha it is")
    assert not await stage.asked("aplha")


async def test_files_reach_the_model(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(203))
    notes = {"name": "notes.txt", "text": "the code word is heron", "mime_type": "text/plain"}
    await bea.send({"user": bea.user, "file": notes, "caption": "read the notes"})
    await bea.hears("read the notes")
    assert "the code word is heron" in json.dumps((await stage.asking("read the notes"))["body"])
    picture = {"name": "p.png", "field": "photo", "mime_type": "image/png"}
    picture["content_base64"] = PICTURE
    await bea.send({"user": bea.user, "file": picture, "caption": "look at this"})
    await bea.hears("look at this")
    assert PICTURE in json.dumps((await stage.asking("look at this"))["body"])


@pytest.mark.requirement("Z-160", "Z-161")
async def test_a_pdf_file_reaches_the_model_as_text_and_a_scanned_one_as_pictures(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(205))

    async def request_for(name: str, words: str) -> str:
        content = b64encode((SAMPLES / name).read_bytes()).decode()
        file = {"name": "contract.pdf", "mime_type": "application/pdf", "content_base64": content}
        await bea.send({"user": bea.user, "file": file, "caption": words})
        await bea.hears(words)
        return json.dumps((await stage.asking(words))["body"])

    body = await request_for("pdf/canvas.pdf", "read the contract")
    assert r"<untrusted source=\"contract.pdf\">\n[page 1]\nContract, page 1 of three" in body
    assert "base64" not in body
    body = await request_for("scans/one.pdf", "read the scan")
    assert "pictures of pages follow: 1" in body
    assert body.count("data:image/png;base64,") == 1


@pytest.mark.requirement("Z-15")
async def test_export_sends_the_conversation_as_a_file(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(204))
    await bea.say("to be exported")
    await bea.hears("to be exported")
    await bea.say("/export")

    async def sent() -> Any:
        return [one for one in await bea.messages() if "document" in one]

    (message,) = await until(sent, what="the file")
    assert message["caption"] == "2 messages."
    document = message["document"]
    assert document["file_name"] == "conversation.jsonl"
    lines = (await download(stage, document["file_id"])).splitlines()
    assert [json.loads(line)["role"] for line in lines] == ["user", "assistant"]
    assert "to be exported" in lines[0]


async def download(stage: Stage, file_id: str) -> str:
    base = f"http://127.0.0.1:{stage.doubles.telegram.port}"
    body = await stage.doubles.telegram.fetch(f"{base}/bot{TELEGRAM_TOKEN}/getFile?file_id={file_id}")
    path = json.loads(body)["result"]["file_path"]
    return (await stage.doubles.telegram.fetch(f"{base}/file/bot{TELEGRAM_TOKEN}/{path}")).decode()


@pytest.mark.requirement("G-35")
async def test_only_the_one_who_was_asked_can_confirm(stage: Stage) -> None:
    ann, chat = OnTelegram(stage.doubles), {**GROUP, "id": -1202}
    bob = OnTelegram(stage.doubles, somebody(205, "Bob"))
    await ann.say("@double_bot something to forget", chat=chat)
    await ann.hears("something to forget", chat=-1202)
    await bob.say("/clear", chat=chat)
    assert "for admins" in await ann.hears("for admins", chat=-1202)

    await ann.say("/clear", chat=chat)
    await ann.hears("Hide 2 messages", chat=-1202)
    question = (await ann.messages(-1202))[-1]
    yes = question["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    await bob.press(question["message_id"], yes, chat=chat)

    async def told() -> Any:
        answers = await ann.calls("answerCallbackQuery")
        return [call for call in answers if "Only the person" in str(call["params"].get("text"))]

    await until(told, what="the refusal")
    assert not any("Forgotten" in text for text in await ann.texts(-1202))
    await ann.press(question["message_id"], yes, chat=chat)
    await ann.hears("Hidden from the model: 2 messages", chat=-1202)

    async def buttons_gone() -> bool:
        closed = next(one for one in await ann.messages(-1202) if one["message_id"] == question["message_id"])
        return not closed["reply_markup"]["inline_keyboard"] and "Answered: Yes" in closed["text"]

    await until(buttons_gone, what="the closed question")
    await ann.say("@double_bot what do you know", chat=chat)
    await ann.hears("what do you know", chat=-1202)
    assert "something to forget" not in str((await stage.asked("what do you know"))[0]["body"])


@pytest.mark.requirement("G-05", "R-53", "B-41")
async def test_stop_ends_a_running_answer(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(206))
    await stage.script("never ending", " ".join(f"word{number}" for number in range(300)), hold="never", hold_after=9)
    await bea.say("a never ending story")
    await drafted(bea, "word5")
    await bea.say("/stop")
    await bea.hears("Stopped")
    assert (await stage.over("never ending"))["client_closed"]
    kept = await bea.hears("word5")
    assert "word299" not in kept

    async def nothing_left() -> bool:
        return not (await bea.state())["drafts"]

    await until(nothing_left, what="no draft")
    await bea.say("are you still there")
    await bea.hears("still there")
    history = str((await stage.asked("still there"))[0]["body"]["messages"])
    assert "word5" in history  # the partial answer was kept


@pytest.mark.requirement("B-62", "B-65", "G-13")
async def test_what_waits_is_shown_and_too_much_is_refused(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(207))
    await stage.script("the first", "done with the first", hold="first")
    await bea.say("the first")
    await stage.asking("the first")
    for number in range(10):
        await bea.say(f"waiting {number}")
    await bea.say("one too many")
    assert "10 earlier messages" in await bea.hears("earlier messages")

    async def counted() -> Any:
        return [text for text in await bea.texts() if re.fullmatch(r"Waiting: \d+", text)]

    await until(counted, what="how many wait")
    await bea.say("/queue")
    listed = await bea.hears("Mode: queue")
    assert "waiting 9" in listed
    assert "one too many" not in listed
    await stage.release("first")
    await bea.hears("done with the first")

    async def answers() -> list[str]:
        return [text for text in await bea.texts() if text.startswith("echo") and "waiting 9" in text]

    (answer,) = await until(answers, what="the answer to what waited")
    assert "waiting 0\nwaiting 1\nwaiting 2" in answer  # quick texts were merged

    async def nothing_counted() -> bool:
        return not await counted()

    await until(nothing_counted, what="no status line")
    assert not await stage.asked("one too many")


@pytest.mark.requirement("B-66", "B-67")
async def test_queue_modes_drop_and_interrupt(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(208))
    await stage.script("slow one", "finished slowly", hold="slow one")
    await bea.say("/queue drop")
    await bea.hears("From now on: drop")
    await bea.say("slow one")
    await stage.asking("slow one")
    await bea.say("dropped one")
    await bea.hears("did not take “dropped one”")
    await stage.release("slow one")
    await bea.hears("finished slowly")
    assert not await stage.asked("dropped one")

    await bea.say("/queue interrupt")
    await bea.hears("From now on: interrupt")
    await stage.script("old question", " ".join(["the old answer"] * 100), hold="old", hold_after=9)
    await bea.say("old question")
    await stage.asking("old question")
    await bea.say("new question")
    await bea.hears("new question")
    assert (await stage.over("old question"))["client_closed"]


@pytest.mark.requirement("W-64")
async def test_undo_retry_new_and_sessions(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(209))
    await bea.say("first thing")
    await bea.hears("first thing")
    await bea.say("second thing")
    await bea.hears("second thing")
    await bea.say("/undo")
    assert "second thing" in await bea.hears("Taken back")
    await bea.say("third thing")
    await bea.hears("third thing")
    assert "second thing" not in dialogue((await stage.asked("third thing"))[0]["body"])
    await bea.say("/retry")

    async def twice() -> bool:
        return sum("third thing" in text for text in await bea.texts()) == 2

    await until(twice, what="the second answer")
    again = dialogue((await stage.asked("third thing"))[-1]["body"])
    assert again.count("third thing") == 1
    await bea.say("/new")
    await bea.hears("A new conversation")
    await bea.say("fourth thing")
    await bea.hears("fourth thing")
    assert "first thing" not in dialogue((await stage.asked("fourth thing"))[0]["body"])
    await bea.say("/sessions")
    await bea.hears("Conversations here")
    listed = (await bea.messages())[-1]
    back = [button for row in listed["reply_markup"]["inline_keyboard"] for button in row]
    await bea.press(listed["message_id"], back[0]["callback_data"])
    await bea.hears("Back in")
    await bea.say("fifth thing")
    await bea.hears("fifth thing")
    assert "first thing" in dialogue((await stage.asked("fifth thing"))[0]["body"])
    await bea.say("/sessions last")

    async def back_again() -> bool:
        return sum("Back in" in text for text in await bea.texts()) == 2

    await until(back_again, what="the session before")
    await bea.say("sixth thing")
    await bea.hears("sixth thing")
    last = dialogue((await stage.asked("sixth thing"))[0]["body"])
    assert "fourth thing" in last
    assert "first thing" not in last


@pytest.mark.requirement("G-08", "Z-145")
async def test_a_tool_is_shown_while_it_runs_and_not_afterwards(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(210))
    call = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
    rules = [
        {"match": {"contains": "six times", "tool_result": True}, "reply": {"text": "It is 42.", "hold": "six"}},
        {"match": {"contains": "six times"}, "reply": {"blocks": [{"type": "text", "text": "Let me see."}, call]}},
    ]
    await stage.doubles.llm.post("script", rules, append="1")
    await bea.say("what is six times seven")

    async def shown() -> Any:
        return [text for text in await bea.texts() if "calculate" in text]

    await until(shown, what="the status line")
    await stage.release("six")
    await bea.hears("It is 42.")

    async def gone() -> bool:
        return not await shown()

    await until(gone, what="no status line")
    assert "42" in str((await stage.asked("six times"))[-1]["body"]["messages"][-1])
    assert ANN["id"] != bea.user["id"]


async def test_a_reply_is_meant_for_the_bot_and_brings_what_it_answers(stage: Stage) -> None:
    bea, chat = OnTelegram(stage.doubles, somebody(211)), {**GROUP, "id": -1203}
    await bea.say("@double_bot hello there", chat=chat)
    await bea.hears("hello there", chat=-1203)
    (answer,) = await bea.messages(-1203)
    await bea.say("no mention in this", chat=chat, reply_to=answer["message_id"])
    await bea.hears("no mention in this", chat=-1203)

    claim = await bea.say("the moon is made of cheese", chat=chat)
    asked = await bea.say("@double_bot", chat=chat, reply_to=claim)  # "what do you say to that?"
    call = await stage.asking("cheese")
    assert '<quoted from="Bea (telegram:211)">\nthe moon is made of cheese\n</quoted>' in str(
        call["body"]["messages"][-1]["content"]
    )
    await bea.hears("cheese", chat=-1203)
    assert (await bea.messages(-1203))[-1]["reply_to_message"]["message_id"] == asked
    await bea.say("@double_bot is that so", chat=chat, reply_to=claim)
    await bea.hears("is that so", chat=-1203)
    await bea.say("/retry", chat=chat)

    async def again() -> bool:
        return len(await stage.asked("is that so")) == 2

    await until(again, what="the second question")
    assert "made of cheese" in str((await stage.asked("is that so"))[1]["body"]["messages"][-1])


@pytest.mark.requirement("G-08")
async def test_commands_in_a_row_leave_no_sign_of_waiting(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, somebody(212))
    for command in ("/export", "/undo", "/retry", "/sessions"):
        await bea.say(command)
    await bea.hears("no earlier conversations")

    async def only_answers() -> bool:
        return len(await bea.messages()) == 4 and not any("Waiting" in text for text in await bea.texts())

    await until(only_answers, what="four answers and nothing else")


async def test_people_are_told_in_their_language(stage: Stage) -> None:
    bea = OnTelegram(stage.doubles, {**somebody(213), "language_code": "de-AT"})
    await bea.say("/stop")
    await bea.hears("Es läuft nichts")
    await bea.say("/undo")
    await bea.hears("Es gibt nichts")
