"""Alerts as rows: nothing is lost, nothing overtakes, one process sends, and after a day it is given up."""

import json
import logging
import re
from collections.abc import Callable
from typing import TypeVar

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection

from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from gateway.receivers.receivers import GIVEN_UP_AFTER, TOGETHER, retry_after_s
from gateway.storage import alert_rows
from tests.fakes.running import running
from tests.fakes.smtp_server import PASSWORD, smtp_server
from tests.fakes.waiting import until
from tests.fakes.webhook_server import webhook_server
from tests.gateway.receivers.conftest import SECRET, Bench

T = TypeVar("T")


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 30), (2, 60), (7, 1920), (8, 3600), (500, 3600)])
def test_the_wait_doubles_up_to_an_hour(attempts: int, seconds: int) -> None:
    assert retry_after_s(attempts) == seconds


async def test_each_receiver_gets_it_once(bench: Bench) -> None:
    async with smtp_server() as mail, webhook_server() as hook:
        bench.known_to(mail)
        bench.post_to(hook)
        await bench.alert()
        for _ in range(3):
            await bench.receivers.send_due()
        assert (len(mail.messages), len(hook.taken)) == (1, 1)
    assert await bench.states() == ["sent", "sent"]
    assert "put aside (“tieline dead”)" in mail.messages[0].get_content()


@pytest.mark.requirement("G-114")
async def test_no_secret_stands_in_an_alert(bench: Bench) -> None:
    async with smtp_server() as mail, webhook_server() as hook:
        bench.known_to(mail)
        bench.post_to(hook)
        await bench.alert(f"telegram:78 (refused {SECRET})")
        await bench.receivers.send_due()
        sent = (mail.messages[0].get_content(), hook.taken[0][0].decode())
        assert all("telegram:78" in text for text in sent)
        assert not any(SECRET in text for text in (*sent, *(row.text for row in await bench.rows())))


async def test_without_receivers_no_row_is_kept(bench: Bench) -> None:
    await bench.alert()
    assert await bench.rows() == []


@pytest.mark.parametrize("key", ["owner_pairing", "owner_schedule_off"])
async def test_what_only_chats_may_know_goes_no_further(bench: Bench, key: str) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail)
        await bench.alert(key=key, who="Zoe", channel="telegram", person="telegram:99", id=1, title="a title")
        assert await bench.rows() == []


async def test_greylisting_is_waited_out_over_a_restart_in_order(bench: Bench) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail)
        mail.unkind = "greylist"
        await bench.alert("a")
        await bench.receivers.send_due()
        (row,) = await bench.rows()
        assert (row.state, row.attempts) == ("open", 1)
        assert "451 4.7.1 greylisted" in row.error
        assert [one.subject for one in bench.troubles.open] == ["alerts by e-mail"]

        await bench.alert("b")
        mail.unkind = ""
        restarted = bench.new()
        await restarted.send_due()
        assert mail.messages == [], "what came later waits behind it, and there is no hammering"
        bench.clock.advance(retry_after_s(1))
        await restarted.send_due()
        first, second = (message.get_content() for message in mail.messages)
    assert "in a could" in first
    assert "in b could" not in first, "it leaves as it was tried before: under the same id"
    assert "in b could" in second
    assert await bench.states() == ["sent", "sent"]
    assert bench.troubles.open == ()


@pytest.mark.requirement("G-114")
async def test_an_address_that_is_refused_for_now_is_tried_again_alone(bench: Bench) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail, "ops@example.org", "later@example.org")
        mail.unkind = "greylist one"
        await bench.alert("a")
        await bench.receivers.send_due()
        assert mail.recipients == [["ops@example.org"]]
        assert [one.text.partition(":")[0] for one in bench.troubles.open] == ["alerts do not reach everybody"]

        await bench.new().send_due()
        assert len(mail.recipients) == 1, "not before its time"
        bench.clock.advance(retry_after_s(1))
        await bench.receivers.send_due()
        assert [(row.receiver, row.state, row.attempts) for row in await bench.rows()] == [
            ("email", "sent", 1), ("email:later@example.org", "open", 2),
        ]  # fmt: skip
        mail.unkind = ""
        bench.clock.advance(retry_after_s(2))
        await bench.new().send_due()
        assert mail.recipients == [["ops@example.org"], ["later@example.org"]], "nobody gets it twice"
        assert "in a could" in mail.messages[1].get_content()
    assert await bench.states() == ["sent", "sent"]


