"""The life of the process: the port first, the gateway after it, clear words when it cannot start."""

import logging
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import anyio
import pytest

from gateway.app import App, StartError
from gateway.config.read import load
from gateway.config.settings import Settings
from gateway.running.accounts.accounts import Accounts
from gateway.web.control_client import NoGateway, Refused, call, is_running, socket_path
from tests.fakes.waiting import until


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A gateway sends all lines of the process to its own handler; other tests want them back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def settings_of(home: Path, text: str = "", *, port: int = 0) -> Settings:
    home.mkdir(parents=True, exist_ok=True)
    (home / "gateway.toml").write_text(f"{text}\n[web]\nport = {port}\n")
    return load(environ={"TIELINE_HOME": str(home)})


@dataclass
class Running:
    """A gateway in this test's own loop."""

    settings: Settings
    lines: list[str] = field(default_factory=list)
    stop: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.app = App(self.settings, announce=self.lines.append)
        self.app.bind()

    @property
    def url(self) -> str:
        return self.app.web.url

    @property
    def accounts(self) -> Accounts:
        accounts: Accounts = self.app._services.accounts  # noqa: SLF001 - the dashboard reaches them by the web server
        return accounts

    async def run(self) -> None:
        await self.app.run(self.stop)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")  # the socket's path must fit into 107 bytes


@pytest.mark.requirement("G-30")
async def test_the_port_is_bound_before_the_house_is_built(home: Path) -> None:
    gateway = Running(settings_of(home))
    async with aiohttp.ClientSession() as client, anyio.create_task_group() as tasks:

        async def status(path: str) -> int:
            async with client.get(gateway.url + path) as answer:
                return answer.status

        asked = anyio.Event()

        async def ask_early() -> None:
            """A connection that comes before anything serves is answered as soon as something does."""
            assert await status("/healthz") == 200
            assert not gateway.app.ready.is_set()
            assert await status("/readyz") == 503
            asked.set()

        tasks.start_soon(ask_early)
        await anyio.wait_all_tasks_blocked()
        assert not gateway.lines
        tasks.start_soon(gateway.run)
        await asked.wait()
        await gateway.app.ready.wait()
        await gateway.app.heard("console")
        await gateway.app.heard("web")
        assert await status("/readyz") == 200
        assert await status("/metrics") == 200
        gateway.stop.set()
    assert not socket_path(home).exists()


async def test_commands_are_told_to_wait_while_it_starts(home: Path) -> None:
    gateway = Running(settings_of(home))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        with pytest.raises(Refused, match="still starting"):
            await anyio.to_thread.run_sync(call, home, "status")
        assert not gateway.app.ready.is_set()
        await gateway.app.ready.wait()
        assert (await anyio.to_thread.run_sync(call, home, "status"))["provider"] == "demo"
        gateway.stop.set()


async def test_a_journal_gets_no_link_that_signs_somebody_in(home: Path) -> None:
    lines: list[str] = []
    app = App(settings_of(home), announce=lines.append, is_read_by_a_person=False)
    app.bind()
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.run, stop)
        await app.ready.wait()
        stop.set()
    assert not any("code=" in line for line in lines)
    assert any("tieline sign-in" in line or "sign-in" in line for line in lines if line.startswith("Chat:"))


async def test_the_terminal_gets_a_link_that_works_once_and_the_socket_gives_others(home: Path) -> None:
    gateway = Running(settings_of(home))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await gateway.app.ready.wait()
        await gateway.app.heard("web")
        (line,) = [line for line in gateway.lines if "sign-in?code=" in line]
        link = re.sub(r"^\S+\s+", "", line)

        async def landing(url: str) -> tuple[int, str]:
            """The address to which a fresh browser is led."""
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(cookie_jar=jar) as browser, browser.get(url) as answer:
                return answer.status, answer.url.path

        assert await landing(link) == (200, "/chat/")
        assert await landing(link) == (403, "/sign-in")
        other = await anyio.to_thread.run_sync(call, home, "sign-in-link")
        assert other != link
        assert other.startswith(f"{gateway.url}/sign-in?code=")
        assert await landing(other) == (200, "/chat/")
        assert await anyio.to_thread.run_sync(call, home, "version")
        with pytest.raises(Refused, match="no operation 'sign-in-lnk'"):
            await anyio.to_thread.run_sync(call, home, "sign-in-lnk")
        gateway.stop.set()
    with pytest.raises(NoGateway, match="tieline run"):
        call(home, "sign-in-link")


