"""An adapter of the template: green in this tree, and of the wheels alone by the commands of docs/adapter-package.md.

The second part needs a package registry, and takes a minute or two.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from jinja2 import Environment, StrictUndefined

from tests.fakes.waiting import PATIENCE_S
from tools.file_sizes import ROOT

TEMPLATE = ROOT / "template"
PAGE = ROOT / "docs" / "adapter-package.md"
BIN = Path(sys.executable).parent


def rendered(into: Path, name: str) -> Path:
    """The package of the template, as Copier renders it; `tieline-new-adapter` itself is tried below."""
    jinja = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    answers = {"name": name}
    for question, asked in yaml.safe_load((TEMPLATE / "copier.yml").read_text()).items():
        if not question.startswith("_") and question not in answers:
            answers[question] = jinja.from_string(asked["default"]).render(answers)
    for path in (TEMPLATE / "package").rglob("*"):
        if path.is_file():
            place = jinja.from_string(path.relative_to(TEMPLATE / "package").as_posix()).render(answers)
            file = into / place.removesuffix(".jinja")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(jinja.from_string(path.read_text()).render(answers))
    return into


def told(*command: str | Path, cwd: Path, environ: Mapping[str, str] | None = None) -> str:
    """The output of a command that must succeed."""
    ran = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-6000:]}{ran.stderr[-3000:]}"
    return ran.stdout


@pytest.mark.requirement("G-165")
def test_its_adapter_keeps_the_contract(tmp_path: Path) -> None:
    package = rendered(tmp_path / "package", "parley")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(package), str(ROOT)))}
    said = told(sys.executable, "-m", "pytest", "-q", "tests/test_contract.py", cwd=package, environ=environ)
    assert re.search(r"^3\d passed, \d+ skipped in", said, re.MULTILINE), said


@pytest.mark.parametrize("name", ["aim", "zulip"])
def test_its_code_is_tidy_whatever_the_name(tmp_path: Path, name: str) -> None:
    package = rendered(tmp_path / "package", name)
    rules = "E,F,W,I,B,UP,ASYNC,C4,SIM,RUF,PIE,RET,PT,N,PERF"
    told(BIN / "ruff", "check", "--no-cache", "--select", rules, ".", cwd=package)
    told(BIN / "ruff", "format", "--no-cache", "--check", ".", cwd=package)
    left = [path for path in package.rglob("*") if path.is_file() and re.search(r"\{\{|parley", path.read_text())]
    assert not left


# -- of the wheels alone


class Shell:
    """The folder of somebody who has read the page, and the commands that run there beside others."""

    def __init__(self, folder: Path) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TIELINE", "VIRTUAL"))}
        kept = {key: value for key, value in kept.items() if not key.endswith("_API_KEY")}
        # A port of its own: the one of the example may be taken on the machine of a test.
        self.environ = {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}", "TIELINE__WEB__PORT": "0"}
        self.folder = folder
        self.beside: dict[str, subprocess.Popen[str]] = {}
        self.said: dict[str, str] = {}

    def runs(self, line: str) -> None:
        """Run it to its end, or let it run where it would not end by itself."""
        command = line.split()[0].rpartition("/")[2] + " " + " ".join(line.split()[1:])
        if export := re.fullmatch(r"export (.+)", line):
            for assigned in export[1].split():
                key, _, value = assigned.partition("=")
                self.environ[key] = value.replace("$PWD", str(self.folder))
        elif command.endswith(("platform_double.py", "tieline run")):
            with self._log(line).open("w") as log:
                self.beside[line] = subprocess.Popen(
                    ["bash", "-c", f"exec {line}"],
                    cwd=self.folder, env=self.environ, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
                )  # fmt: skip
        else:
            self.said[command] = told("bash", "-c", line, cwd=self.folder, environ=self.environ)

    def _log(self, line: str) -> Path:
        return self.folder / f"{re.sub(r'[^a-z]+', '-', line)}.log"

    def output(self, line: str) -> str:
        """Everything that a command beside has said so far."""
        return self._log(line).read_text()

    def hears(self, line: str, pattern: str) -> re.Match[str]:
        """Wait until a command beside has said it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if found := re.search(pattern, self.output(line)):
                return found
            assert self.beside[line].poll() is None, self.output(line)
            time.sleep(0.1)
        raise AssertionError(f"{line} does not say {pattern!r}:\n{self.output(line)}")

    def types(self, line: str, text: str) -> None:
        stdin = self.beside[line].stdin
        assert stdin is not None
        stdin.write(text + "\n")
        stdin.flush()


