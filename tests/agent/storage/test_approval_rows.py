"""Approvals, rules and the record of calls, on both databases: whoever comes second changes nothing."""

from dataclasses import replace
from functools import partial

import pytest

from agent.core.ids import ConversationId, PersonId, SessionId
from agent.storage import approval_rows, audit_rows
from agent.storage.approval_rows import Approval
from agent.storage.audit_rows import Record
from agent.storage.database import Database
from agent.tools.approvals import NOBODY_SPECIAL, Approvals
from agent.tools.settings import ApprovalSettings
from tests.fakes.clock import FakeClock

HERE, THERE = ConversationId("telegram:1"), ConversationId("telegram:2")
ONE = Approval(
    id="a",
    conversation=HERE,
    inbox_id=1,
    call_id="c",
    position=1,
    run="r",
    tool="shell",
    arguments="{}",
    digest="d",
    reason="",
    shown="ls",
    covers="ls",
    requester=PersonId("telegram:1"),
    language="en",
    chat_type="direct",
    created_at=10,
    expires_at=20,
)
CALL = Record(
    session=SessionId("s"),
    conversation=HERE,
    inbox_id=1,
    run="r",
    call="c",
    tool="shell",
    arguments="{}",
    verdict="ran",
    approval="a",
    person=None,
    result="ok",
    elapsed_ms=1,
    at=5,
)


@pytest.mark.requirement("G-01", "G-02")
async def test_an_approval_goes_through_its_states_once(database: Database) -> None:
    assert await database.write(lambda conn: approval_rows.ask(conn, ONE)) == ONE
    again = replace(ONE, id="b")
    assert (await database.write(lambda conn: approval_rows.ask(conn, again))).id == "a", "the same call is asked once"
    assert await database.read(lambda conn: approval_rows.pending(conn, HERE)) == (ONE,)
    assert await database.read(lambda conn: approval_rows.pending(conn, THERE)) == ()
    assert not await database.write(lambda conn: approval_rows.execute(conn, "a")), "nobody has approved it"
    assert await database.read(lambda conn: approval_rows.overdue(conn, 19)) == ()
    assert await database.read(lambda conn: approval_rows.overdue(conn, 20)) == ("a",)
    assert await database.write(lambda conn: approval_rows.decide(conn, "a", "approved", by="p", name="P", at=15))
    assert not await database.write(lambda conn: approval_rows.decide(conn, "a", "rejected", by="q", name="Q", at=16))
    found = await database.read(lambda conn: approval_rows.find(conn, "a"))
    assert found == replace(ONE, status="approved", decided_by="p", decided_name="P", decided_at=15)
    assert await database.write(lambda conn: approval_rows.execute(conn, "a"))
    assert not await database.write(lambda conn: approval_rows.execute(conn, "a")), "at most once"
    assert not await database.write(lambda conn: approval_rows.withdraw(conn, "a", at=17)), "it has begun"
    assert await database.read(lambda conn: approval_rows.executed_calls(conn, 1)) == {"c"}
    assert await database.read(lambda conn: approval_rows.unsettled(conn)) == ("a",)
    await database.write(lambda conn: approval_rows.settle(conn, "a", "77"))
    assert await database.read(lambda conn: approval_rows.unsettled(conn)) == ()


async def test_rules_belong_to_their_chat(database: Database) -> None:
    for _ in range(2):
        await database.write(
            lambda conn: approval_rows.allow(conn, HERE, tool="shell", covers="ls", shown="ls", by="p", at=1)
        )
    (rule,) = await database.read(lambda conn: approval_rows.rules(conn, HERE))
    assert await database.read(lambda conn: approval_rows.verdict(conn, HERE, "shell", "ls")) == "allow"
    assert await database.read(lambda conn: approval_rows.verdict(conn, HERE, "shell", "ls -a")) is None
    assert await database.read(lambda conn: approval_rows.verdict(conn, THERE, "shell", "ls")) is None
    assert not await database.write(lambda conn: approval_rows.revoke(conn, THERE, rule.id))
    assert await database.write(lambda conn: approval_rows.revoke(conn, HERE, rule.id))
    assert await database.read(lambda conn: approval_rows.verdict(conn, HERE, "shell", "ls")) is None


