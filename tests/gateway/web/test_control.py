"""The control socket: for its owner alone, clear about everything that goes wrong."""

import os
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent.storage.errors import StorageTrouble
from gateway.web import control_client
from gateway.web.control import LARGEST_BODY, Control, ControlError, Json, Operation, OperationError
from gateway.web.control_client import NoGateway, OtherVersion, Refused, socket_path
from tests.fakes.running import running


async def echo(arguments: Mapping[str, Json]) -> Json:
    return dict(arguments)


async def refuse(arguments: Mapping[str, Json]) -> Json:
    raise OperationError("no such code", fix="list them with `tieline pair list`")


async def fail(arguments: Mapping[str, Json]) -> Json:
    raise StorageTrouble("the disk is full")


async def count(arguments: Mapping[str, Json]) -> AsyncIterator[Json]:
    async def numbers() -> AsyncIterator[Json]:
        yield 1
        yield {"two": 2}
        if arguments.get("fail"):
            raise OperationError("the disk is full")

    return numbers()


OPERATIONS: Mapping[str, Operation] = {"echo": echo, "refuse": refuse, "fail": fail, "count": count}


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own paths can be too long for a socket
        yield Path(folder)


@pytest.fixture
async def control(home: Path) -> AsyncIterator[Control]:
    control = Control(home, OPERATIONS)
    control.bind()
    async with running(control.run):
        yield control


async def in_thread(call: Any, *arguments: Any, **named: Any) -> Any:
    """The client blocks, as commands do."""
    return await to_thread.run_sync(lambda: call(*arguments, **named))


async def test_an_operation_answers(control: Control, home: Path) -> None:
    assert await in_thread(control_client.call, home, "echo", code="K7", many=[1, None]) == {
        "code": "K7",
        "many": [1, None],
    }


async def test_an_operation_that_says_no_tells_the_fix(control: Control, home: Path) -> None:
    with pytest.raises(Refused, match="no such code") as raised:
        await in_thread(control_client.call, home, "refuse")
    assert raised.value.fix == "list them with `tieline pair list`"


async def test_arguments_without_end_are_not_read_to_theirs(control: Control, home: Path) -> None:
    with pytest.raises(Refused, match=f"more than {LARGEST_BODY} bytes came"):
        await in_thread(control_client.call, home, "echo", code="x" * LARGEST_BODY)


async def test_who_is_refused_before_all_was_read_is_told_why(control: Control, home: Path) -> None:
    with pytest.raises(Refused, match="'ecko'"):
        await in_thread(control_client.call, home, "ecko", text="far more than a socket holds" * 200_000)


async def test_what_the_database_says_is_passed_on(control: Control, home: Path) -> None:
    with pytest.raises(Refused, match=r"^the disk is full$"):
        await in_thread(control_client.call, home, "fail")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("0.0.9", f"^Tieline 0.0.9 runs, {version('tieline')} is installed: it knows no operation 'ecko'$"),
        (version("tieline"), "^an older version of Tieline runs than is installed: it knows no operation 'ecko'$"),
        (None, "^an older version of Tieline runs than is installed: it knows no operation 'ecko'$"),
    ],
    ids=["of another version", "of the same version", "of a version that does not tell it"],
)
async def test_an_operation_that_the_gateway_does_not_know_is_of_another_version(
    home: Path, told: str | None, words: str
) -> None:
    async def tell(_: Mapping[str, Json]) -> Json:
        return told

    control = Control(home, OPERATIONS if told is None else {**OPERATIONS, "version": tell})
    control.bind()
    async with running(control.run):
        for ask in (control_client.call, lambda *args: list(control_client.stream(*args))):
            with pytest.raises(OtherVersion, match=words) as raised:
                await in_thread(ask, home, "ecko")
            assert raised.value.fix == "restart the gateway"


async def test_an_operation_that_comes_later_in_the_start_is_to_be_waited_for(home: Path) -> None:
    control = Control(home, OPERATIONS, is_starting=True)
    control.bind()
    async with running(control.run):
        with pytest.raises(Refused, match="still starting") as raised:
            await in_thread(control_client.call, home, "status")
        assert not isinstance(raised.value, OtherVersion)
        control.add({"status": echo})
        assert await in_thread(control_client.call, home, "status") == {}
        with pytest.raises(OtherVersion):
            await in_thread(control_client.call, home, "ecko")


async def test_an_operation_may_answer_bit_by_bit(control: Control, home: Path) -> None:
    assert await in_thread(lambda: list(control_client.stream(home, "count"))) == [1, {"two": 2}]
    with pytest.raises(Refused, match="disk is full"):
        await in_thread(lambda: list(control_client.stream(home, "count", fail=True)))


@pytest.mark.requirement("G-28")
async def test_the_socket_is_for_its_owner_alone(control: Control, home: Path) -> None:
    assert socket_path(home).stat().st_mode & 0o777 == 0o600
    assert await in_thread(control_client.is_running, home)


async def test_adapters_find_the_owner_of_the_directory(control: Control, home: Path) -> None:
    async def who(request: Request) -> JSONResponse:
        return JSONResponse({"id": request.state.person.id, "said": await request.json()})

    control.mount("console", [Route("/who", who, methods=["POST"])])
    answer = await in_thread(control_client.channel_call, home, "/channels/console/who", {"x": 1})
    assert answer == {"id": "operator", "said": {"x": 1}}


async def test_a_second_one_is_refused_and_the_first_goes_on(control: Control, home: Path) -> None:
    with pytest.raises(ControlError, match="another gateway runs with this data directory"):
        Control(home, OPERATIONS).bind()
    assert await in_thread(control_client.call, home, "echo") == {}


async def test_what_a_killed_process_left_is_taken_away(home: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(socket_path(home)))
    control = Control(home, OPERATIONS)
    control.bind()
    async with running(control.run):
        assert await in_thread(control_client.call, home, "echo") == {}
    assert not socket_path(home).exists()


def test_a_file_in_the_way_is_not_touched(home: Path) -> None:
    socket_path(home).write_text("precious")
    with pytest.raises(ControlError, match="is in the way"):
        Control(home, OPERATIONS).bind()
    assert socket_path(home).read_text() == "precious"


def test_too_long_a_path_is_named_with_the_fix(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    with pytest.raises(ControlError, match="set TIELINE_HOME to a shorter path"):
        Control(deep, OPERATIONS).bind()


def test_without_a_gateway_the_command_says_so(home: Path) -> None:
    with pytest.raises(NoGateway, match="start it with `tieline run`"):
        control_client.call(home, "echo")
    assert not control_client.is_running(home)


def test_the_umask_is_put_back(home: Path) -> None:
    before = os.umask(0o022)
    try:
        control = Control(home, OPERATIONS)
        control.bind()
        control.close()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
