"""The default install: a plain wheel, its lock and `make run` give the same features.

What `tieline doctor` says of an empty data directory is compared, each time in an environment of its own.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import anyio
import anyio.to_thread
import pytest

from tests.agent.documents.make import SAMPLES
from tests.program.running import Program
from tools.file_sizes import ROOT

UV = Path(sys.executable).with_name("uv")
LOCK = ROOT / "requirements" / "run.lock"
MOST_MB = 150  # of a default install, as `du -sm` counts; docs/configuration.md tells it
PACKAGES = ("agent", "gateway", "adapters", "config")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The sources of the wheel, as the image copies them."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(*command: str | Path, cwd: Path | None = None) -> str:
    ran = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def environment(folder: Path, *arguments: str | Path) -> Path:
    """The Python of a new environment, installed with these arguments."""
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--link-mode", "hardlink", "--python", python, *arguments)
    return python


def said_by_doctor(python: Path, home: Path) -> list[str]:
    """The doctor's lines but for what differs by nature: the version of Python, the place and the room on the disk."""
    ran = subprocess.run(
        [python, "-m", "gateway", "doctor", "--offline", "--home", home],
        cwd=home.parent, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    text = re.sub(r"`\S*/tieline ", "`tieline ", ran.stdout.replace(str(home), "HOME"))
    text = re.sub(r"[\d,]+ MB free", "… MB free", text)
    return [line for line in text.splitlines() if not line.startswith("✓ Python")]


def module_of(package: str) -> str:
    """The name that a requirement is imported by, as a pattern; a hyphen may stand for a dot."""
    return re.split("[<>=[]", package)[0].replace("-", "[._]")


def test_every_extra_is_loaded_by_the_program() -> None:
    """Else it installs what nobody uses."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = "".join(path.read_text() for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    unused = {
        extra
        for extra, packages in extras.items()
        if not any(re.search(rf'(?:= "|import |from ){module_of(package)}\b', code) for package in packages)
    }
    assert not unused


def wheel_of(source: Path, folder: Path) -> Path:
    """The wheel, built into the folder."""
    run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def default_install(folder: Path, wheel: Path) -> Path:
    """The Python of an environment with the locked requirements and the wheel alone."""
    python = environment(folder, "--require-hashes", "-r", LOCK)
    run(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel)
    return python


needs_uv = pytest.mark.skipif(not UV.exists(), reason="uv could not be installed here, and pip takes minutes")


@pytest.mark.slow
@needs_uv
def test_wheel_image_and_make_run_have_the_same_features(source: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    here = said_by_doctor(Path(sys.executable), tmp_path / "home")
    assert any(line.startswith("✓ recall:") for line in here)

    wheel = wheel_of(source, tmp_path / "dist")
    carried = ZipFile(wheel).namelist()
    assert not [name for name in carried if name.startswith(("gateway/testing/", "tests/"))], "that is tieline-testing"
    image = default_install(tmp_path / "image", wheel)
    assert said_by_doctor(image, tmp_path / "home") == here

    plain = environment(tmp_path / "plain", wheel, "--constraint", LOCK)
    assert said_by_doctor(plain, tmp_path / "home") == here


WITHOUT_NETWORK = """
import socket
from importlib.util import find_spec
def refused(*_, **__):
    raise AssertionError("it looks at the network")
socket.getaddrinfo = socket.create_connection = socket.socket.connect = refused
from agent.providers.models import lookup
from agent.providers.tiktokens import counter
for type_, model in (("openai", "gpt-5.4-mini"), ("anthropic", "claude-sonnet-5-5")):
    card = lookup(type_, model)
    print(model, card.window, card.prices.input, card.prices.output, card.prices.cache_read, card.sees)
print(*(counter(name)("hello world") for name in ("cl100k_base", "o200k_base")))
print([name for name in ("litellm", "openai", "httpx", "boto3", "tokenizers", "psycopg") if find_spec(name)])
"""
READS_DOCUMENT = """
import sys
from pathlib import Path
import anyio
from agent.core.messages import FilePart
from agent.documents.documents import Documents
from agent.documents.settings import DocumentSettings
path = Path(sys.argv[1])
Path("sent").mkdir(exist_ok=True)
Path("sent", path.name).write_bytes(path.read_bytes())
file = FilePart(path=f"sent/{path.name}", mime_type="", name=path.name, size=1)
document = anyio.run(Documents(Path.cwd(), DocumentSettings).read, file)
print(document.found.refused, document.beginning.partition("\\n")[0])
"""
KNOWN = [
    "gpt-5.4-mini 272000 0.75 4.5 0.075 True",
    "claude-sonnet-5-5 1000000 2.0 10.0 0.1 True",
    "2 2",
    "[]",
]


def told(*command: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """An ended command, away from the sources, which it would else import."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=Path(str(command[0])).parent, input=stdin, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


async def answer_to(question: str, program: Program) -> str:
    """The answer of the running program, asked at a console."""
    async with program:
        asked = await anyio.to_thread.run_sync(
            lambda: told(program.command[0], "console", "--home", program.home, stdin=question + "\n")
        )
        await program.stop()
    assert asked.returncode == 0, asked.stdout + asked.stderr
    return asked.stdout


@pytest.mark.slow
@needs_uv
def test_the_default_install_does_without_extras(source: Path, tmp_path: Path) -> None:
    """It answers, knows models, counts tokens, and says how to install the extra that a setting needs."""
    python = default_install(tmp_path / "plain", wheel_of(source, tmp_path / "dist"))
    assert run(python, "-c", WITHOUT_NETWORK, cwd=tmp_path).splitlines() == KNOWN
    assert size_mb(tmp_path / "plain" / "lib") <= MOST_MB

    for sample, found in (("docx/table.docx", "None Tea | Cups | Price"), ("pdf/canvas.pdf", "needs_extra ")):
        assert run(python, "-c", READS_DOCUMENT, SAMPLES / sample, cwd=tmp_path).strip() == found.strip()

    tieline = python.with_name("tieline")
    program = Program(tmp_path / "home", "")
    program.command = [str(tieline), "run"]
    assert anyio.run(answer_to, "what can you do?", program).strip()
    messages = program.rows("select count(*) from message")
    assert messages > [(0,)]

    for config, extra, who in NEED_EXTRAS:
        program.write(config)
        for command in ("run", "doctor", "config check"):
            refused = told(tieline, *command.split(), "--home", program.home)
            assert refused.returncode == 78, refused.stdout + refused.stderr
            assert re.search(
                rf'{who} needs the extra "{extra}".* install it: \S.* '
                rf"'\./tieline-[\d.]+-py3-none-any\.whl\[{extra}\]' where the wheel lies",
                refused.stderr,
            ), refused.stderr
    assert program.rows("select count(*) from message") == messages, "nothing is lost"


NEEDS_LITELLM = """
[[llm.providers]]
name = "bedrock"
type = "litellm"
model = "bedrock/anthropic.claude-3-5-haiku-20241022-v1:0"
"""
NEED_EXTRAS = [
    (NEEDS_LITELLM, "litellm", r'llm\.providers \(bedrock\): type "litellm"'),
    ('[database]\nurl = "postgresql://db.invalid/tieline"\n', "postgresql", r"database\.url: PostgreSQL"),
]


def size_mb(folder: Path) -> int:
    """The room that it takes on the disk, in units of 1,048,576 bytes; a file with several names counts once."""
    files = {path.stat().st_ino: path.stat().st_blocks for path in folder.rglob("*") if not path.is_symlink()}
    return sum(files.values()) * 512 // 2**20


def test_the_locks_agree_on_what_they_share() -> None:
    """Each is the one before it and more beside it: no other version, nothing left out."""

    def pinned(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / name).read_text()
        return dict(re.findall(r"^([a-z0-9_.-]+)(?:\[[^\]]*\])?==(\S+)", text, re.MULTILINE))

    locks = [pinned(f"{name}.lock") for name in ("run", "image", "dev")]
    assert 50 < len(locks[0]) < len(locks[1]) < len(locks[2])
    for smaller, larger in pairwise(locks):
        assert {name: larger.get(name) for name in smaller} == smaller
    more = {"psycopg", "psycopg-binary", "pypdfium2", "authlib", "joserfc", "opentelemetry-proto", "protobuf"}
    more |= {"procrastinate", "psycopg-pool", "asgiref", "croniter", "packaging", "python-dateutil", "six"}
    assert set(locks[1]) - set(locks[0]) == more, "PostgreSQL, PDF files, identity providers and OpenTelemetry, too"
