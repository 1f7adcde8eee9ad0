"""Work of the operator in a second shell, and the messages when something is wrong."""

import re
import socket
import sqlite3
from pathlib import Path

import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram

STRANGER = {"id": 99, "first_name": "Zoe"}


@pytest.mark.slow  # three processes, one after the other
async def test_a_stranger_gets_a_code_and_nothing_else_until_it_is_approved(doubles: Doubles, program: Start) -> None:
    telegram, tieline = OnTelegram(doubles), program(configs.models(doubles, "a") + configs.telegram(doubles))
    async with tieline:
        await telegram.say("let me in", user=STRANGER)
        offer = await telegram.hears("pairing code", chat=99)
        await telegram.say("hello? let me in", user=STRANGER)
        code = re.search(r"code is (\w{8})", offer)
        assert code
        assert "wrong" not in (await tieline.cli("pair", "list")).stdout
        refused = await tieline.cli("pair", "approve", "AAAA2222")
        assert refused.returncode == 1
        assert "no open pairing with the code AAAA2222" in refused.stderr
        assert "Zoe" in (await tieline.cli("pair", "list")).stdout
        approved = await tieline.cli("pair", "approve", code[1].lower())
        assert approved.stdout.startswith("Zoe (telegram:99) is let in.\n"), approved.stderr
        await telegram.hears("You are in", chat=99)
        await telegram.say("finally", user=STRANGER)
        await telegram.hears("finally", chat=99)
        texts = await telegram.texts(99)
        assert len(texts) == 4  # the code once, that it still waits, the welcome, the answer
        assert len((await doubles.llm.get("calls"))["calls"]) == 1
        assert (await tieline.cli("pair", "approve", code[1])).returncode == 1  # one use


@pytest.mark.slow  # seven processes, one after the other
async def test_export_backup_and_console_work_beside_the_running_gateway(doubles: Doubles, program: Start) -> None:
    telegram, tieline = (
        OnTelegram(doubles),
        program(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)),
    )
    async with tieline:
        await telegram.say("keep this")
        await telegram.hears("keep this")
        exported = await tieline.cli("export", "telegram:77")
        assert [line.count('"role"') for line in exported.stdout.splitlines()] == [1, 1]
        assert (await tieline.cli("export", "telegram:1")).returncode == 1
        copy = tieline.home / "copy.db"
        assert (await tieline.cli("backup", str(copy))).returncode == 0
        with sqlite3.connect(copy) as database:
            assert database.execute("select count(*) from message").fetchone() == (2,)
        talked = await tieline.cli("console", stdin="hello from the terminal\n/exit\n")
        assert "hello from the terminal" in talked.stdout
        assert "Bye." in talked.stdout
        assert "Nobody waits" in (await tieline.cli("pair", "list")).stdout


@pytest.mark.requirement("G-29")
async def test_every_mistake_of_a_configuration_is_one_line_with_the_fix(program: Start) -> None:
    tieline = program(
        '[wbe]\nport = 1\n[access]\ndm = "opne"\n[[channels]]\ntype = "telegram"\ntoken = "env:NOT_SET"\nmod = "x"',
        about={"mistakes"},
    )
    ran = await tieline.cli("run")
    assert ran.returncode == 78, "a service manager can tell it from a crash"
    lines = ran.stderr.splitlines()
    assert len(lines) >= 4
    assert all(str(tieline.home / "gateway.toml") in line for line in lines)
    text = ran.stderr
    assert "wbe: unknown key; did you mean web?" in text
    assert "access.dm: 'opne' is not one of" in text
    assert "channels[0].token: the environment variable NOT_SET is not set" in text
    assert "channels[0].mod: unknown key; did you mean mode?" in text


async def test_what_stops_a_start_is_said_with_the_fix(program: Start, tmp_path: Path) -> None:
    tieline = program()
    with socket.create_server(("127.0.0.1", tieline.port)):
        taken = await tieline.cli("run")
    assert taken.returncode == 1
    assert f"port {tieline.port}" in taken.stderr
    assert "[web]" in taken.stderr

    occupied = tmp_path / "file"
    occupied.write_text("")
    blocked = program(TIELINE_HOME=str(occupied / "below"))
    assert "TIELINE_HOME" in (ran := await blocked.cli("run")).stderr
    assert ran.returncode == 1

    tieline.write("this is [not toml", about={"mistakes"})
    broken = await tieline.cli("run")
    assert broken.returncode == 78
    assert "not valid TOML" in broken.stderr


@pytest.mark.slow  # two programs
async def test_a_second_process_on_the_same_database_is_refused(program: Start) -> None:
    first = program()
    async with first:
        second = await first.cli("run")
        assert second.returncode == 1
        assert "another gateway runs with this data directory" in second.stderr
        other = program(f'[database]\nurl = "sqlite:///{first.home}/tieline.db"')
        refused = await other.cli("run")
        assert refused.returncode == 1
        assert str(first.process.pid if first.process else "") in refused.stderr


@pytest.mark.slow  # two adapters that take their time to give up
@pytest.mark.requirement("G-28", "G-30")
async def test_a_bad_token_is_told_and_readiness_is_red_while_the_rest_works(doubles: Doubles, program: Start) -> None:
    config = configs.ACCESS + configs.telegram(doubles).replace("123456:TEST-token", "999999:WRONG-token")
    tieline = program(config)
    tieline.start()

    async def told() -> bool:
        return "cannot sign in" in tieline.log.read_text()

    await until(told, what="the refused login")
    with pytest.raises(AssertionError, match="503"):
        await tieline.ready(seconds=1.5)
    assert "WRONG-token" not in tieline.log.read_text()
    doctor = await tieline.cli("doctor")
    assert doctor.returncode == 1
    assert "✗ telegram" in doctor.stdout
    assert "hello" in (await tieline.cli("console", stdin="echo hello\n/exit\n")).stdout


@pytest.mark.slow
@pytest.mark.requirement("G-27")
async def test_sigterm_ends_in_order(doubles: Doubles, program: Start) -> None:
    await doubles.llm.post("script", [{"match": {}, "reply": {"text": "the last words", "hold": "last"}}])
    telegram, tieline = (
        OnTelegram(doubles),
        program(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)),
    )
    async with tieline:
        await telegram.say("slow")

        async def asked() -> bool:
            return bool((await doubles.llm.get("calls"))["calls"])

        await until(asked)
        await tieline.told_to_stop()
        await doubles.llm.post("release", {"name": "last"})
        assert await tieline.stop() == 0
        assert "the last words" in (await telegram.texts())[-1]
        assert not (tieline.home / "tieline.sock").exists()