@pytest.mark.requirement("B-90")
async def test_the_record_is_only_added_to(database: Database) -> None:
    later = replace(CALL, call="d", tool="read", at=6)
    refused = replace(CALL, call="e", tool="nothing", verdict="refused")
    await database.write(lambda conn: audit_rows.add(conn, [CALL, later, refused]))
    await database.write(lambda conn: audit_rows.add(conn, [replace(CALL, result="changed")]))
    assert await database.read(lambda conn: audit_rows.newest(conn, conversation=HERE)) == (refused, later, CALL)
    assert await database.read(lambda conn: audit_rows.newest(conn, conversation=THERE)) == ()
    recent = await database.read(lambda conn: audit_rows.recent_tools(conn, HERE))
    assert list(recent.items()) == [("read", 1), ("shell", 1)], "the last used first, what never ran left out"
    last = await database.read(lambda conn: audit_rows.last_run(conn, HERE, ("shell", "nothing")))
    assert last == CALL


async def test_lists_of_all_conversations_come_by_pages(database: Database) -> None:
    asked = [
        replace(ONE, id=f"a{n}", inbox_id=n, conversation=(HERE, THERE)[n % 2], created_at=10 + n) for n in range(5)
    ]
    for one in asked:
        await database.write(partial(approval_rows.ask, one=one))
    for id, at in (("a1", 40), ("a4", 30)):
        await database.write(partial(approval_rows.decide, id=id, status="rejected", by="p", at=at))
    assert await database.read(approval_rows.count_pending) == 3
    page = await database.read(lambda conn: approval_rows.pending_page(conn, most=2, skip=1))
    assert [one.id for one in page] == ["a2", "a3"]
    assert [one.id for one in await database.read(lambda conn: approval_rows.decided(conn, most=9))] == ["a1", "a4"]
    assert [one.id for one in await database.read(lambda conn: approval_rows.decided(conn, most=1))] == ["a4"]
    for place in (HERE, THERE):
        await database.write(
            partial(approval_rows.rule_tool, conversation=place, tool="shell", effect="deny", by="p", at=5)
        )
    newest, oldest = await database.read(lambda conn: approval_rows.all_rules(conn, most=9))
    assert (newest.conversation, oldest.conversation) == (THERE, HERE)
    assert await database.read(lambda conn: approval_rows.all_rules(conn, most=1, skip=1)) == (oldest,)
    assert await database.read(lambda conn: approval_rows.find_rule(conn, newest.id)) == newest
    assert await database.read(lambda conn: approval_rows.find_rule(conn, 99)) is None


@pytest.mark.requirement("G-163")
async def test_what_another_process_asked_or_answered_is_seen_at_the_next_look(
    database: Database, clock: FakeClock
) -> None:
    here = Approvals(database, clock, ApprovalSettings)
    await database.write(lambda conn: approval_rows.ask(conn, ONE))
    question = replace(ONE, id="q", call_id="d", choices=("red", "blue"))
    await database.write(lambda conn: approval_rows.ask(conn, question))
    asker = PersonId("telegram:1")
    assert here.asks(HERE, asker, "blue") is None
    await here.look_again()
    assert here.asks(HERE, asker, "blue") == ("q", 1)
    assert here.ruled(HERE, asker, "yes", NOBODY_SPECIAL) == ("a", True)
    for id in ("a", "q"):
        await database.write(lambda conn, id=id: approval_rows.decide(conn, id, "rejected", at=15))  # type: ignore[misc]
    await here.look_again()
    assert here.asks(HERE, asker, "blue") is None, "else these words would be taken for an answer"
    assert here.ruled(HERE, asker, "yes", NOBODY_SPECIAL) is None
