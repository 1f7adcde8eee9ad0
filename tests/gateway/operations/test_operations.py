"""Operations of an operator from a second shell, on a real database."""

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.ledger import rows
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.access.policy import WRONG_TRIES, Role
from gateway.router.messages import incoming_from
from gateway.web.control import OperationError
from tests.agent.ledger.test_sums import call
from tests.agent.ledger.world import attribution
from tests.fakes.waiting import until
from tests.gateway.world import GROUP, ZOE, World

CHAT = ConversationId("telegram:77")
CODE = re.compile(r"code is (\w{8})")


async def do(world: World, operation: str, **arguments: Any) -> Any:
    return await world.services.operations.table()[operation](arguments)


async def refused(world: World, operation: str, **arguments: Any) -> tuple[str, str]:
    """The refusal's text, and its fix."""
    with pytest.raises(OperationError) as caught:
        await do(world, operation, **arguments)
    return str(caught.value), caught.value.fix


class TestPairing:
    async def asked(self, world: World, person: str = ZOE) -> str:
        await world.say("hello?", person=person)
        await world.shows("pairing code", person)
        found = CODE.search(world.texts(person)[-1])
        assert found
        return found[1]

    async def test_a_code_lets_in_once_and_the_person_is_told(self, world: World) -> None:
        code = await self.asked(world)
        (request,) = await do(world, "pair.list")
        assert (request["person"], request["display"], request["channel"]) == ("telegram:99", "Person 99", "telegram")
        assert 590 < request["seconds_left"] <= 600
        assert code not in json.dumps(request), "the code itself only the person has"
        spaced = f" {code[:4].lower()}-{code[4:]} "
        answer = await do(world, "pair.approve", code=spaced)
        assert (answer["person"], answer["display"], answer["role"]) == ("telegram:99", "Person 99", "member")
        await world.shows("You are in", ZOE)
        assert (await world.say("hello", person=ZOE)).outcome == "accepted"
        assert await do(world, "pair.list") == []
        assert "no open pairing" in (await refused(world, "pair.approve", code=code))[0]

    async def test_the_number_of_the_list_will_do(self, world: World) -> None:
        await self.asked(world, "98")
        await self.asked(world, ZOE)
        first, second = await do(world, "pair.list")
        assert (await do(world, "pair.approve", code=second["id"]))["person"] == "telegram:99"
        assert (await do(world, "pair.deny", code=first["id"]))["person"] == "telegram:98"
        with pytest.raises(KeyError):
            await world.services.overview.decide_pairing("1", approve=True)

    async def test_the_page_decides_by_number_too(self, world: World) -> None:
        await self.asked(world)
        (pairing,) = (await world.services.overview.overview()).pairings
        assert await world.services.overview.decide_pairing(pairing.code, approve=True) == "Person 99 is let in."

    async def test_who_is_turned_away_is_not_told_and_stays_out(self, world: World) -> None:
        code = await self.asked(world)
        await do(world, "pair.deny", code=code)
        await world.settled()
        assert len(world.texts(ZOE)) == 1
        assert (await world.say("hello", person=ZOE)).reason == "not paired yet"

    async def test_it_is_remembered_over_a_restart(self, world_of: Callable[..., World]) -> None:
        world = world_of()
        async with world.process():
            await do(world, "pair.approve", code=await self.asked(world))
        async with world.process():
            assert (await world.say("hello", person=ZOE)).outcome == "accepted"

    async def test_guessing_codes_ends_soon_and_numbers_still_work(self, world: World) -> None:
        code = await self.asked(world)
        for _ in range(WRONG_TRIES):
            assert "no open pairing" in (await refused(world, "pair.approve", code="AAAA2222"))[0]
        said, fix = await refused(world, "pair.approve", code=code)
        assert "too many wrong codes" in said
        assert "wait an hour" in fix
        (request,) = await do(world, "pair.list")
        assert "no open pairing" in (await refused(world, "pair.approve", code="4711"))[0]
        await do(world, "pair.approve", code=request["id"])

    async def test_after_an_hour_codes_work_again(self, world: World) -> None:
        for _ in range(WRONG_TRIES):
            await refused(world, "pair.approve", code="AAAA2222")
        world.clock.ahead_s += 3601
        await do(world, "pair.approve", code=await self.asked(world))


async def stored(world: World, text: str, dedup: str, *, dead: str | None = None, not_before: int | None = None) -> int:
    """A message in the inbox of a chat that nobody works on; `dead` says why it was given up."""
    incoming = incoming_from(world.said(text), Role.ADMIN)

    def work(conn: Connection) -> int:
        admitted = inbox_rows.admit(
            conn,
            conversation=CHAT,
            kind="message",
            dedup=dedup,
            payload=encode_incoming(incoming),
            at=to_timestamp(world.clock.now()),
            not_before=not_before,
        )
        assert admitted.id is not None
        if dead is not None:
            inbox_rows.finish(conn, [admitted.id], "dead", note=dead)
        return admitted.id

    return await world.database.write(work)


