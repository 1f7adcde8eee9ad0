"""Five processes on one database, each with a home of its own, are one gateway to people, browsers and programs."""

import json
import re
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from agent.core.files.safe import put_whole
from agent.core.ids import ConversationId
from agent.memory.notes import path_of
from agent.tools.mcp import login
from agent.tools.mcp.login import Kept
from agent.tools.mcp.settings import login_file
from tests.adapters.web.visitor import Visitor
from tests.cluster.processes import Members, running
from tests.fakes.waiting import PATIENCE_S
from tests.program import configs
from tests.program.doubles import all_doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program
from tests.program.stage import Stage
from tests.program.test_talking_web import a_room, drafted, hears, texts

ANN = ConversationId("telegram:77")
MCP = "http://127.0.0.1:1/mcp"
GUARDED = f'[[mcp.servers]]\nname = "guarded"\nurl = "{MCP}"\n'


def pid_of(members: Members, table: str, where: str) -> int:
    ((pid,),) = members.rows(f"select pid from process join {table} on process = process.id where {where}")
    return int(pid)


@pytest.mark.requirement(
    "G-137",
    "G-138",
    "G-148",
    "G-149",
    "G-150",
    "G-151",
    "G-152",
    "G-153",
    "G-161",
    "G-162",
    "G-163",
    "G-164",
)
@pytest.mark.timeout(200)
async def test_people_and_browsers_meet_one_gateway(tmp_path: Path, postgres_url: str) -> None:
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        members = Members(tmp_path, postgres_url, config + GUARDED, about={"mcp"})
        ingress, other = members.all[0], members.all[3]
        _had_before(*members.of("worker"))
        async with running(members):
            stage, ann = Stage(doubles, ingress), OnTelegram(doubles)
            assert ingress.process is not None
            assert pid_of(members, "process_claim", "name = 'account:telegram'") == ingress.process.pid
            # A turn: at a worker, set aside while it runs, each call noted before it was made.
            await stage.script("good morning", "Good morning, Ann.", hold="morning", hold_after=1)
            await ann.say("good morning")
            await stage.asking("good morning")
            assert members.rows("select count(*) from usage_hold") == [(1,)]
            await stage.release("morning")
            await ann.hears("Good morning, Ann.")
            await until(lambda: _is(members, "select count(*) from outbox where status <> 'sent'", 0))
            assert members.rows("select count(*) from outbox where called_piece is null") == [(0,)]
            await until(lambda: _is(members, "select count(*) from usage_hold", 0))
            await until(lambda: _is_shared(members, "access-to-be-shared"))
            await _row_alone_wakes(members, ann)
            await _pages_are_one(stage, ingress, other)
            await _another_goes_on(members, stage, ann)
            await _sent_where_nobody_is(members, OnTelegram(doubles, {"id": 4711, "first_name": "Eve"}))


async def _is(members: Members, query: str, value: int) -> bool:
    return members.rows(query) == [(value,)]


def _had_before(one: Program, other: Program) -> None:
    """A login lies in the home of one, the same key in both (G-152)."""
    for each in (one, other):
        put_whole(each.home / "secrets" / "shared.key", "k" * 44)
    kept = Kept(
        url=MCP,
        tokens=OAuthToken(access_token="access-to-be-shared", token_type="Bearer"),
        ends_at=None,
        client=OAuthClientInformationFull(client_id="tieline", redirect_uris=[AnyUrl("http://127.0.0.1/")]),
        token_endpoint="http://127.0.0.1:1/token",
        resource=None,
    )
    login.write(login_file(one.home, "guarded"), kept)


async def _is_shared(members: Members, token: str) -> bool:
    """Whether the other worker has the login, of which the database holds no word."""
    held = members.rows("select content from kept_file where folder = 'secrets'")
    assert token not in str(held)
    there = login_file(members.of("worker")[1].home, "guarded")
    return bool(held) and there.exists() and token in there.read_text()