@contextmanager
def shell(folder: Path) -> Iterator[Shell]:
    opened = Shell(folder)
    try:
        yield opened
    finally:
        for process in opened.beside.values():
            process.terminate()
        for process in opened.beside.values():
            process.wait(PATIENCE_S)


def blocks(language: str) -> list[str]:
    """The page's blocks of code in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def wheels(into: Path) -> tuple[Path, Path]:
    """Both, as `make wheels` builds them. Nothing else stands in the folder."""
    told("make", "wheels", cwd=ROOT)
    for wheel in (ROOT / "build" / "dist").glob("*.whl"):
        (into / wheel.name).write_bytes(wheel.read_bytes())
    (ours,), (testing,) = into.glob("tieline-*.whl"), into.glob("tieline_testing-*.whl")
    return ours, testing


DOUBLE = ".venv/bin/python tieline-parley/tests/platform_double.py"
RUN = ".venv/bin/tieline run"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.requirement("G-165")
@pytest.mark.skipif(not (BIN / "uv").exists(), reason="uv could not be installed here, which builds the wheels")
def test_each_command_of_the_page_from_the_wheels_to_a_conversation(tmp_path: Path) -> None:
    ours, testing = (set(ZipFile(wheel).namelist()) for wheel in wheels(tmp_path))
    assert not ours & testing, "no file belongs to two packages"
    assert not [name for name in ours if name.startswith(("gateway/testing/", "tests/", "tieline_doubles/"))]
    install, double, look, pair, give = blocks("sh")
    account, entry_point = blocks("toml")
    with shell(tmp_path) as here:
        for line in install.splitlines():
            here.runs(line)
        assert re.search(r" 3\d passed, \d+ skipped in ", here.said["pytest tieline-parley"])
        package = tmp_path / "tieline-parley"
        assert entry_point.strip() in (package / "pyproject.toml").read_text()
        files = [path for path in package.rglob("*") if path.is_file() and ".pytest_cache" not in path.parts]
        sources = [path for path in files if "__pycache__" not in path.parts]
        assert not [path for path in sources if str(ROOT) in path.read_text() or str(tmp_path) in path.read_text()]
        where = ".venv/bin/python -c 'import gateway.testing, tieline_doubles; print(gateway.__file__)'"
        assert str(tmp_path) in told("bash", "-c", where, cwd=tmp_path, environ=here.environ)

        (tmp_path / "home").mkdir(mode=0o700)
        (tmp_path / "home" / "gateway.toml").write_text(account)
        (line,) = double.splitlines()
        assert line == DOUBLE
        here.runs(line)
        here.hears(DOUBLE, "write as Anna")
        for line in look.splitlines():
            here.runs(line)
        assert "channels:  parley," in here.said["tieline config check"]
        assert "✓ parley: signed in as tieline" in here.said["tieline doctor"]
        here.hears(RUN, "Stop with Ctrl-C")
        here.types(DOUBLE, "hello")
        code = here.hears(DOUBLE, r"pairing code is (\w+)")[1]
        for line in pair.splitlines():
            here.runs(line.replace("CODE", code))
        assert "parley: connected" in here.said["tieline status"]
        here.types(DOUBLE, "count to 3")
        here.hears(DOUBLE, r"1.*2.*3")
        for line in give.splitlines():
            here.runs(line)
        assert len(list((tmp_path / "dist").glob("tieline_parley-*.whl"))) == 1

        told(BIN / "mypy", "--python-executable", tmp_path / ".venv/bin/python", cwd=package)
        settings = package / "tieline_parley" / "settings.py"
        settings.write_text("import parley_sdk\n" + settings.read_text())
        refused = subprocess.run(
            [tmp_path / ".venv/bin/tieline", "config", "check"],
            env=here.environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        (promised,) = re.findall(r"^    (channels\[0\].+)$", PAGE.read_text(), re.MULTILINE)
        assert refused.returncode == 78
        assert promised in refused.stderr