async def to_send(world: World, text: str, *, dead: str | None = None, not_before: int | None = None) -> int:
    """An answer in the outbox of that chat."""

    def work(conn: Connection) -> int:
        conversation_rows.ensure(conn, CHAT, 1)
        at = to_timestamp(world.clock.now())
        row = outbox_rows.add(
            conn,
            conversation=CHAT,
            inbox_id=None,
            part=0,
            dedup=text,
            say=OutgoingMessage(text=text, kind="reply"),
            at=at,
        )
        assert row is not None
        if dead is not None:
            outbox_rows.mark_dead(conn, row, dead)
        if not_before is not None:
            outbox_rows.postpone(conn, row, not_before)
        return row

    return await world.database.write(work)


class TestBoxes:
    async def test_a_message_that_waits_is_listed_made_due_and_taken_out(self, world: World) -> None:
        assert await do(world, "inbox.list") == []
        later = to_timestamp(world.clock.now()) + 10**12
        first = await stored(world, "for later", "later", not_before=later)
        second = await stored(world, "never mind", "never", not_before=later)
        newest, oldest = await do(world, "inbox.list")
        assert (newest["id"], newest["text"]) == (second, "never mind")
        assert (oldest["state"], oldest["until"]) == ("waits", from_timestamp(later).isoformat())
        assert await do(world, "inbox.drop", id=second) == {"conversation": CHAT}
        assert await do(world, "inbox.retry", id=first) == {"conversation": CHAT}
        await world.shows("for later")

        async def is_empty() -> bool:  # the answer may be seen a moment before it is stored
            return not await do(world, "inbox.list")

        await until(is_empty)

    async def test_an_answer_that_waits_is_listed_and_dropped(self, world: World) -> None:
        assert await do(world, "outbox.list") == []
        row = await to_send(world, "stuck", not_before=to_timestamp(world.clock.now()) + 10**12)
        (letter,) = await do(world, "outbox.list")
        assert (letter["id"], letter["conversation"], letter["text"]) == (row, CHAT, "stuck")
        assert await do(world, "outbox.drop", id=row) == {"conversation": CHAT}
        assert await do(world, "outbox.list") == []
        await refused(world, "outbox.retry", id=row)

    async def test_an_answer_is_sent_where_the_bot_counted_as_removed(self, world: World) -> None:
        row = await to_send(world, "are you back?")
        await world.database.write(lambda conn: conversation_rows.set_gone(conn, CHAT, gone=True))
        assert await do(world, "outbox.retry", id=row) == {"conversation": CHAT}
        await world.shows("are you back?")

    async def test_dead_letters_of_both_boxes_are_listed_and_tried_again(self, world: World) -> None:
        assert await do(world, "dead.list") == []
        message = await stored(world, "a hard one", "hard", dead="given up after 5 attempts")
        answer = await to_send(world, "an old answer", dead="given up after 24.0 h")
        found = {letter["id"]: (letter["text"], letter["why"]) for letter in await do(world, "dead.list")}
        assert found == {
            f"in-{message}": ("a hard one", "given up after 5 attempts"),
            f"out-{answer}": ("an old answer", "given up after 24.0 h"),
        }
        assert await do(world, "dead.retry", id=f"in-{message}") == {"conversation": CHAT}
        assert await do(world, "dead.retry", id=f"out-{answer}") == {"conversation": CHAT}
        await world.shows("a hard one")
        await world.shows("an old answer")
        assert await do(world, "dead.list") == []

    async def test_dead_letters_can_be_settled_and_their_repeats_are_known(self, world: World) -> None:
        message = await stored(world, "a hard one", "hard", dead="given up")
        answer = await to_send(world, "an old answer", dead="given up")
        for id in (f"in-{message}", f"out-{answer}"):
            assert await do(world, "dead.drop", id=id) == {"conversation": CHAT}
            await refused(world, "dead.retry", id=id)
        assert await do(world, "dead.list") == []
        known = await world.database.read(lambda conn: inbox_rows.is_known(conn, dedup="hard", event_dedup=None))
        assert known

    async def test_what_is_not_there_is_refused(self, world: World) -> None:
        for box, what, id in product(("inbox", "outbox", "dead"), ("retry", "drop"), (None, "x", 4711, "in-4711")):
            _, fix = await refused(world, f"{box}.{what}", **({} if id is None else {"id": id}))
            assert f"tieline {box}" in fix


class TestExport:
    async def test_the_current_session_or_a_named_one(self, world: World) -> None:
        await world.answered("first words")
        await world.asks("/new", "kept")
        await world.answered("second words")
        current = (await do(world, "export", conversation="telegram:77"))["lines"]
        assert [json.loads(line)["role"] for line in current] == ["user", "assistant"]
        assert "second words" in current[0]
        listed = await world.asks("/sessions", "Conversations")
        session = re.search(r"• (\w+) first", listed)
        assert session
        older = (await do(world, "export", conversation="telegram:77", session=session[1]))["lines"]
        assert "first words" in older[0]

    async def test_after_new_the_last_one_is_meant(self, world: World) -> None:
        await world.answered("some words")
        await world.asks("/new", "kept")
        assert "some words" in (await do(world, "export", conversation="telegram:77"))["lines"][0]

    async def test_what_is_not_there_is_said_with_what_is(self, world: World) -> None:
        assert (await refused(world, "export", conversation="telegram:1"))[1] == "conversations: none yet"
        await world.answered("some words")
        await world.answered("in the group", chat=GROUP)
        said, fix = await refused(world, "export", conversation="telegram:1")
        assert said == "there is nothing of 'telegram:1'"
        assert fix == "conversations: telegram:-1005, telegram:77"
        said, fix = await refused(world, "export", conversation="telegram:77", session="ffff-none")
        assert said == "telegram:77 has no session 'ffff-none'"
        assert re.fullmatch(r"its newest sessions: \w{8}", fix)


