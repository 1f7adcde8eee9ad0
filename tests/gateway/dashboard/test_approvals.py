"""Approvals on the dashboard: what waits, the words of operators and what they do in the chat, rules, decisions."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, update

from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import OutgoingMessage
from agent.storage import approval_rows, outbox_rows
from agent.storage.approval_rows import TAKES_WORDS, Approval
from agent.storage.tables import approval
from agent.storage.timestamps import to_timestamp
from agent.tools.approvals import prompt_key
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import Browsing, browsing
from tests.gateway.dashboard.looking import asked_as
from tests.gateway.world import BOB, GROUP, World, calling
from tests.scenarios.gateway.test_mcp_elicitation import connected, server, told

HOSTILE = "<script>alert(1)</script>"
CALL = {"type": "tool_use", "name": "write", "input": {"path": "a.txt", "content": HOSTILE}}
RULES: Sequence[Mapping[str, Any]] = (
    {"match": {"tool_result": True, "tool_result_contains": "was not run"}, "reply": {"text": "Then not."}},
    {"match": {"tool_result": True}, "reply": {"text": "It is written."}},
    {"match": {"contains": "note it"}, "reply": {"blocks": [CALL]}},
)


@pytest.fixture
async def world(world_of: Callable[..., World]) -> AsyncIterator[World]:
    """A gateway whose model writes a file when it is told to."""
    unstarted = world_of()
    unstarted.script(*RULES)
    async with unstarted.process() as world:
        yield world


async def open_one(owner: Browsing) -> Approval:
    """The call that waits, once it does and its buttons are on the screen."""

    async def pending() -> bool:
        return bool(await owner.world.database.read(approval_rows.pending))

    await until(pending)
    (one,) = await owner.world.database.read(approval_rows.pending)
    chat = one.conversation.partition(":")[2]
    await until(lambda: any(shown.actions for shown in owner.world.screen(chat).shown))
    return one


async def question(owner: Browsing, *choices: str) -> Approval:
    """A question that a tool asks Ann in her chat."""
    world = owner.world
    at = to_timestamp(world.clock.now())
    one = Approval(
        id="q1",
        conversation=ConversationId("telegram:77"),
        inbox_id=1,
        call_id="c1",
        position=1,
        run="r1",
        tool="mcp__fake__introduce",
        arguments=TAKES_WORDS,
        digest="d",
        reason="",
        shown=f"Which colour? {HOSTILE}",
        covers=None,
        requester=PersonId("telegram:77"),
        language="en",
        chat_type="direct",
        created_at=at,
        expires_at=at + 300_000_000,
        choices=choices,
    )
    say = OutgoingMessage(text="Which colour?", kind="notice")

    def ask(conn: Connection) -> None:
        approval_rows.ask(conn, one)
        key = prompt_key(one.id)
        outbox_rows.add(conn, conversation=one.conversation, inbox_id=None, part=0, dedup=key, say=say, at=at)

    await world.asks("hello")
    await world.database.write(ask)
    world.services.delivery.wake(world.said("").key)
    await world.shows("Which colour?")
    return one


@pytest.mark.requirement("G-83")
async def test_a_call_is_allowed_once_and_the_chat_shows_it(owner: Browsing) -> None:
    world = owner.world
    assert "Nothing waits for a person." in await owner.page("/approvals")
    await world.say("note it")
    one = await open_one(owner)
    for path in ("/", "/conversations", "/conversations/telegram%3A77", "/delivery?box=waiting"):
        page = await owner.page(path)
        assert "waits for a person</span>" in page, path
        assert ">answering<" not in page, path
    page = await owner.page("/approvals")
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "Person 77" in page
    assert '<span class="badge">1<span class="unseen"> waiting</span></span>' in page
    assert await owner.act(f"/approvals/{one.id}/allow") == "write is allowed for Person 77 (telegram:77)."
    await world.shows("It is written.")
    await until(lambda: not any(shown.actions for shown in world.screen().shown))
    assert any("Approved by " in text for text in world.texts())
    decided = await world.database.read(lambda conn: approval_rows.find(conn, one.id))
    assert decided is not None
    assert (decided.status, decided.decided_by) == ("executed", "web:operator")
    (kept,) = [act for act in await owner.actions() if act.action == "approvals.decide"]
    assert (kept.subject, kept.detail) == ("telegram:77", f"allow write ({one.id})")
    refused = await owner.post(f"/approvals/{one.id}/deny")
    assert refused.status_code == 409
    assert "has approved this already." in refused.json()["error"]
    page = await owner.page("/approvals")
    assert "Nothing waits for a person." in page
    assert "Decided lately" in page
    assert ">allowed<" in page.replace(" <", "<")
    assert HOSTILE not in page


@pytest.mark.requirement("G-83")
async def test_whoever_answers_in_the_chat_first_is_named(owner: Browsing) -> None:
    world = owner.world
    await world.say("note it")
    one = await open_one(owner)
    await world.press(f"a:{one.id}:n")
    refused = await owner.post(f"/approvals/{one.id}/always")
    assert refused.json() == {"error": "Person 77 has denied this already."}
    await world.shows("Then not.")
    assert await world.database.read(lambda conn: approval_rows.all_rules(conn, most=9)) == ()


@pytest.mark.requirement("G-83")
async def test_a_call_of_a_group_is_denied_by_an_operator(owner: Browsing) -> None:
    world = owner.world
    await world.say("note it", person=BOB, chat=GROUP)
    one = await open_one(owner)
    assert await owner.act(f"/approvals/{one.id}/deny") == "write is denied for Person 78 (telegram:78)."
    await world.shows("Then not.", GROUP)
    await until(lambda: any("Denied by" in text for text in world.texts(GROUP)))


@pytest.mark.requirement("G-03", "G-83")
async def test_who_asked_is_barred_on_the_dashboard_as_well(owner: Browsing) -> None:
    world = owner.world
    world.config = "[approvals]\nrequester = false\napprovers = ['telegram:78']\n"
    world.reload()
    await world.say("note it")
    one = await open_one(owner)
    own = PersonId("web:operator")

    def hand_over(conn: Connection) -> None:
        conn.execute(update(approval).where(approval.c.id == one.id).values(requester=own))

    await world.database.write(hand_over)
    refused = await owner.post(f"/approvals/{one.id}/allow")
    assert "who asked does not decide" in refused.json()["error"]


@pytest.mark.requirement("G-84")
async def test_a_rule_for_good_is_made_listed_and_revoked(owner: Browsing) -> None:
    world = owner.world
    assert "There are none." in await owner.page("/approvals")
    await world.say("note it")
    one = await open_one(owner)
    assert "files below /workspace" in await owner.page("/approvals")
    assert await owner.act(f"/approvals/{one.id}/always") == "write is allowed for Person 77 (telegram:77) from now on."
    await world.shows("It is written.")
    await world.settled()
    await world.answered("note it once more", "It is written.")
    assert await world.database.read(approval_rows.count_pending) == 0
    (rule,) = await world.database.read(lambda conn: approval_rows.all_rules(conn, most=9))
    page = await owner.page("/approvals")
    assert "always allowed" in page
    assert f"/approvals/rules/{rule.id}/revoke" in page
    assert await owner.act(f"/approvals/rules/{rule.id}/revoke") == "The rule about write is taken back."
    again = await owner.post(f"/approvals/rules/{rule.id}/revoke")
    assert again.json() == {"error": "This rule was taken back already."}
    await world.say("note it a third time")
    await open_one(owner)


async def test_a_hundred_open_calls_are_paged_and_searched_by_tool_place_and_person(owner: Browsing) -> None:
    world = owner.world
    one = await question(owner, "red", "blue")

    def ask(conn: Connection) -> None:
        for number in range(120):
            other = ConversationId(f"telegram:{1_000 + number}")
            tool = "shell" if number else "write"
            call = replace(one, id=f"n{number}", call_id=f"n{number}", conversation=other, tool=tool)
            call = replace(call, choices=(), arguments="{}", requester=PersonId(f"telegram:{2_000 + number}"))
            approval_rows.ask(conn, replace(call, created_at=one.created_at + number))
            approval_rows.rule_tool(conn, other, "read", "deny", by=f"telegram:{3_000 + number}", at=number)

    await world.database.write(ask)
    first, last = await owner.page("/approvals"), await owner.page("/approvals?page=3")
    assert (first.count('class="said asked"'), last.count('class="said asked"')) == (50, 21)
    assert 'href="?page=2"' in first
    assert 'href="?rules=2"' in first
    assert "telegram:3119" in first, "rules are paged by themselves"
    assert "telegram:3119" not in await owner.page("/approvals?rules=2")
    for words, found in (("introduce", "q1"), ("telegram:1119", "n119"), ("TELEGRAM:2007", "n7"), ("write", "n0")):
        page = await owner.page(f"/approvals?find={words}")
        assert (page.count('class="said asked"'), f'id="a{found}"' in page) == (1, True)
    page = await owner.page("/approvals?find=telegram:3100")
    assert "No open call or question matches." in page
    assert page.count("Revoke<") == 1
    assert "No rule matches." in await owner.page("/approvals?find=nothing+of+that+kind")


@pytest.mark.requirement("G-83")
async def test_a_question_is_answered_by_a_choice_or_in_words(owner: Browsing) -> None:
    world = owner.world
    one = await question(owner, "red", "blue")
    page = await owner.page("/approvals")
    assert HOSTILE not in page
    assert "asks a question" in page
    assert ">blue<" in page
    empty = await owner.post(f"/approvals/{one.id}/words", words="  ")
    assert empty.json() == {"error": "The answer is empty."}
    assert (await owner.post(f"/approvals/{one.id}/allow")).status_code == 409
    assert (await owner.post(f"/approvals/{one.id}/answer/7")).json() == {"error": "This question has other answers."}
    answers: list[str | None] = []

    async def wait() -> None:
        answers.append((await world.services.approvals.decided(one.id)).answer)

    async with running(wait):
        assert await owner.act(f"/approvals/{one.id}/words", words="green") == "Answered: green"
        await until(lambda: answers == ["green"])
    await world.shows("Answered: green")
    late = await owner.post(f"/approvals/{one.id}/answer/1")
    assert "has answered this question already" in late.json()["error"]


@pytest.mark.slow  # a server is started
@pytest.mark.requirement("G-83")
async def test_a_form_of_an_mcp_server_is_filled_in(world_of: Callable[..., World]) -> None:
    async with world_of(config=server()).process() as world, browsing(world) as owner:
        await connected(world)
        world.script(*calling("introduce me", "mcp__fake__introduce"))
        await world.say("introduce me")
        await world.shows("1 of 3: Your name")
        one = await open_one(owner)
        await owner.act(f"/approvals/{one.id}/words", words="Ann")
        await world.shows("2 of 3: Your age")
        one = await open_one(owner)
        await owner.act(f"/approvals/{one.id}/words", words="7")
        await world.shows("3 of 3: Your colour")
        one = await open_one(owner)
        await owner.act(f"/approvals/{one.id}/answer/{one.choices.index('blue')}")
        await world.shows("Done: introduce me")
        assert "accept: name='Ann' age=7 colour='blue'" in told(world)


@pytest.mark.requirement("G-83", "G-84")
async def test_who_may_only_look_sees_tool_and_place(owner: Browsing) -> None:
    world = owner.world
    await world.say("note it")
    one = await open_one(owner)
    page = (await asked_as(world, "/approvals", "view")).text
    assert "write" in page
    assert "Person 77" in page
    assert "alert(1)" not in page
    assert "/allow" not in page
    refused = await asked_as(world, f"/approvals/{one.id}/allow", "view", "transcripts", post=True)
    assert refused.status_code == 403
    assert "alert(1)" in (await asked_as(world, "/approvals", "view", "operate")).text
    assert "alert(1)" not in (await asked_as(world, "/", "view")).text
    assert "alert(1)" in (await asked_as(world, "/", "view", "operate")).text
    await owner.act(f"/approvals/{one.id}/deny")
    past = (await asked_as(world, "/approvals", "view", "operate")).text
    assert "denied" in past
    assert "alert(1)" not in past, "the calls of the past are words of others"
    assert [act.action for act in await owner.actions()] == ["approvals.decide"]
    await asked_as(world, "/approvals", "view", "transcripts")
    assert [act.action for act in await owner.actions()][-1] == "approvals.read"


async def test_what_is_not_there_is_said(owner: Browsing) -> None:
    missing = await owner.post("/approvals/none/allow")
    assert (missing.status_code, missing.json()) == (404, {"error": "Nothing of this name is asked any more."})
    assert (await owner.post("/approvals/none/burn")).status_code == 404


@pytest.mark.parametrize("is_kept", [True, False], ids=["with its trace", "without one"])
async def test_a_decision_leads_to_a_trace_that_there_is(world_of: Callable[..., World], is_kept: bool) -> None:
    unstarted = world_of(config=f"[traces]\nenabled = {str(is_kept).lower()}\n")
    unstarted.script(*RULES)
    async with unstarted.process() as world, browsing(world) as owner:
        await world.say("note it")
        one = await open_one(owner)
        await owner.act(f"/approvals/{one.id}/deny")
        await world.shows("Then not.")
        await world.settled()
        await world.services.traces.flush()
        page = await owner.page("/approvals")
        assert "denied" in page
        assert ('href="/turns/' in page) == is_kept


async def test_a_denied_call_is_told_as_denied_in_the_trace_of_its_turn(owner: Browsing) -> None:
    world = owner.world
    await world.say("note it")
    one = await open_one(owner)
    await owner.act(f"/approvals/{one.id}/deny")
    await world.shows("Then not.")
    await world.settled()
    await world.services.traces.flush()
    page = await owner.page(f"/turns/{one.run}")
    assert "Denied: <strong>write</strong>" in page
    assert "Used a tool" not in page
    assert " characters" not in page


async def test_who_may_only_look_is_not_sent_to_decide(owner: Browsing) -> None:
    await owner.world.say("note it")
    one = await open_one(owner)
    assert "Decided <a" in await owner.page("/")
    page = (await asked_as(owner.world, "/", "view")).text
    assert "Waiting for a person" in page
    assert "Decided <a" not in page
    assert "who has the right “operate” decides them" in page
    await owner.act(f"/approvals/{one.id}/deny")
