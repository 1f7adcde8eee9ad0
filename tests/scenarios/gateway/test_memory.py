"""Facts of one chat come back in another session, never in another audience, and are erased on demand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Insert, insert, text

from agent.core.ids import ConversationId, CostAttribution
from agent.core.outbox import FileRef, OutgoingMessage, SpokenText
from agent.memory.notes import path_of
from agent.storage.payloads import encode_outgoing
from agent.storage.tables import approval, approval_rule, goal, outbox, tool_call
from gateway.commands.kept.memory import PAGE
from gateway.storage.repair import SCHEMA
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World, calling

DAY_S = 86_400.0
SECRET = "HAT-QXZJV"  # letters: digits turn up by chance, in moments and ids
TOLD = f"Please keep in mind that my locker code is {SECRET}, I use it at the gym."
ASKED = "Which locker code do I use at the gym?"


def keeps(fact: str, when: str) -> Sequence[dict[str, Any]]:
    """The model calls `remember` when it is told so, and then says that it did."""
    call = {"type": "tool_use", "name": "remember", "input": {"fact": fact}}
    return (
        {"match": {"contains": when, "tool_result": False}, "reply": {"blocks": [call]}},
        {"match": {"contains": when, "tool_result": True}, "reply": {"text": "I will keep that."}},
    )


def sent(world: World, words: str) -> str:
    """The newest request that holds these words, as it went out."""
    return next(
        written
        for body in reversed(world.llm.bodies)
        if words in (written := json.dumps(body["messages"], ensure_ascii=False))
    )


HERE = ConversationId("telegram:77")


def traces_of(words: str, file: str) -> list[Insert]:
    """Rows in which work can leave words behind: one of each kind, of Ann's own chat."""
    there: dict[str, Any] = {"conv": "telegram:77", "created_at": 1}
    asked = {"inbox_id": 1, "call_id": "c", "run_id": "r", "tool": "shell", "arguments": f'{{"text":"{words}"}}'}
    question = {"position": 1, "digest": "d", "language": "en", "chat_type": "direct", "expires_at": 2, "id": "q"}
    settled = question | {"reason": words, "shown": words, "covers": words, "status": "executed"}
    of_another_run = {"id": "c", "inbox_id": 999, "arguments": "{}"}
    choice = question | of_another_run | {"reason": "", "shown": "?", "status": "answered"}
    worked = {"text": "a goal", "status": "completed", "auto_state": "completed", "updated_at": 1}
    auto = json.dumps({"state": "completed", "most": 5, "said": words, "recent": [words], "verdict": words})
    return [
        insert(tool_call).values(**there, **asked, verdict="ran", result=words, elapsed_ms=1),
        insert(approval).values(**there, **asked, **settled),
        insert(approval).values(**there, **(asked | choice), choices=json.dumps([f"{words} é"]), answer="1"),
        insert(approval_rule).values(**there, tool="shell", covers=words, shown=words, created_by="telegram:77"),
        insert(goal).values(**there, **worked, auto=auto),
        insert(outbox).values(
            **there, dedup="sent", status="sent",
            payload=encode_outgoing(
                OutgoingMessage(
                    text="Here.", kind="reply", files=(FileRef(path=file, name="a.txt", mime_type="text/plain"),)
                )
            ),
        ),
        insert(outbox).values(
            **there, dedup="spoken", status="sent",
            payload=encode_outgoing(OutgoingMessage(text="", kind="reply", spoken=spoken_of(words))),
        ),
    ]  # fmt: skip


def spoken_of(words: str) -> SpokenText:
    """These words, as an answer that was read out."""
    return SpokenText(text=words, key="r", payer=CostAttribution(purpose="speech", conversation=HERE))


def bytes_of(home: Path) -> bytes:
    """All of the database's files."""
    return b"".join(path.read_bytes() for path in sorted(home.glob("tieline.db*")))


