"""Every command line of the documentation: ours are run on a gateway that has all sections of the pages, others parsed.

`ADMINISTRATION` is the short list of programs that need root, containers or another machine: their words are compared
with the files and options that there are. What they run inside, such as `docker compose exec tieline tieline doctor`,
is one of our commands again.
"""

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import click
import httpx2
import pytest
import yaml
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, make_url

from gateway.cli.main import COMMANDS, cli
from tests.docs.blocks import SHELL, Block, lines_of, of_kind, program_of
from tests.docs.settings import merged, surroundings
from tests.gateway.importers.copies import copy_of
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles
from tests.program.people import OnTelegram
from tests.program.running import Program
from tools.docs import ROOT

# Programs that a test cannot run: they need root, containers, another machine or a package registry.
ADMINISTRATION = (
    "cp", "createdb", "createuser", "docker", "git", "install", "journalctl", "kubectl", "pg_dump", "pg_restore",
    "pip", "psql", "python3", "sudo", "systemctl", "systemd-run", "useradd", "uvx",
)  # fmt: skip
# Commands of ours that other tests run, and where. They are parsed here.
ELSEWHERE = {
    r"run\b": "tests/program/running.py",
    r"run --role": "tests/cluster/crew.py",
    r"mcp login": "tests/program/test_mcp_login.py",
    r"migrate --check": "tests/gateway/cli/test_migrate.py",
    r"migrate --to": "tests/gateway/cli/test_migrate.py",
    r"restore \S+\.db": "tests/gateway/cli/test_damage.py",
}
PICTURE = ROOT / "docs" / "figures" / "group" / "settings.png"
OFFLINE = ("init", "import", "restore", "migrate", "upgrade")  # for a data directory that no gateway holds
KEYS = (("web", "--scope", "chat"), ("build", "--scope", "send", "--place", "*"))
PASSWORD = "correct horse battery"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BIN = Path(sys.executable).parent
# What `doctor` says of the sections of the pages where they are in force.
IN_FORCE = (
    "✓ MCP server time", "MCP server tracker", "alerts by e-mail: ", "alerts by webhook: ", "✓ events to crm",
    "OpenTelemetry: ", "✓ people: ann", "webhook builds: ", "webhook paid: ", "messages older than 90 days are removed",
)  # fmt: skip
INIT = ["compatible", "a-model", "http://127.0.0.1:{port}/v1", "sk-double", "n", "n", "n", "pairing", ""]
LEFT_TO_THE_LOADER = (
    "access",
    "database",
    "web",
    "channels",
    "llm",
)  # they name other machines, or what this gateway has anyway


def ours(line: str) -> list[str]:
    """The words of our command in a line, also of one within a container or behind `sudo`; none where there is none."""
    words = shlex.split(line)
    for at, (word, then) in enumerate(pairwise(words)):
        if word.rpartition("/")[2] == "tieline" and then in COMMANDS:
            return words[at + 1 :]
    return []


def parsed(words: Sequence[str]) -> None:
    """Have click read the words, and nothing done. Raises click.ClickException."""
    command: click.Command = cli
    context, left = click.Context(cli, info_name="tieline"), list(words)
    while isinstance(command, click.Group):
        left = click.Command.parse_args(command, context, left)  # a group's own would take the next name away
        if not left and command.invoke_without_command:
            return
        name, found, left = command.resolve_command(context, left)
        assert found is not None
        command, context = found, click.Context(found, info_name=name, parent=context)
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            parameter.type.exists = False
    command.parse_args(context, left)


LINES = [(block, line) for block in of_kind("console") for line in lines_of(block.text)]


def test_our_commands_take_their_words() -> None:
    wrong = []
    for block, line in LINES:
        try:
            parsed(ours(line) or ["version"])
        except click.ClickException as error:
            wrong.append(f"{block.where}: {line}: {error.format_message()}")
    assert wrong == []
    assert sum(bool(ours(line)) for _, line in LINES) > 60


@pytest.mark.parametrize(("words", "test"), ELSEWHERE.items())
def test_what_is_left_to_another_test_is_shown_and_run_there(words: str, test: str) -> None:
    assert any(re.match(words, " ".join(ours(line))) for _, line in LINES)
    last = re.findall(r"(?:--)?[a-z]{2,}", words.removesuffix(r"\b").removesuffix(r" \S+\.db"))[-1]
    assert f'"{last}"' in (ROOT / test).read_text()