async def test_a_configuration_that_cannot_even_be_refused_ends_nothing(home: Path) -> None:
    """Its watcher breaks and is started again; what is written meanwhile is not missed."""
    gateway = Running(settings_of(home, "[queue]\nmax_depth = 7"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await gateway.app.ready.wait()
        (home / "gateway.toml").write_text("x = " + "[" * 5000)
        await until(lambda: bool(gateway.app.troubles.open))
        assert [(one.kind, one.subject) for one in gateway.app.troubles.open] == [("loop", "configuration")]
        settings_of(home, "[queue]\nmax_depth = 8")
        await until(lambda: gateway.app.live.settings.queue.max_depth == 8)
        gateway.stop.set()


@pytest.mark.requirement("G-28")
async def test_the_links_code_never_reaches_the_log(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Running(settings_of(home))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await gateway.app.ready.wait()
        link: str = await anyio.to_thread.run_sync(call, home, "sign-in-link")
        logging.getLogger("some.library").warning("GET %s", link)
        gateway.stop.set()
    logged = capsys.readouterr().err
    assert "GET " in logged
    assert link.partition("code=")[2] not in logged


@pytest.mark.requirement("G-28")
async def test_tokens_of_platforms_without_an_account_never_reach_the_log(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = (
        "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
        "xoxb-12345678901-abcdefghijkl",
        "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    )
    gateway = Running(settings_of(home))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await gateway.app.ready.wait()
        logging.getLogger("some.library").warning("somebody pasted %s", " and ".join(tokens))
        gateway.stop.set()
    logged = capsys.readouterr().err
    assert "somebody pasted 123456789:[redacted] and xoxb[redacted] and M[redacted]" in logged
    assert [token for token in tokens if token in logged] == []


@pytest.mark.parametrize("configured", [True, False])
async def test_the_library_of_a_configured_platform_tells_warnings_alone(home: Path, configured: bool) -> None:
    account = '[[channels]]\ntype = "slack"\nbot_token = "xoxb-1"\nsigning_secret = "s"\n' if configured else ""
    logging.getLogger("slack_sdk").setLevel(logging.NOTSET)
    gateway = Running(settings_of(home, account))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await until(lambda: any(one.get_name() == "tieline" for one in logging.getLogger().handlers))
        gateway.stop.set()
    assert logging.getLogger("slack_sdk").isEnabledFor(logging.INFO) is not configured


class TestCannotStart:
    def test_a_taken_port_names_the_key_and_gives_the_socket_back(self, home: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(StartError, match=rf"port {port} .* is taken .* set port = .* in section \[web\]"):
                App(settings_of(home, port=port), announce=print).bind()
        assert not socket_path(home).exists()
        assert not is_running(home)
        App(settings_of(home), announce=print).bind()

    def test_a_second_gateway_on_the_same_directory_is_refused(self, home: Path) -> None:
        first = App(settings_of(home), announce=print)
        first.bind()
        with pytest.raises(StartError, match="another gateway runs with this data directory"):
            App(settings_of(home), announce=print).bind()
        assert socket_path(home).exists(), "the first one's"

    def test_what_a_killed_gateway_left_is_no_hindrance(self, home: Path) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
            left.bind(str(socket_path(home)))
        app = App(settings_of(home), announce=print)
        app.bind()
        assert is_running(home)

    def test_a_home_that_cannot_be_made_names_the_variable(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        settings = load(environ={"TIELINE_HOME": str(tmp_path / "file" / "below")})
        with pytest.raises(StartError, match=r"cannot make the data directory .*; set TIELINE_HOME"):
            App(settings, announce=print).bind()

    def test_a_home_whose_path_is_too_long_for_a_socket_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(StartError, match=r"longer than 1.. bytes: .*; set TIELINE_HOME to a shorter path"):
            App(settings_of(tmp_path / ("x" * 110)), announce=print).bind()

    async def test_a_database_that_cannot_be_used_ends_the_run(self, home: Path) -> None:
        (home / "tieline.db").write_text("this is no database at all, not even the beginning of one")
        gateway = Running(settings_of(home))
        with pytest.RaisesGroup(pytest.RaisesExc(StartError, match=r"tieline\.db"), flatten_subgroups=True):
            await gateway.run()
        assert not socket_path(home).exists()

    async def test_a_database_that_another_gateway_holds_ends_the_run(self, home: Path, tmp_path: Path) -> None:
        first = Running(settings_of(home))
        second = Running(settings_of(tmp_path, f'[database]\nurl = "sqlite:///{home}/tieline.db"'))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.run)
            await first.app.ready.wait()
            with pytest.RaisesGroup(pytest.RaisesExc(StartError, match="another|held|use"), flatten_subgroups=True):
                await second.run()
            first.stop.set()


async def test_a_changed_file_counts_without_a_restart(home: Path) -> None:
    settings = settings_of(home, '[queue]\nmode = "queue"')
    gateway = Running(settings)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await gateway.app.ready.wait()
        settings_of(home, '[queue]\nmode = "drop"')
        await until(lambda: gateway.app.live.settings.queue.mode == "drop")
        gateway.stop.set()


async def test_the_log_names_the_data_directory_in_commands_and_rules_about_no_tool(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway = Running(settings_of(home, '[approvals]\ndeny = ["shel", "shell"]'))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await gateway.app.ready.wait()
        logging.getLogger("tieline.storage").error("put a backup in its place with `tieline restore FILE`")
        gateway.stop.set()
    logged = capsys.readouterr().err
    assert f"with `tieline restore FILE --home {home}`" in logged
    assert logged.count("approvals.deny: there is no tool 'shel'") == 1
    assert "'shell'" not in logged


@pytest.mark.requirement("G-82")
async def test_an_account_that_is_gone_when_it_has_opened_ends_nothing(home: Path) -> None:
    """Opening takes a thread, and the first time a second; the file may say something else by then."""
    gateway = Running(settings_of(home))
    token = "123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"
    account = f'\n[[channels]]\ntype = "telegram"\ntoken = "{token}"\napi_base_url = "http://127.0.0.1:1"\n'
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await gateway.app.ready.wait()
        await gateway.app.heard("web")
        settings_of(home, account)
        assert gateway.app.live.reload() == ()
        await until(lambda: "telegram" in gateway.accounts.health())
        settings_of(home)
        gateway.app.live.reload()
        await gateway.accounts.reconnect("telegram")
        await until(lambda: "telegram" not in gateway.accounts.health())
        settings_of(home, account)
        gateway.app.live.reload()
        await until(lambda: "telegram" in gateway.accounts.health())
        gateway.stop.set()