@pytest.mark.requirement("W-10", "W-11", "W-68", "Z-15", "G-25")
async def test_a_fact_of_monday_answers_on_friday_and_never_in_a_group(world: World) -> None:
    world.script(*keeps(f"Ann's locker code at the gym is {SECRET}.", TOLD))
    await world.answered(TOLD, "I will keep that.")
    world.script()
    await world.asks("/new")
    world.clock.ahead_s += 4 * DAY_S

    world.script({"match": {"contains": ASKED}, "reply": {"text": "The one you told me."}})
    await world.answered(ASKED, "The one you told me.")
    friday = sent(world, ASKED)
    block = friday[friday.index("<memory>") : friday.index("</memory>")]
    assert "[known facts]" in block
    assert block.index("[known facts]") < block.index("[semantic recall]"), "in fixed order"
    assert f"Ann's locker code at the gym is {SECRET}." in block
    assert friday.index("</memory>") < friday.rindex("<reminder>"), "data stands before the house's own words"
    assert ASKED in friday.split("</reminder>")[-1]

    await world.answered("And what else was there about the gym code?")
    later = sent(world, "what else was there")
    assert "[known facts]" not in later, "only a session's first words bring facts"
    assert SECRET not in later[: later.rindex("<memory>")], "what was recalled before is not stored"

    world.script()
    await world.answered("@bot " + ASKED, "@bot", chat=GROUP)
    assert SECRET not in sent(world, "@bot")
    await world.answered("which locker code does she use at the gym, do you know", "which locker", person=BOB)
    assert SECRET not in sent(world, "does she use")


