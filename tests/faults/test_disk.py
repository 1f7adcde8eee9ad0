"""A disk without room, and one that its kernel makes read-only: real ones, on file systems of the program's own."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import anyio
import pytest

from tests.doubles.limits import raised_limits
from tests.faults.test_storage import ONE_BY_ONE, SECTIONS, Scene, rule
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.running import Program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROOM = "6m"
ON_A_SMALL_DISK = (
    f'mount -t tmpfs -o size={ROOM} tmpfs "$TIELINE_HOME" && cp "$1" "$TIELINE_HOME/" && shift && exec "$@"'
)


class SmallDisk(Program):
    """Its home is a disk of a few megabytes, which only it sees (a mount namespace; no rights are needed for that)."""

    def start(self) -> None:
        (self.home / "disk").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "gateway", "run"]
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*inside, str(self.home / "gateway.toml"), *command], stdout=log, stderr=log, env=self.environ
            )

    @property
    def environ(self) -> dict[str, str]:
        return super().environ | {"TIELINE_HOME": str(self.home / "disk")}

    @property
    def disk(self) -> Path:
        """The same disk, as seen from outside."""
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}/root{self.home}/disk")


def filled(folder: Path) -> Path:
    """A file that leaves no byte of room."""
    filler = folder / "filler"
    with pytest.raises(OSError, match="No space left on device"):
        filler.write_bytes(b"\0" * 64 * 1024 * 1024)
    return filler


def config(doubles: Doubles) -> str:
    return configs.ACCESS + SECTIONS + configs.models(doubles, "a") + configs.telegram(doubles)


@asynccontextmanager
async def answering() -> AsyncIterator[Doubles]:
    async with all_doubles() as doubles:
        await doubles.telegram.post("settings", raised_limits())  # one person writes faster here than anybody does
        await doubles.llm.post("script", [rule(f"m{number}") for number in reversed(range(60))])
        yield doubles


async def trouble(program: Program) -> dict[str, str]:
    """The troubles that the operator is told of: subject and text."""
    async with aiohttp.ClientSession() as client, client.get(f"{program.url}/readyz") as answer:
        return {str(reason["subject"]): str(reason["text"]) for reason in (await answer.json())["reasons"]}


@pytest.mark.requirement("B-48")
async def test_a_disk_without_room_holds_everything_up_and_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with answering() as doubles:
        program = SmallDisk(tmp_path_factory.mktemp("h"), config(doubles), about=ONE_BY_ONE)
        async with program:
            scene = Scene(doubles, program, "")
            ann, words = scene.person(1), [f"m{number}" for number in range(1, 31)]
            await ann.say("say m1")
            await scene.answered(1, "m1")
            filler = filled(program.disk)
            # What is there of the log is written over first, so a few messages may still find room.
            for word in words[1:]:
                await ann.say(f"say {word}")
            await scene.ready_is(503)
            assert (await trouble(program))["database"] == "database or disk is full"
            said = len(await scene.answers(1))
            assert said < len(words)
            await anyio.sleep(3)  # time enough for an answer
            assert len(await scene.answers(1)) == said, "nobody is answered from what is not stored"
            filler.unlink()
            await scene.answered(1, *words, seconds=100)
            await scene.ready_is(200)


@contextmanager
def failing_disk(folder: Path) -> Iterator[Path]:
    """A file system that turns read-only when its kernel finds an error in it; needs root and a loop device."""
    image, home = folder / "disk.img", folder / "home"
    home.mkdir()
    with image.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a file system that can fail is made by root alone, with mkfs.ext4")
    mounted(image, home, make=True)
    try:
        yield home
    finally:
        subprocess.run(["umount", "--lazy", home], check=False)


def mounted(image: Path, home: Path, *, make: bool = False) -> None:
    check = ["mkfs.ext4", "-q", str(image)] if make else ["e2fsck", "-fy", str(image)]
    subprocess.run(check, check=make, capture_output=True)
    found = subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, home], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"this machine lets nobody mount a file, as most containers do: {found.stderr}")


def break_down(home: Path) -> None:
    """As after a bad sector: from now on every write gives EROFS, also to files that are open."""
    device = subprocess.run(["findmnt", "-no", "SOURCE", home], check=True, capture_output=True, text=True).stdout
    Path("/sys/fs/ext4", Path(device.strip()).name, "trigger_fs_error").write_text("a test")


@pytest.mark.requirement("B-48")
async def test_a_disk_that_turns_read_only_is_told_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("d")
    with failing_disk(folder) as home:
        async with answering() as doubles:
            program = Program(home, config(doubles), about=ONE_BY_ONE)
            program.log = folder / "run.log"
            async with program:
                await anyio.run_process(["sync", "--file-system", home])  # the configuration was written long ago
                scene = Scene(doubles, program, "")
                ann = scene.person(1)
                await ann.say("say m1")
                await scene.answered(1, "m1")
                await program.settled()
                break_down(home)
                await ann.say("say m2")
                await ann.say("say m3")
                await scene.ready_is(503)

                async def both_are_told() -> bool:
                    return set(await trouble(program)) == {"database", "telegram"}

                await until(both_are_told, seconds=30, what="the trouble of the database and of the account")
                await anyio.sleep(3)  # time enough for an answer
                assert await scene.answers(1) == ["answer to m1"]
                assert await program.stop() == 0
                ending = program.log.read_text().partition('"ending: ')[2]
                assert '"message": "ended"' in ending
                assert "Traceback" not in ending, ending
            await anyio.run_process(["umount", home])
            mounted(folder / "disk.img", home)
            async with program:
                await scene.answered(1, "m1", "m2", "m3")
                await scene.ready_is(200)