@pytest.mark.requirement("G-114")
async def test_an_address_that_was_taken_out_of_the_file_gets_nothing_any_more(bench: Bench) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail, "ops@example.org", "later@example.org")
        mail.unkind = "greylist one"
        await bench.alert("a")
        await bench.receivers.send_due()
        mail.unkind = ""
        bench.mail_by(mail, "ops@example.org")
        bench.clock.advance(retry_after_s(1))
        await bench.receivers.send_due()
        assert mail.recipients == [["ops@example.org"]]
        bench.clock.advance(GIVEN_UP_AFTER.total_seconds())
        await bench.receivers.send_due()
    assert await bench.states() == ["sent", "given_up"]


async def test_a_receiver_that_fails_holds_up_no_other(bench: Bench) -> None:
    async with smtp_server() as mail, webhook_server() as hook:
        bench.mail_by(mail)
        bench.post_to(hook)
        mail.unkind, hook.status = "busy", 200
        await bench.alert()
        await bench.receivers.send_due()
        assert len(hook.taken) == 1
    assert {row.receiver: row.state for row in await bench.rows()} == {"email": "open", "webhook": "sent"}


async def test_many_leave_together(bench: Bench) -> None:
    async with webhook_server() as hook:
        bench.post_to(hook)
        for number in range(TOGETHER + 5):
            await bench.alert(f"chat {number}")
        await bench.receivers.send_due()
        assert len(hook.taken) == 2


async def test_two_processes_send_it_once(bench: Bench) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail)
        await bench.alert()
        now, until = await claimed(bench)
        await bench.new().send_due()
        assert mail.messages == [], "the other process has it"
        bench.clock.advance(600)  # that one was killed between sending and marking, or before
        await bench.new().send_due()
        assert len(mail.messages) == 1
        (row,) = await bench.rows()
        # The first one lives all the same: what it says of a claim that it has lost counts no more.
        await bench.database.write(
            lambda conn: alert_rows.failed(conn, [row.id], until=until, due=now, why="late news")
        )
    assert await bench.states() == ["sent"]


async def claimed(bench: Bench) -> tuple[int, int]:
    """Another process takes what is due; now, and until when."""
    now = int(bench.clock.now().timestamp() * 1_000_000)
    until = now + 120_000_000
    rows = await bench.database.write(lambda conn: alert_rows.claim(conn, "email", now=now, until=until, most=TOGETHER))
    assert len(rows) == 1
    return now, until


async def test_after_a_day_it_is_given_up_with_an_entry_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with webhook_server() as hook:
        bench.post_to(hook)
        hook.status = 503
        await bench.alert()
        await bench.receivers.send_due()
        bench.clock.advance(GIVEN_UP_AFTER.total_seconds() + 1)
        with caplog.at_level(logging.ERROR, "tieline.receivers"):
            await bench.receivers.send_due()
        assert hook.asked == 1
    assert await bench.states() == ["given_up"]
    assert "given up for webhook after a day (127.0.0.1 answered with status 503)" in caplog.text


async def test_what_waits_for_a_receiver_that_is_taken_out_is_given_up_too(bench: Bench) -> None:
    async with webhook_server() as hook:
        bench.post_to(hook)
        await bench.alert()
    bench.webhook = type(bench.webhook)()
    await bench.receivers.send_due()
    assert await bench.states() == ["open"]
    bench.clock.advance(GIVEN_UP_AFTER.total_seconds() + 1)
    await bench.receivers.send_due()
    assert await bench.states() == ["given_up"]


async def test_a_new_configuration_is_tried_at_once(bench: Bench) -> None:
    async with smtp_server() as mail:
        bench.known_to(mail, "wrong password")
        await bench.alert()
        await bench.receivers.send_due()
        bench.known_to(mail)
        bench.receivers.reloaded(bench.settings())
        await bench.receivers.send_due()
        assert len(mail.messages) == 1


