"""The page on connections is true: the default install tries what its table says, and no more."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.program.attempts import IDLE_S, LISTENS, Seen, address_in, attempts

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "connections.md"
# The row of the table for each part of a run.
ROWS = {
    "init": "`tieline init`",
    "start": "`tieline run`, the start",
    "turn": "a turn",
    "idle": "an idle minute",
    "backup": "`tieline backup` beside it",
    "doctor": "`tieline doctor --drill` beside it",
    "stop": "the end",
    "first look": "a first look, without a configuration",
}
# Addresses in the code that nobody connects to: examples in texts for people.
EXAMPLES = re.compile(r"(^|\.)example\.(org|com|net)\.?$|^(localhost|proxy|127\.[\d.]+|…|wiki\.corp|host(\[)?)$")


def told() -> Mapping[str, tuple[set[str], set[str]]]:
    """The table: what each row says it connects to, and listens on."""
    section = PAGE.read_text().partition("## The default install")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {at: (_things(connects), _things(listens)) for at, connects, listens in rows[2:]}


def _things(cell: str) -> set[str]:
    return set() if cell == "nothing" else {thing.strip() for thing in cell.split(",")}


def compared(seen: Seen) -> None:
    """Each part of the run tried exactly what its row says."""
    rows = told()
    found = {
        ROWS[part]: (
            {one for one in tried if not one.startswith(LISTENS)},
            {one.removeprefix(LISTENS) for one in tried if one.startswith(LISTENS)},
        )
        for part, tried in seen.items()
    }
    assert found == {at: rows[at] for at in found}


@pytest.mark.alone
@pytest.mark.requirement("G-39")
async def test_the_default_install_tries_what_the_page_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    """By audit hooks: what Python's own sockets do."""
    seen = await attempts(tmp_path_factory.mktemp("h", numbered=True), "hooks", idle_s=0, first_look=False)
    compared(seen)


@pytest.mark.slow  # an idle minute
@pytest.mark.requirement("G-39")
def test_without_a_network_no_system_call_tries_more(tmp_path_factory: pytest.TempPathFactory) -> None:
    """By strace, in a network namespace: every process and thread, native libraries and lookups of names too."""
    for program in ("strace", "bwrap"):
        if shutil.which(program) is None:
            pytest.skip(f"this needs {program}")
    apart = ["bwrap", "--dev-bind", "/", "/", "--unshare-net"]
    if subprocess.run([*apart, "strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespaces, or no tracing, here")
    folder = tmp_path_factory.mktemp("h", numbered=True)
    ran = subprocess.run(
        [*apart, sys.executable, "-m", "tests.program.attempts", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=IDLE_S + 200,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert set(seen) == set(ROWS)
    compared(seen)


def test_each_row_of_the_table_is_tried() -> None:
    assert set(told()) == set(ROWS.values())


def test_each_host_that_the_code_names_is_on_the_page() -> None:
    page = PAGE.read_text()
    missing = sorted({f"{host} ({where})" for where, host in hosts() if host not in page and not EXAMPLES.search(host)})
    assert missing == []


def hosts() -> Iterator[tuple[str, str]]:
    """Hosts of the addresses in the code's own texts, documentation of functions apart."""
    for package in ("agent", "gateway", "adapters"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.is_relative_to(ROOT / "gateway" / "testing"):
                continue
            if "://" not in (text := path.read_text()):
                continue
            tree = ast.parse(text)
            documented = {
                ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in documented:
                    for host in re.findall(r"\b(?:https?|wss?)://([\w.…-]+)", node.value):
                        yield str(path.relative_to(ROOT)), host


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize(
    ("line", "address"),
    [
        pytest.param(
            '7 1.0 connect(5, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("9.9.9.9")}, 16) = 0',
            "9.9.9.9:53",
            id="a lookup of a name",
        ),
        pytest.param(
            "7 1.0 connect(5, {sa_family=AF_INET6, sin6_port=htons(443), sin6_flowinfo=htonl(0), "
            'inet_pton(AF_INET6, "2001:db8::1", &sin6_addr), sin6_scope_id=0}, 28 <unfinished ...>',
            "2001:db8::1:443",
            id="IPv6, in a thread",
        ),
        pytest.param(
            '7 1.0 sendto(5, "", 0, 0, {sa_family=AF_INET, sin_port=htons(8125), sin_addr=inet_addr("10.0.0.1")}, 16)',
            "10.0.0.1:8125",
            id="a datagram",
        ),
        pytest.param(
            '7 1.0 connect(3, {sa_family=AF_UNIX, sun_path="/run/nscd/socket"}, 110) = -1 ENOENT (No such file)',
            "/run/nscd/socket",
            id="a socket of the machine",
        ),
        pytest.param('7 1.0 bind(3, {sa_family=AF_UNIX, sun_path=@"x"}, 5) = 0', "listens on @x", id="an abstract one"),
        pytest.param('7 1.0 sendto(5, "\\0", 1, 0, NULL, 0) = 1', None, id="what is connected already"),
        pytest.param("7 1.0 bind(5, {sa_family=AF_NETLINK, nl_pid=1}, 12) = 0", None, id="the kernel"),
    ],
)
def test_addresses_are_read_out_of_system_calls(line: str, address: str | None) -> None:
    assert address_in(line) == address