@pytest.mark.requirement("W-68")
async def test_the_model_finds_what_was_said_in_an_earlier_session(world: World) -> None:
    await world.answered(f"The ferry to the island goes at {SECRET} o'clock.")
    await world.asks("/new")
    world.script(*calling("when does it leave", "session_search", query="ferry island"))
    await world.answered("when does it leave", "Done: when does it leave")
    result = [one["content"] for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"][-1]
    assert f"goes at {SECRET} o'clock" in result
    await world.asks("/new")
    await world.answered("when does it leave", "Done: when does it leave", person=BOB)
    result = [one["content"] for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"][-1]
    assert SECRET not in result, "what somebody else was told"


@pytest.mark.requirement("G-25")
async def test_notes_of_a_chat_are_read_there_alone(world: World) -> None:
    for place in (GROUP, ANN):
        file = path_of(world.home, ConversationId(f"telegram:{place}"))
        file.parent.mkdir(parents=True)
        file.write_text(f"- the key of {place} hangs by the door\n")
    for place, other in ((ANN, GROUP), (GROUP, ANN)):
        await world.answered(f"@bot what do you know in {place}?", chat=place)
        request = json.dumps(world.llm.bodies[-1]["messages"])
        assert f"the key of {place} " in request
        assert f"the key of {other} " not in request


async def test_what_a_group_said_stays_there(world: World) -> None:
    await world.answered("we meet at the Blue Heron café on Thursdays", chat=GROUP)
    await world.asks("/new", chat=GROUP)
    await world.answered("which café do we meet at on Thursdays?", chat=GROUP)
    assert "Blue Heron" in sent(world, "which café")
    await world.answered("tell me: which café was it on Thursdays?")
    assert "Blue Heron" not in sent(world, "tell me: which")


async def test_the_way_to_the_other_facts_stands_apart_from_the_list(world: World) -> None:
    for number in range(PAGE + 1):
        await world.asks(f"/memory add Shelf {number} holds box{number}", "Kept as fact")
    assert "\n\n… more: /memory list 2\n\n" in await world.asks("/memory", "/memory list 2")


async def test_people_see_and_take_back_what_is_kept(world: World) -> None:
    for verb in ("search", "add", "forget"):
        assert await world.asks(f"/memory {verb}", f": /memory {verb} ")
    added = await world.asks("/memory add My sister Ida lives in Oslo", "Kept as fact")
    number = added.split("#")[1].rstrip(".")
    listed = await world.asks("/memory", "Ida lives in Oslo")
    assert f"#{number}" in listed
    assert "Facts: 1." in listed
    assert "Oslo" in await world.asks("/memory search Oslo", "Oslo")
    await world.hears(world.said(f"/memory forget {number}"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("no"))
    await world.shows("Nothing was forgotten.")
    await world.hears(world.said(f"/memory forget {number}", id="second"))
    await until(lambda: world.texts()[-1].startswith("Forget this for good?"))
    await world.hears(world.said("yes"))
    await world.shows("Forgotten. Things I had kept: 1.")
    assert "No facts yet." in await world.asks("/memory list", "No facts yet.")


async def forgets(world: World, what: str, **where: Any) -> None:
    """Have something forgotten, and say yes."""
    chat = where.get("chat", "77")
    await world.hears(world.said(f"/memory forget {what}", **where))
    await world.shows("Forget this for good?", chat)
    await world.hears(world.said("yes", **where))
    await world.shows("Forgotten.", chat)


async def test_what_is_forgotten_leaves_the_windows_of_other_topics(world: World) -> None:
    """The agents that are awake: at rest, or in the middle of a turn."""
    at_rest, at_work = f"{GROUP}:7", f"{GROUP}:8"
    for topic in (at_rest, at_work):
        await world.answered(f"in {topic} the locker code is {SECRET}", "locker code", chat=topic)
    call = {"type": "tool_use", "name": "current_time", "input": {}}
    world.script(
        {"match": {"contains": "how late is it", "tool_result": False}, "reply": {"blocks": [call], "hold": "work"}},
        {"match": {"contains": "how late is it", "tool_result": True}, "reply": {"text": "It is late."}},
    )
    await world.hears(world.said("how late is it", chat=at_work))
    await world.until_asked(3)
    assert SECRET in sent(world, "how late is it")
    await forgets(world, SECRET, chat=GROUP)
    await until(lambda: f"telegram:{at_rest}" not in world.services.conversations.awake)
    world.llm.release("work")
    await world.shows("It is late.", at_work)
    assert SECRET not in sent(world, "how late is it"), "the next request of the same turn"
    world.script()
    for topic in (at_rest, at_work):
        await world.answered(f"and now in {topic}?", "and now", chat=topic)
        assert SECRET not in sent(world, f"and now in {topic}?")


async def test_what_the_agent_forgets_is_recalled_nowhere_in_the_middle_of_a_turn(world: World) -> None:
    call = {"type": "tool_use", "name": "current_time", "input": {}}
    await world.asks(f"/memory add The locker code at the gym is {SECRET}.", "Kept as fact #1", chat=GROUP)
    world.script(
        {"match": {"contains": ASKED, "tool_result": False}, "reply": {"blocks": [call], "hold": "work"}},
        {"match": {"contains": ASKED, "tool_result": True}, "reply": {"text": "Let me see."}},
        *calling("drop it", "forget", fact=1),
    )
    await world.hears(world.said(ASKED, chat=f"{GROUP}:7"))
    await world.until_asked(1)
    assert SECRET in sent(world, ASKED)
    await world.asks("drop it", "Done: drop it", chat=GROUP)
    world.llm.release("work")
    await world.shows("Let me see.", f"{GROUP}:7")
    assert SECRET not in sent(world, ASKED)


async def test_a_members_turn_takes_nothing_of_others_from_the_memory(world: World) -> None:
    """The agent does not do for people what `/memory forget` refuses them."""
    added = await world.asks("/memory add the deploy key is under the doormat", "Kept as fact", chat=GROUP)
    anns = int(added.split("#")[1].rstrip("."))
    added = await world.asks("/memory add the spare key is at the florist", "Kept as fact", chat=GROUP, person=BOB)
    bobs = int(added.split("#")[1].rstrip("."))
    notes = world.home / "memory" / "telegram%3A-1005" / "MEMORY.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("- agreed: no key under the doormat\n")
    world.script(
        *calling("drop hers", "forget", fact=anns),
        *calling("mine is better", "remember", fact="The deploy key is with Bob.", replaces=anns),
        *calling("notes anew", "write_notes", text="bob decides", replace=True),
        *calling("notes and more", "write_notes", text="bob was here"),
        *calling("drop my own", "forget", fact=bobs),
        *calling("admin drops it", "forget", fact=anns),
    )
    for words in ("drop hers", "mine is better", "notes anew"):
        await world.answered(words, f"Done: {words}", chat=GROUP, person=BOB)
        assert "admin" in json.dumps(world.llm.bodies[-1]["messages"][-1])
    for words in ("notes and more", "drop my own"):
        await world.answered(words, f"Done: {words}", chat=GROUP, person=BOB)
    listed = await world.asks("/memory list", "doormat", chat=GROUP)
    assert "florist" not in listed
    assert "Bob." not in listed
    assert notes.read_text() == "- agreed: no key under the doormat\nbob was here\n"
    await world.answered("admin drops it", "Done: admin drops it", chat=GROUP)
    assert "No facts yet." in await world.asks("/memory list", "No facts yet.", chat=GROUP)


@pytest.mark.parametrize("what", [pytest.param(SECRET.lower(), id="the words"), pytest.param("all", id="everything")])
async def test_what_is_forgotten_leaves_no_byte(world: World, what: str) -> None:
    world.script(*keeps(f"Ann's locker code at the gym is {SECRET}.", TOLD))
    await world.answered(TOLD, "I will keep that.")
    world.script()
    await world.answered("I also like herons.", "herons")
    await world.asks("/new")
    await world.answered(ASKED)
    notes = world.home / "memory" / "telegram%3A77" / "MEMORY.md"
    notes.parent.mkdir(parents=True)
    notes.write_text(f"- code: {SECRET}\n- likes herons\n")
    await world.answered("hello there, how are the herons?", "herons?")
    given = world.home / "files" / "sent" / "a.txt"
    received = world.home / "workspaces" / "telegram%3A77" / "received" / "1" / "b.txt"
    own_work = received.parent.parent.parent / "work.txt"
    sound = world.home / spoken_of("").folder / "spoken.ogg"
    for file in (given, received, own_work, sound):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"the code is {SECRET}")
    for row in traces_of(f"the locker code {SECRET}", "files/sent/a.txt"):
        await world.database.write(lambda conn, row=row: conn.execute(row))  # type: ignore[misc]
    assert SECRET.encode() in bytes_of(world.home)

    await world.hears(world.said(f"/memory forget {what}"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    await world.shows("Forgotten.")
    await world.settled()
    await world.services.upkeep.tidy()
    assert SECRET.lower().encode() not in bytes_of(world.home).lower()
    for word in (b"qxzjv", b"locker") if what == "all" else (b"qxzjv",):
        assert word not in bytes_of(world.home).lower()
    kept = "".join(path.read_text() for path in notes.parent.rglob("*.md"))
    assert SECRET not in kept
    assert ("herons" in kept) is (what != "all")
    assert not given.exists()
    assert not received.exists()
    assert not sound.exists()
    assert own_work.exists(), "what the agent has made is not what was said"
    await world.answered(ASKED + " Again?", "Again?")
    assert SECRET not in sent(world, "Again?")


@pytest.mark.parametrize("what", [pytest.param(SECRET.lower(), id="the words"), pytest.param("all", id="everything")])
async def test_a_link_in_the_place_of_received_files_is_told_and_leads_nowhere(world: World, what: str) -> None:
    """A command in the sandbox may have done `rm -rf received; ln -s ../.. received`."""
    await world.answered(f"the code is {SECRET}", "code is")
    workspace = world.home / "workspaces" / "telegram%3A77"
    others = world.home / "workspaces" / "telegram%3A88" / "received" / "1" / "theirs.txt"
    others.parent.mkdir(parents=True)
    others.write_text(f"the code is {SECRET}")
    workspace.mkdir(parents=True)
    (workspace / "received").symlink_to("../..")

    await world.hears(world.said(f"/memory forget {what}"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    said = await world.shows("could not be removed or looked through: 1 files or folders")
    assert "workspaces/telegram%3A77/received" in said
    assert others.exists()
    assert (world.home / "tieline.db").exists()
    assert not (workspace / "received").is_symlink()


async def test_off_keeps_and_shows_nothing(world: World) -> None:
    await world.asks("/memory off", "The memory is off here")
    await world.answered("my favourite plover is the ringed plover")
    await world.asks("/new")
    await world.answered("what is my favourite plover?")
    asked = sent(world, "what is my favourite plover?")
    assert "ringed" not in asked
    assert "remember" not in {tool["function"]["name"] for tool in world.llm.bodies[-1]["tools"]}
    await world.asks("/memory on", "The memory is on here")
    await world.answered("my favourite heron is the night heron")
    await world.asks("/new")
    await world.answered("what is my favourite heron?")
    assert "night heron" in sent(world, "what is my favourite heron?")


async def test_in_a_group_nobody_erases_the_words_of_others(world: World) -> None:
    await world.answered("the deploy key is under the doormat", chat=GROUP)
    await world.answered("my own umbrella is under the doormat too", chat=GROUP, person=BOB)
    await world.hears(world.said("/memory forget doormat", chat=GROUP, person=BOB))
    await world.shows("Forget this for good?", GROUP)
    await world.hears(world.said("yes", chat=GROUP, person=BOB))
    await world.shows("Forgotten.", GROUP)
    await world.settled()
    held = await world.database.read(lambda conn: conn.execute(text("SELECT text FROM memory")).scalars().all())
    assert any("deploy key" in one for one in held)
    assert not any("umbrella" in one for one in held)


async def test_in_a_group_a_member_is_told_whose_it_is_that_they_may_not_erase(world: World) -> None:
    added = await world.asks("/memory add the cherry tree is mine", "Kept as fact", chat=GROUP)
    number = added.split("#")[1].rstrip(".")
    of_ann = await world.asks("/memory add the plum tree is mine", "Kept as fact")
    for what in ("cherry", number, f"#{number}"):
        said = await world.asks(f"/memory forget {what}", "an admin, may", chat=GROUP, person=BOB)
        assert "Person 77" in said
    for elsewhere in ("plum", of_ann.split("#")[1].rstrip("."), "walnut", "99999"):
        assert await world.asks(f"/memory forget {elsewhere}", "nothing like that", chat=GROUP, person=BOB)


@pytest.mark.requirement("B-50")
async def test_a_memory_that_fails_costs_no_turn(world: World) -> None:
    def ruin(conn: Any) -> None:
        conn.execute(text("DROP TABLE memory_fts"))

    await world.database.write(ruin)
    assert await world.answered("what is said now cannot be kept", "cannot be kept")
    assert await world.answered("and nothing can be looked up either", "looked up")
    said = await world.database.read(lambda conn: conn.execute(text("SELECT count(*) FROM message")).scalar_one())
    assert said == 4, "the transcript has both turns"
    assert not any("memory" in one.lower() for one in world.texts())


REACHED = """
    memory memory_vector entity relation user_model skill_outcomes message passage cleared_result guideline session
    session_goal goal inbox outbox turn tool_call approval approval_rule plan task evolved_prompts skill_text feedback
    group_message turn_trace log_entry event_delivery file file_content file_part kept_file
"""
NO_WORDS = """
    conversation ephemeral usage budget_grant memory_place memory_erasure memory_backlog memory_session
    memory_unindexed memory_use access_grant usage_hold budget_warning
    pairing pairing_attempt person_zone schedule_run skill_arm skill_trust
    adapter_store model_fact model_list key_rest identity link_code group_stream ambient_turn operator_action
    figures_hour log_level usage_sum
    web_person web_session web_code web_attempt web_key alert api_key event_switched_off file_folder
    process process_claim conversation_host conversation_outlet provider_circuit rate_bucket mcp_state
"""  # ids, numbers and choices
# /schedules delete, /settings instructions default, a conversation that is removed from the page of the web chat
NAMED_IN_THE_DOCS = "schedule channel_setting setting_change adapter_line arrival process_word"


def test_of_every_table_it_is_known_whether_forgetting_reaches_it() -> None:
    known = " ".join((REACHED, NO_WORDS, NAMED_IN_THE_DOCS)).split()
    assert sorted(known) == sorted(table.name for table in SCHEMA.metadata.sorted_tables), (
        "a new table: if it can hold what people said, agent.memory.erasure_rows must reach it"
    )


@pytest.mark.requirement("Z-15")
async def test_what_was_undone_helps_to_find_nothing(world: World) -> None:
    await world.answered("good morning to the whole crew of the ferry", "whole crew")
    await world.answered("the spare key lies under the night heron", "night heron")
    await world.asks("/undo")
    await world.asks("/new")
    await world.answered("which night heron was it again?", "again")
    assert "<memory>" not in sent(world, "which night heron")
    await world.answered("what about the crew of the ferry?", "what about")
    assert "<memory>" in sent(world, "what about the crew"), "what was not taken back is there"