async def test_secrets_stand_in_no_row_no_log_and_no_answer(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async with smtp_server() as mail, webhook_server() as hook:
        bench.known_to(mail)
        mail.unkind = "refuse message"
        bench.mail_by(mail, user="somebody else", password=SecretStr(PASSWORD))
        bench.post_to(hook)
        hook.status = 500
        await bench.alert()
        with caplog.at_level(logging.DEBUG, "tieline"):
            await bench.receivers.send_due()
        outcomes = await bench.receivers.test("Ann")
        # The HTTP library is chatty, and so heard from WARNING on alone (gateway.telemetry.logging).
        logged = [record.getMessage() for record in caplog.records if record.name.startswith("tieline")]
        told = f"{await bench.rows()} {logged} {outcomes} {bench.troubles.open}"
    assert "535" in told
    assert PASSWORD not in told
    assert SECRET not in told
    assert "/hook/key" not in told


async def test_a_test_goes_by_each_way_and_tells_what_happened(bench: Bench) -> None:
    async with smtp_server() as mail, webhook_server() as hook:
        bench.mail_by(mail)
        bench.post_to(hook)
        hook.status = 404
        by_mail, by_hook = await bench.receivers.test("<script>alert(1)</script>")
        (message,) = mail.messages
    assert by_mail.is_sent
    assert by_mail.text == "127.0.0.1 has taken it for ops@example.org"
    assert by_mail.where == f"e-mail to ops@example.org by 127.0.0.1:{mail.port}"
    assert (by_hook.is_sent, by_hook.where, by_hook.text) == (
        False,
        "webhook at 127.0.0.1",
        "127.0.0.1 answered with status 404",
    )
    assert message["Subject"].startswith("[Tieline] A test: <script>alert(1)</script> has tried")
    assert await bench.rows() == [], "a test is tried once"


@pytest.mark.requirement("G-114")
async def test_what_is_sent_once_more_has_the_same_id_whatever_has_come_since(bench: Bench) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail)
        await bench.alert("a")
        await bench.alert("b")
        mail.unkind = "drop after dot"
        await bench.receivers.send_due()
        await bench.alert("c")
        mail.unkind = ""
        bench.clock.advance(retry_after_s(1))
        await bench.receivers.send_due()
        first, again, later = (message["Message-ID"] for message in mail.messages)
    assert first == again
    assert later != first


@pytest.mark.requirement("G-114")
async def test_none_is_lost_where_a_message_has_no_room_for_all(bench: Bench) -> None:
    async with webhook_server() as hook:
        bench.post_to(hook, format="discord")
        for number in range(TOGETHER):
            await bench.alert(f"chat {number} {'w' * 100}")
        hook.status = 503
        await bench.receivers.send_due()
        hook.status = 200
        bench.clock.advance(retry_after_s(1))
        await bench.receivers.send_due()
        said = [json.loads(body)["content"] for body, _ in hook.taken]
    told = [int(number) for number in re.findall(r"in chat (\d+) ", "\n".join(said))]
    assert told == list(range(TOGETHER))
    assert set(await bench.states()) == {"sent"}


@pytest.mark.requirement("G-114")
async def test_a_slow_receiver_holds_up_no_other(bench: Bench) -> None:
    async with smtp_server() as mail, webhook_server() as hook:
        bench.mail_by(mail)
        bench.post_to(hook)
        mail.unkind = "silent"
        async with running(bench.receivers.run):
            await bench.alert("a")
            bench.receivers.committed()
            await until(lambda: len(hook.taken) == 1 and mail.connections == 1)
            await bench.alert("b")
            bench.receivers.committed()
            await until(lambda: len(hook.taken) == 2)


async def test_a_disk_that_is_full_for_a_while_ends_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail)
        await bench.alert()
        bench.database = disk = FullDisk(bench.database)
        receivers = bench.new()
        async with running(receivers.run):
            await until(lambda: "alerts cannot be sent now: full" in caplog.text)
            disk.is_full = False
            receivers.committed()
            await until(lambda: len(mail.messages) == 1)


class FullDisk:
    """A database that writes nothing while `is_full`."""

    def __init__(self, database: Database) -> None:
        self.dialect = database.dialect
        self.is_full = True
        self._there = database

    async def write(self, work: Callable[[Connection], T]) -> T:
        if self.is_full:
            raise StorageTrouble("full")
        return await self._there.write(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._there.read(work)

    async def aclose(self) -> None:
        await self._there.aclose()


async def test_half_an_emoji_holds_up_nothing(bench: Bench) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail)
        await bench.alert("half \ud83d and \0")
        await bench.receivers.send_due()
        assert "half \ufffd and \ufffd" in mail.messages[0].get_content()


async def test_an_address_that_is_refused_is_told_to_the_operator(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with smtp_server() as mail:
        bench.mail_by(mail, "gone@example.org", "ops@example.org")
        mail.unkind = "refuse one"
        await bench.alert()
        await bench.receivers.send_due()
        (trouble,) = bench.troubles.open
        assert trouble.text == "alerts do not reach everybody: gone@example.org: 550 5.1.1 no such mailbox"
        assert "gone@example.org: 550 5.1.1 no such mailbox" in caplog.text
        mail.unkind = ""
        await bench.alert("b")
        await bench.receivers.send_due()
    assert bench.troubles.open == ()