class TestBackup:
    async def test_a_copy_while_it_is_in_use(self, world: World, tmp_path: Path) -> None:
        await world.answered("keep this")
        to = tmp_path / "elsewhere" / "copy.db"
        to.parent.mkdir()
        made = await do(world, "backup", path=str(to))
        assert made == {"path": str(to), "bytes": to.stat().st_size, "left_out": []}
        with sqlite3.connect(to) as copy:
            assert copy.execute("select count(*) from message").fetchone() == (2,)
        assert "exists already" in (await refused(world, "backup", path=str(to)))[0]

    async def test_without_a_name_it_lies_among_the_backups(self, world: World) -> None:
        made = await do(world, "backup")
        assert re.fullmatch(r"tieline-\d{8}-\d{6}\.tar", Path(made["path"]).name)
        assert Path(made["path"]).parent == world.home / "backups"

    async def test_a_relative_path_is_refused(self, world: World) -> None:
        assert "whole path" in (await refused(world, "backup", path="copy.db"))[1]


class TestUsage:
    async def test_what_was_spent_by_whom_and_every_call_as_a_table(self, world: World) -> None:
        assert await do(world, "usage") == []
        world.script({"match": {}, "reply": {"text": "ok", "usage": {"input_tokens": 1200, "output_tokens": 34}}})
        await world.answered("hello", "ok")
        (row,) = await do(world, "usage")
        assert row == {
            "name": "a", "calls": 1, "input": 1200, "cached": 0, "output": 34, "usd": "?", "unpriced": 1,
            "estimated": 0,
        }  # fmt: skip
        assert [row["name"] for row in await do(world, "usage", group="person")] == ["telegram:77"]
        page = await do(world, "usage.export")
        heading, line, end = page["lines"].split("\r\n")
        assert (page["next"], end) == (None, "")
        row = dict(zip(heading.split(","), line.split(","), strict=True))
        assert (row["person"], row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (
            "telegram:77",
            "1200",
            "34",
            "",
        )
        assert "".join([piece async for piece in world.services.overview.usage_csv()]) == page["lines"]
        assert (await do(world, "usage.export", until="2020-01-01"))["lines"].count("\n") == 1
        assert await do(world, "usage", since="2999-01-01") == []

    async def test_linked_accounts_are_joined_before_the_list_is_cut(self, world_of: Callable[..., World]) -> None:
        world = world_of(config='[[people]]\nname = "bob"\naccounts = ["telegram:78", "discord:900"]\n')
        async with world.process():
            prices = {f"telegram:9{number:03}": 1.0 for number in range(150)} | {
                "telegram:78": 0.75,
                "discord:900": 0.5,
            }
            calls = [
                replace(
                    call(number, usd=usd), at=to_timestamp(world.clock.now()), attribution=attribution(person=person)
                )
                for number, (person, usd) in enumerate(prices.items())
            ]
            await world.database.write(lambda conn: rows.add(conn, calls))
            found = await do(world, "usage", group="person")
            assert (found[0]["name"], found[0]["usd"]) == ("discord:900, telegram:78", "1.2500")
            assert len(found) == 100
            assert (found[-1]["name"], found[-1]["calls"], found[-1]["usd"]) == ("and 52 more", 52, "52.0000")
            assert sum(row["calls"] for row in found) == 152, "the lines come to all that was spent"
            assert [row["name"] for row in await do(world, "usage", group="channel")] == ["telegram:77"]

    @pytest.mark.parametrize(
        ("count", "shown"),
        [
            pytest.param(100, 100, id="as many as fit are shown"),
            pytest.param(101, 100, id="the last line stands for two"),
        ],
    )
    async def test_names_that_are_cut_are_told_by_number_and_sum(self, world: World, count: int, shown: int) -> None:
        at = to_timestamp(world.clock.now())
        calls = [replace(call(number), at=at, model=f"m{number}") for number in range(count)]
        await world.database.write(lambda conn: rows.add(conn, calls))
        found = await do(world, "usage", group="model")
        assert len(found) == shown
        assert sum(row["calls"] for row in found) == count
        assert ("and 2 more" in {row["name"] for row in found}) == (count > shown)

    async def test_mistakes_are_told_with_the_fix(self, world: World) -> None:
        assert await refused(world, "usage", group="colour") == (
            "nothing is summed up by 'colour'",
            "use one of provider, model, purpose, person, channel, job, goal",
        )
        assert await refused(world, "usage.export", since="soon") == ("'soon' is no date", "write it as 2026-11-01")