def test_a_command_with_a_wrong_word_is_none() -> None:
    with pytest.raises(click.ClickException, match="No such option"):
        parsed(["backup", "--verfy", "x"])


# -- run on a gateway


@dataclass(slots=True)
class Gateway:
    """A gateway with all sections of the pages, and who types its commands, in a folder of their own."""

    program: Program
    doubles: Doubles
    folder: Path
    strangers: int = 900

    async def tieline(self, words: Sequence[str], home: Path | None = None, **environ: str) -> Result:
        """The command as somebody types it; what it asks is answered."""
        here = home in (None, self.program.home)
        kept = {name: value for name, value in self.program.environ.items() if here or not name.startswith("TIELINE__")}
        env = {**kept, "TIELINE_HOME": str(home or self.program.home), **environ}
        init = (word.format(port=self.doubles.llm.port) for word in INIT)
        stdin = "\n".join(init if words[0] == "init" else [PASSWORD, PASSWORD]) + "\n"

        def run() -> Result:
            with chdir(self.folder):
                return CliRunner(env=env).invoke(cli, list(words), input=stdin, prog_name="tieline")

        return await anyio.to_thread.run_sync(run)

    async def code(self) -> str:
        """A pairing code that somebody was told who has just asked to be let in."""
        self.strangers += 1
        stranger = OnTelegram(self.doubles, {"id": self.strangers, "first_name": "Zoe"})
        await stranger.say("hello")
        (code,) = re.findall(r"\b[A-Z2-9]{8}\b", await stranger.hears("code", chat=self.strangers))
        return str(code)

    async def filled(self, word: str) -> str:
        """The word, or what stands here for an example of the pages."""
        match word:
            case "ABCD2345":
                return await self.code()
            case "3f2a9c":
                listed = await self.tieline(["sign-ins"])
                return next(iter(re.findall(r"^[0-9a-f]{6,}", listed.output, re.MULTILINE)), word)
            case "FILE":
                return str(max((self.program.home / "backups").glob("*.tar")))
            case _:
                return re.sub("^(/mnt/safe|/root|/var/lib)(?=/)", str(self.folder), word)

    async def does(self, line: str, home: Path | None = None, **environ: str) -> str:
        """The mistake that shows when our command of the line is typed; "" where none does."""
        words = [await self.filled(word) for word in ours(line)]
        ran = await self.tieline(words, home, **environ)
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            return f"{line}: {ran.exception!r}"
        allowed = (0, 1) if words[0] == "doctor" else (0,)  # it finds fault with what the pages name elsewhere
        return "" if ran.exit_code in allowed else f"{line}: {ran.exit_code} {ran.output[-500:]}"

    async def shell(self, script: str, **environ: str) -> str:
        """The output of a script of a page, whose requests go to this gateway. Raises CalledProcessError."""
        script = script.replace("127.0.0.1:8080", f"127.0.0.1:{self.program.port}")
        script = script.replace("curl ", "curl -sS --fail-with-body ").replace("T0123:C0456", "T0DOUBLE:C0GENERAL")
        ran = await anyio.run_process(
            ["bash", "-euc", script], cwd=self.program.home, env={**self.program.environ, **environ}
        )
        return ran.stdout.decode()


def sections() -> dict[str, Any]:
    """All sections of all pages in one table, with addresses of this machine for those of others."""
    found: dict[str, Any] = {}
    for block in of_kind("configuration"):
        text = re.sub(r"https://[a-z.]*example\.org", "http://127.0.0.1:9", block.text)
        table = tomllib.loads(text.replace("smtp.example.org", "127.0.0.1"))
        found = merged(found, {name: value for name, value in table.items() if name not in LEFT_TO_THE_LOADER})
    for receiver in found["events"]:
        receiver["allow_private"] = ["127.0.0.1"]
    disk = {"name": "disk", "secret": "file:secrets/disk", "place": "telegram:77", "template": "Disk: {{ disk }}"}
    found["webhooks"].append({**disk, "style": "generic", "mode": "say"})
    return found


def script_of(block: Block) -> str:
    """The lines of a block that send a request, and what they need."""
    return "\n".join(line for line in lines_of(block.text) if program_of(line) in ("body", "sign", "curl"))


