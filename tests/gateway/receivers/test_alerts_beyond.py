"""Alerts of a running gateway by e-mail and webhook: outages, what is well again, restarts, changed settings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.receivers.receivers import retry_after_s
from gateway.web.control import Control
from tests.fakes.running import running
from tests.fakes.smtp_server import PASSWORD, USER, SmtpServer, smtp_server
from tests.fakes.waiting import until
from tests.fakes.webhook_server import WebhookServer, webhook_server
from tests.gateway.world import ANN, World

FEW = "[retry]\nmax_retries = 0\n"
DOWN = {"kind": "error", "status": 401, "times": 100}
WorldOf = Callable[..., World]


def by_mail(mail: SmtpServer, more: str = "") -> str:
    return (
        f'[alerts.email]\nhost = "127.0.0.1"\nport = {mail.port}\nsecurity = "none"\n'
        f'sender = "tieline@example.org"\nto = ["ops@example.org"]\n{more}'
    )


def by_hook(hook: WebhookServer) -> str:
    return f'[alerts.webhook]\nurl = "{hook.url}/hook/s3cret"\nsecret = "{"s" * 32}"\n'


def mails(server: SmtpServer) -> str:
    return "\n".join(str(mail["Subject"]) for mail in server.messages)


async def marked(world: World) -> None:
    """Wait until everything that was sent is marked.

    Else a process that is killed before sends it once more, and what comes later waits for that.
    """

    async def is_marked() -> bool:
        rows = await world.services.packages.messaging.receivers.newest()
        return all(row.state == "sent" for row in rows)

    await until(is_marked)


def good_news(hook: WebhookServer) -> list[dict[str, Any]]:
    """The alerts there that tell of an end."""
    return [one for body, _ in hook.taken for one in json.loads(body)["alerts"] if "again" in one["text"]]


@pytest.mark.requirement("G-114")
async def test_an_outage_goes_beyond_the_chats_once_and_so_does_its_end(world_of: WorldOf) -> None:
    async with smtp_server() as mail, webhook_server() as hook:
        world = world_of(config=FEW + by_mail(mail) + by_hook(hook), providers=("a",))
        async with world.process():
            world.llm.fails(**DOWN)
            await world.asks("hello", "⚠️")
            await until(lambda: len(mail.messages) == 1 and len(hook.taken) == 1)
            assert "the model service a refuses every request" in mails(mail)
            (alert,) = json.loads(hook.taken[0][0])["alerts"]
            assert (alert["subject"], alert["severity"]) == ("model:a", "warning")
            await marked(world)
            before = len(world.llm.calls)
        async with world.process():
            await world.say("again")  # it still fails, and that is told already
            await until(lambda: len(world.llm.calls) > before)
            world.llm.double.faults.clear()
            world.clock.ahead_s += 120
            await world.answered("are you there?", "are you there?")
            await until(lambda: "answers again" in mails(mail))
            assert mails(mail).count("refuses every request") == 1
            await until(lambda: bool(good_news(hook)))
            (alert,) = good_news(hook)
            assert alert["severity"] == "resolved"


@pytest.mark.requirement("G-114")
async def test_a_refused_login_is_told_beyond_the_account_that_is_refused(world_of: WorldOf) -> None:
    async with smtp_server() as mail, world_of(config=by_mail(mail)).process() as world:
        world.accounts["telegram"].refuse_login()
        await until(lambda: "telegram cannot sign in" in mails(mail))


@pytest.mark.requirement("G-114")
async def test_what_a_full_or_broken_mail_server_refuses_is_sent_after_a_restart(world_of: WorldOf) -> None:
    async with smtp_server() as mail:
        mail.unkind = "greylist"
        world = world_of(config=by_mail(mail))
        async with world.process():
            world.services.alerts.tell("owner_dead", {"chat": "telegram:78"})
            await until(lambda: "RCPT" in mail.commands)
            await until(lambda: bool(world.services.packages.messaging.receivers and world.troubles.open))
        mail.unkind = ""
        world.clock.ahead_s += retry_after_s(1) + 120
        async with world.process():
            await until(lambda: "A message in telegram:78 could not be answered" in mails(mail))
            await until(lambda: not world.troubles.open)
        assert mails(mail).count("telegram:78") == 1


@pytest.mark.requirement("G-114")
async def test_a_reload_changes_the_receivers_and_tries_at_once(world_of: WorldOf) -> None:
    async with smtp_server() as mail:
        mail.asks_password = True
        world = world_of(config=by_mail(mail, f'user = "{USER}"\npassword = "wrong password"\n'))
        async with world.process():
            world.services.alerts.tell("owner_dead", {"chat": "telegram:78"})
            await until(lambda: bool(world.troubles.open))
            assert "535" in world.troubles.open[0].text
            world.config = world.config.replace("wrong password", PASSWORD)
            assert world.reload() == ()
            await until(lambda: "telegram:78" in mails(mail))


@pytest.mark.requirement("G-114")
async def test_an_unexpected_end_is_told_beyond_the_chats_alone(world_of: WorldOf) -> None:
    async with smtp_server() as mail:
        world = world_of(config=by_mail(mail))
        async with world.process():
            assert (world.home / "running").exists()
        async with world.process():  # that one was killed
            await until(lambda: "I was started after I had ended unexpectedly" in mails(mail))
            await marked(world)
            await world.services.drain(1.0)
        mail.messages.clear()
        async with world.process():
            world.services.alerts.tell("owner_dead", {"chat": "telegram:78"})
            await until(lambda: "telegram:78" in mails(mail))
            assert "unexpectedly" not in mails(mail)
        assert not [text for text in world.texts(ANN) if "unexpectedly" in text]


async def test_a_crash_loop_is_told_once_an_hour_with_its_count(world_of: WorldOf) -> None:
    async with smtp_server() as mail:
        world = world_of(config=by_mail(mail))
        async with world.process():
            pass
        for _ in range(4):  # each one is killed
            async with world.process():
                await until(lambda: "I was started after I had ended unexpectedly" in mails(mail))
                await marked(world)
                await world.services.machine.look()
        async with world.process():
            world.services.alerts.tell("owner_dead", {"chat": "telegram:78"})
            await until(lambda: "telegram:78" in mails(mail))
            assert mails(mail).count("unexpectedly") == 1
            world.clock.ahead_s += 3601
            await world.services.machine.look()
            await until(lambda: "I ended unexpectedly 4 times" in mails(mail))
            await world.services.machine.look()
            await world.services.drain(1.0)
        assert mails(mail).count("unexpectedly") == 2


@pytest.mark.requirement("G-114")
async def test_a_disk_that_is_nearly_full_is_told_until_it_has_room(world_of: WorldOf) -> None:
    async with smtp_server() as mail:
        world = world_of(config=f"[alerts]\nleast_free_mb = 100000000\n{by_mail(mail)}")
        async with world.process():
            await until(lambda: "is nearly full" in mails(mail))
            assert "MB are free" in await world.shows("nearly full")
            world.config = world.config.replace("100000000", "1")
            world.reload()
            await world.services.machine.look()
            await until(lambda: "has room again" in mails(mail))


@pytest.mark.requirement("G-115")
async def test_a_test_tells_what_happened_on_each_way(
    world_of: WorldOf, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home: Path = tmp_path_factory.mktemp("h")
    async with smtp_server() as mail, webhook_server() as hook:
        hook.status = 403
        async with world_of(config=by_mail(mail) + by_hook(hook)).process() as world:
            control = Control(home, world.services.operations.table())
            control.bind()
            async with running(control.run):
                run = CliRunner(env={"TIELINE_HOME": str(home)}).invoke
                ran = await anyio.to_thread.run_sync(lambda: run(cli, ["alerts", "test"]))
            assert ran.stdout.splitlines() == [
                "✓ chat of telegram:77 (telegram:77): on its way, as any message",
                f"✓ e-mail to ops@example.org by 127.0.0.1:{mail.port}: 127.0.0.1 has taken it for ops@example.org",
                "✗ webhook at 127.0.0.1: 127.0.0.1 answered with status 403",
            ]
            assert ran.exit_code == 1
            assert "an operator on the machine has tried" in await world.shows("A test:")
            assert "A test: an operator on the machine" in mails(mail)


def test_without_a_gateway_no_test_is_sent(tmp_path: Path) -> None:
    ran = CliRunner(env={"TIELINE_HOME": str(tmp_path)}).invoke(cli, ["alerts", "test"])
    assert ran.exit_code == 1
    assert "tieline run" in ran.stderr