async def _row_alone_wakes(members: Members, ann: OnTelegram) -> None:
    """A row that anybody writes is sent: it wakes who sends it by itself (G-163)."""
    say = json.dumps({"text": "said by a row alone", "kind": "notice"})
    members.write(
        "insert into outbox (conv, part, dedup, payload, created_at) values (:conv, 0, 'row', :say, tieline_now())",
        {"conv": ANN, "say": say},
    )
    await ann.hears("said by a row alone")


async def _pages_are_one(stage: Stage, ingress: Program, other: Program) -> None:
    """Signed in at one, a browser is signed in at each, and sees there what any of them says (G-150, G-153, G-162)."""
    async with httpx2.AsyncClient(base_url=ingress.url, timeout=PATIENCE_S, trust_env=False) as client:
        page = await client.get(ingress.sign_in_link(), follow_redirects=True)
        token = re.search(r'name="csrf" content="([^"]+)"', page.text)
        assert token, page.text
        browser = Visitor(client, token[1])
        room = await a_room(browser)
        await stage.script("a poem", "roses are red", hold={"begun": 2})
        await browser.say("a poem please", session=room)
        await drafted(browser, room, "roses")
        await stage.release("begun")
        await hears(browser, room, "roses are red")
        await _forgotten_everywhere(stage, browser, OnTelegram(stage.doubles))
        # Behind a proxy all have one port, which the cookie's name carries.
        cookies = {name.replace(str(ingress.port), str(other.port)): value for name, value in client.cookies.items()}
        async with httpx2.AsyncClient(
            base_url=other.url, timeout=PATIENCE_S, trust_env=False, cookies=cookies
        ) as there:
            assert "roses are red" in await texts(Visitor(there, token[1]), room)


async def _forgotten_everywhere(stage: Stage, browser: Visitor, ann: OnTelegram) -> None:
    """Words that the owner has forgotten here are in no request of the worker whose agent knew them (G-164)."""
    await ann.say("my cat is called Mimi")
    await ann.hears("my cat is called Mimi")
    await ann.say("who was that?")
    await ann.hears("who was that?")
    assert "Mimi" in json.dumps((await stage.asked("who was that?"))[-1]["body"])
    headers = {"x-csrf-token": browser.token, "origin": str(browser.client.base_url).rstrip("/")}
    done = await browser.client.post("/memory-all/forget/telegram%3A77", headers=headers)
    assert done.status_code == 200, done.text
    await ann.say("and who is this?")
    await ann.hears("and who is this?")
    assert "Mimi" not in json.dumps((await stage.asked("and who is this?"))[-1]["body"])


async def _another_goes_on(members: Members, stage: Stage, ann: OnTelegram) -> None:
    """A worker dies: another has its conversation, and the notes that lay in its home (G-138, G-151)."""
    pid = pid_of(members, "conversation_host", f"conv = '{ANN}'")
    lost = next(one for one in members.of("worker") if one.process is not None and one.process.pid == pid)
    notes = path_of(lost.home, ANN)
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.write_text("Ann keeps bees.\n")
    await ann.say("what now?")
    await ann.hears("what now?")
    lost.kill()
    with anyio.fail_after(10.0):
        while members.rows(f"select 1 from process where pid = {pid}"):  # noqa: ASYNC110 - rows are only ever asked
            await anyio.sleep(0.1)
    await ann.say("what do I keep?")
    await ann.hears("what do I keep?")
    assert "Ann keeps bees." in json.dumps((await stage.asked("what do I keep?"))[-1]["body"])


async def _sent_where_nobody_is(members: Members, eve: OnTelegram) -> None:
    """No worker has her conversation: the process of the role `delivery` sends what is due there (G-161)."""
    await eve.say("/whoami")
    await eve.hears("4711")
    await until(lambda: _is(members, "select count(*) from conversation_host where conv = 'telegram:4711'", 0))
    sent = await members.all[0].cli("send", "telegram:4711", "for somebody who sleeps")
    assert sent.returncode == 0, sent.stderr
    await eve.hears("for somebody who sleeps")


@pytest.mark.requirement("G-137")
async def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    alone = Program(tmp_path / "h", "")
    refused = await alone.cli("run", "--role", "worker")
    assert refused.returncode == 78
    assert "a SQLite file belongs to one process" in refused.stderr