def once(lines: Iterator[tuple[Block, str]]) -> Iterator[tuple[Block, str]]:
    """The lines without those whose command stands on an earlier page."""
    seen = set()
    for block, line in lines:
        words = " ".join(ours(line))
        if words not in seen:
            seen.add(words)
            yield block, line


async def test_commands_and_requests_do_what_the_pages_say_on_a_gateway_with_their_sections(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    home, found = tmp_path_factory.mktemp("h", numbered=True), sections()
    for name in ("report.pdf", "payload.json", "passphrase"):
        (tmp_path / name).write_text('{"workflow_run": {"conclusion": "failure"}}')
    environ = {f"TIELINE__{name.upper()}": json.dumps(value) for name, value in found.items()}
    environ |= {**surroundings(found, home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    run = [
        (block, line)
        for block, line in once(iter(LINES))
        if (words := ours(line)) and not re.match("|".join(ELSEWHERE), shlex.join(words))
    ]
    wrong = []
    async with all_doubles() as doubles:
        prices = "context_window = 128000\nprices = {input = 1.0, output = 1.0}"  # a limit in USD needs them
        models = configs.models(doubles, "main", "local").replace("context_window = 128000", prices)
        channels = configs.telegram(doubles) + configs.slack(doubles) + configs.discord(doubles)
        access = '[access]\nadmins = ["telegram:77"]\nallow_groups = ["telegram:-1005"]\n'
        program = Program(home, access + models + channels, environ, about={"documentation"})
        gateway, ann = Gateway(program, doubles, tmp_path), OnTelegram(doubles)
        async with program:
            await ann.say("good morning")
            await ann.hears("good morning")
            await ann.say("to all", chat={"id": -1005, "type": "supergroup", "title": "All"})
            await ann.hears("to all", chat=-1005)
            await on_the_web(program)
            for block, line in run:
                if ours(line)[0] not in OFFLINE and (mistake := await gateway.does(line)):
                    wrong.append(f"{block.where}: {mistake}")
            wrong += await requests(gateway)
            shown = json.loads((await gateway.tieline(["config", "show"])).output)
            assert {one["name"] for one in shown["webhooks"]} == {one["name"] for one in found["webhooks"]}
            checked = (await gateway.tieline(["doctor"])).output
            assert [line for line in IN_FORCE if line not in checked] == []
            assert await program.stop() == 0
        backup = max((home / "backups").glob("*.tar"))
        for block, line in run:
            if (words := ours(line))[0] in OFFLINE:
                place = tmp_path / f"{block.line}-{words[0]}"
                (place / "backups").mkdir(parents=True, exist_ok=True)
                example = place / "backups" / words[-1].rpartition("/")[2]
                if words[0] == "restore":
                    shutil.copy(backup, example)
                if words[0] in ("upgrade", "migrate"):
                    place = home
                if words[0] == "import" and not (tmp_path / ".openclaw").exists():
                    copy_of("openclaw", tmp_path)
                line = line.replace("~/.tieline", str(place))
                if mistake := await gateway.does(line, place, HOME=str(tmp_path)):
                    wrong.append(f"{block.where}: {mistake}")
    assert not wrong, "\n".join(wrong)


async def on_the_web(program: Program) -> None:
    """Somebody signs in there."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        page = await client.get(program.sign_in_link(), follow_redirects=True)
        assert page.status_code == 200


async def requests(gateway: Gateway) -> list[str]:
    """Mistakes of the requests that the pages show."""
    made = [await gateway.tieline(["key", "create", name, *more]) for name, *more in KEYS]
    chat, send = (re.findall(r"sk-tieline-\S+", one.output)[0] for one in made)
    wrong = []
    for block in of_kind("console"):
        if script := script_of(block):
            try:
                answer = json.loads(await gateway.shell(script, KEY=send))
            except (subprocess.CalledProcessError, ValueError) as error:
                output = getattr(error, "output", b"")
                wrong.append(f"{block.where}: {error} {output!r}")
            else:
                assert answer.get("accepted") or answer.get("state") in ("sent", "waiting"), answer
    malformed = {"place": "slack:T0/C0", "text": "x"}  # Slack's places have a colon
    async with httpx2.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {send}"}) as door:
        refused = await door.post(f"{gateway.program.url}/api/send", json=malformed)
    assert (refused.status_code, "is no place" in refused.text) == (400, True)
    (client,) = (block for block in of_kind("python") if "openai" in block.text)
    text = client.text.replace("http://127.0.0.1:8080", gateway.program.url).replace("sk-tieline-…", chat)
    names: dict[str, Any] = {}
    await anyio.to_thread.run_sync(lambda: exec(text, names))
    assert "What did we plan for Friday?" in names["answer"].choices[0].message.content
    (picture,) = (block for block in of_kind("python") if "image_url" in block.text)
    names["open"] = lambda name, mode: {"kiln.png": PICTURE}[name].open(mode)
    await anyio.to_thread.run_sync(lambda: exec(picture.text, names))
    return wrong


# -- what cannot be run here


DEPLOYMENTS = {
    f"deploy/{one['metadata']['name']}"
    for file in (ROOT / "deploy" / "kubernetes").rglob("*.yaml")
    for one in yaml.safe_load_all(file.read_text())
    if one and one.get("kind") == "Deployment"
}


def services(words: Sequence[str]) -> set[str]:
    """The services of the Compose file that the words name."""
    file = ROOT / words[words.index("-f") + 1]
    return set(yaml.safe_load(file.read_text())["services"])


def mistakes_in(line: str) -> Iterator[str]:
    """Names in a line for an administrator that stand for nothing: files of ours, services, extras."""
    words = shlex.split(line)
    for word in words:
        path = word.partition("=")[2] or word
        if words[0] == "kubectl" and path in DEPLOYMENTS:
            continue
        if re.match(r"(deploy|config|requirements)/", path) and not (ROOT / path).exists():
            yield f"no {path}"
        if (extra := re.search(r"\[(\w+)\]$", word)) and extra[1] not in PROJECT["project"]["optional-dependencies"]:
            yield f"no extra {extra[1]}"
    if words[:2] == ["docker", "compose"] and ("exec" in words or "run" in words):
        rest = words[words.index("exec" if "exec" in words else "run") + 1 :]
        service = next(word for word in rest if not word.startswith("-"))
        if service not in services(words):
            yield f"no service {service}"


OTHERS = [
    (block, line) for block, line in LINES if program_of(line) not in (*SHELL, "tieline", "curl", "openssl", "make")
]
MAKE = [(block, line) for block, line in LINES if "make " in line and program_of(line) in ("make", "git")]


def test_lines_for_an_administrator_name_what_there_is() -> None:
    assert {program_of(line) for _, line in OTHERS} == {*ADMINISTRATION}, "the list is as short as the pages allow"
    assert [f"{block.where}: {line}: {told}" for block, line in OTHERS for told in mistakes_in(line)] == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("docker compose -f deploy/compose.yaml exec tielin tieline doctor", "no service tielin"),
        ("pip install '.[semantics]'", "no extra semantics"),
        ("cp deploy/systemd/tieline.servic /etc", "no deploy/systemd/tieline.servic"),
    ],
)
def test_a_line_that_names_what_is_not_there_is_found(line: str, told: str) -> None:
    assert list(mistakes_in(line)) == [told]


def test_make_knows_what_to_do_for_each_line() -> None:
    """A dry run: the commands that make would give, none of them done."""
    script = "\n".join({re.sub(r".*\bmake ", "make --dry-run --silent ", line): "" for _, line in MAKE})
    ran = subprocess.run(["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "tieline run" in ran.stdout


def test_a_shared_key_is_made_as_the_pages_say(tmp_path: Path) -> None:
    lines = [line for _, line in LINES if program_of(line) == "openssl" and ">" in line]
    assert len(lines) == 2
    (tmp_path / "secrets").mkdir()
    for line in lines:
        subprocess.run(["bash", "-euc", line], cwd=tmp_path, check=True)
    for file in (tmp_path / "shared.key", tmp_path / "secrets" / "shared.key"):
        assert len(base64.b64decode(file.read_text())) == 32


def test_statements_of_the_pages_are_done_by_the_database(postgres_url: str) -> None:
    statements = [shlex.split(line)[-1] for _, line in LINES if program_of(line) == "psql"]
    assert len(statements) == 2
    engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()
