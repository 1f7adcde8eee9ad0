"""The image is built from deploy/Dockerfile and talked to, in a container as deploy/compose.yaml makes it.

It fetches packages of Debian and of the Python index. `pytest tests/deploy/test_image.py -m slow -s` prints sizes and
times; with TIELINE_TEST_IMAGES=FOLDER what was fetched is kept there for the next run.
"""

import errno
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.adapters.web.visitor import Visitor, text_of
from tests.deploy.files import ROOT, Compose, Dockerfile, Manifest
from tests.deploy.podman import Podman, as_composed, missing
from tests.fakes.waiting import PATIENCE_S
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.running import Program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing"),
]

MOST_BYTES = 450_000_000
SYSTEMPATHS = "systempaths=unconfined"
USER = int(Dockerfile.read().final.one("USER").partition(":")[0])


class Contained(Program):
    """The program in a container; its data directory is a folder of this machine."""

    def __init__(self, podman: Podman, home: Path, config: str) -> None:
        super().__init__(home, config)
        self._podman = podman
        self.name = f"tieline-{self.port}"
        self._options = as_composed(Compose.read(), home=home, port=self.port)
        self.command = podman.words("run", "--rm", "--name", self.name, *self._options, "tieline")

    def start(self) -> None:
        """Hands the data directory over to the user of the image first."""
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, USER, USER)
        super().start()

    def inside(self, *words: str) -> str:
        """A command as `docker compose exec tieline …` gives it."""
        return self._podman.call("exec", self.name, *words, check=False)


@asynccontextmanager
async def running(podman: Podman, home: Path, doubles: Doubles) -> AsyncIterator[Contained]:
    program = Contained(podman, home, configs.models(doubles, "a"))
    async with program:
        try:
            yield program
        finally:
            podman.call("rm", "--force", "--time", "1", program.name, check=False)


async def test_people_chat_with_it_and_the_model_uses_its_sandbox(
    podman: Podman, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("h", numbered=True)
    look = {"type": "tool_use", "name": "shell", "input": {"command": "ls -la /workspace"}}
    rules = [
        {"match": {"contains": "look around", "tool_result": True}, "reply": {"text": "I have looked."}},
        {"match": {"contains": "look around"}, "reply": {"blocks": [look]}},
        {"match": {"contains": "good morning"}, "reply": {"text": "Good morning from the container."}},
    ]
    async with all_doubles() as doubles, running(podman, home, doubles) as program:
        await doubles.llm.post("script", rules, append="1")
        link = program.inside("tieline", "sign-in").strip()
        async with httpx2.AsyncClient(base_url=program.url, timeout=PATIENCE_S, trust_env=False) as client:
            page = await client.get(link, follow_redirects=True)
            token = re.search(r'name="csrf" content="([^"]+)"', page.text)
            assert token, f"{link}: {page.status_code} {page.text[:500]}"
            ann = Visitor(client, token[1])

            async def hears(words: str) -> bool:
                found = (await ann.state())["messages"]
                return any(words in text_of(block) for one in found if one["who"] == "bot" for block in one["blocks"])

            await ann.say("good morning")
            await until(lambda: hears("Good morning from the container."), what="the answer")
            await ann.say("look around")
            await until(lambda: hears("I have looked."), what="the answer after the tool")
        asked = str((await doubles.llm.get("calls"))["calls"][-1]["body"]["messages"])
        assert "[exit code 0, after" in asked, "the command ran in the sandbox, and the model was told"

        doctor = program.inside("tieline", "doctor", "--offline")
        assert "✓ shell: commands run in bubblewrap" in doctor, doctor
        assert "✓ configuration: /data/gateway.toml is fine" in doctor, doctor
        podman.call("healthcheck", "run", program.name)
        assert "Read-only file system" in program.inside("touch", "/opt/tieline/touched")
        assert program.inside("id", "-u").strip() == str(USER)
        status = program.inside("cat", "/proc/1/status")
        assert re.search(r"^CapBnd:\s+0+$", status, re.MULTILINE), status
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE), status
        assert program.inside("git", "--version").startswith("git version")
        assert await program.stop() == 0, program.log.read_text()[-2_000:]
    assert '"ended"' in program.log.read_text()


def doctor(podman: Podman, home: Path, *options: str, without: str = "") -> str:
    os.chown(home, USER, USER)
    composed = as_composed(Compose.read(), home=home, port=0, without=[without] if without else [])
    return podman.call("run", "--rm", *composed, *options, "tieline", "doctor", "--offline", check=False)


def test_without_a_whole_proc_doctor_says_that_there_is_no_sandbox(podman: Podman, tmp_path: Path) -> None:
    said = doctor(podman, tmp_path, without=SYSTEMPATHS)
    assert "! shell: bubblewrap does not work here (bwrap: Can't mount proc" in said
    assert "docs/containers.md" in said


def test_the_profile_of_system_calls_is_in_force(podman: Podman, tmp_path: Path) -> None:
    os.chown(tmp_path, USER, USER)
    script = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.setns(0, 0), ctypes.get_errno())"
    composed = as_composed(Compose.read(), home=tmp_path, port=0)
    said = podman.call("run", "--rm", *composed, "--entrypoint", "python", "tieline", "-c", script)
    assert said == f"-1 {errno.EPERM}"


def test_in_a_pod_doctor_reads_the_configuration_of_the_pod(podman: Podman, tmp_path: Path) -> None:
    manifest, home, folder = Manifest.read(), tmp_path / "home", tmp_path / "config"
    home.mkdir()
    folder.mkdir()
    for name, text in manifest.kind("ConfigMap")["data"].items():
        (folder / name).write_text(text)
    folder.chmod(0o755)
    mount = ["-v", f"{folder}:{manifest.mounts['config']['mountPath']}:ro"]
    environment = [word for name, value in manifest.environment.items() for word in ("--env", f"{name}={value}")]
    assert f"{manifest.environment['TIELINE_CONFIG']} is fine" in doctor(podman, home, *mount, *environment)


def test_it_is_small(podman: Podman) -> None:
    assert podman.size("tieline") <= MOST_BYTES


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A source archive in a folder."""

    folder: Path

    @classmethod
    def sdist(cls, into: Path) -> "Unpacked":
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "build", "--quiet", "--sdist", "--out-dir", into, ROOT], check=True, timeout=300)
        (archive,) = into.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(into, filter="data")
        return cls(into / archive.name.removesuffix(".tar.gz"))


def test_it_is_built_from_an_sdist_too_with_an_extra(podman: Podman, tmp_path: Path) -> None:
    took = podman.build("from-sdist", Unpacked.sdist(tmp_path).folder, EXTRAS="web")
    print(f"\nwith the extra `web`, from an sdist: {took:.0f} s, {podman.size('from-sdist') / 1e6:.0f} MB")
    composed = as_composed(Compose.read(), home=tmp_path, port=0)
    os.chown(tmp_path, USER, USER)
    assert "web pages: read by trafilatura" in podman.call(
        "run", "--rm", *composed, "from-sdist", "doctor", "--offline", check=False
    )
