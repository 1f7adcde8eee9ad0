"""The dashboard's frame: rights, the audit log, answers to actions, fragments, tables."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

import gateway.dashboard
from agent.core.clock import SystemClock
from gateway.access.settings import DashboardRight
from gateway.dashboard.frame.listing import Asked, asked, listed
from gateway.dashboard.frame.shell import Done, Page, Section, Shell, action, view
from gateway.storage.operator_actions import OperatorAction
from gateway.web.control import OperationError
from tests.gateway.dashboard.conftest import As, Browsing
from tests.gateway.dashboard.looking import looking


def _client(rights: Sequence[DashboardRight], log: list[OperatorAction]) -> TestClient:
    async def show(request: Request) -> Page:
        if request.path_params["name"] == "gone":
            raise LookupError("This thing is gone.")
        return Page(template="nothing.html", values={"text": f"<b>{request.path_params['name']}</b>"})

    async def change(request: Request) -> Done:
        if request.path_params["name"] == "busy":
            raise OperationError("it is busy", fix="try later")
        return Done(text="Changed.", subject=request.path_params["name"], detail="was old, is new")

    async def audit(done: OperatorAction) -> None:
        log.append(done)

    entries = (
        view("/things/{name}", show),
        action("/things/{name}/change", change, name="things.change"),
        view("/words/{name}", show, needs="transcripts"),
        action("/keys/{name}", change, name="keys.change", needs="configure"),
    )
    shell = Shell([Section(title="Things", group="Work", entries=entries)], audit, SystemClock(), "")
    return TestClient(As(Starlette(routes=list(shell.routes)), frozenset(rights)))


@pytest.mark.requirement("G-59")
@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ([], [403, 403, 403, 403]),
        (["view"], [200, 403, 403, 403]),
        (["view", "operate"], [200, 200, 403, 403]),
        (["view", "transcripts"], [200, 403, 200, 403]),
        (["configure"], [403, 403, 403, 200]),
    ],
)
def test_each_page_and_action_needs_its_own_right(rights: list[DashboardRight], expected: list[int]) -> None:
    log: list[OperatorAction] = []
    client = _client(rights, log)
    answers = [
        client.get("/things/a"),
        client.post("/things/a/change"),
        client.get("/words/a"),
        client.post("/keys/a"),
    ]
    assert [answer.status_code for answer in answers] == expected
    assert len(log) == sum(code == 200 for code in (expected[1], expected[3])), "a refusal changes nothing"


@pytest.mark.requirement("G-60")
def test_a_change_is_kept_with_who_did_it_and_a_refusal_is_told() -> None:
    log: list[OperatorAction] = []
    client = _client(["view", "operate"], log)
    answer = client.post("/things/a/change")
    assert answer.json() == {"text": "Changed."}
    told = json.loads(answer.headers["hx-trigger"])["told"]
    assert told == {"text": "Changed.", "isError": False, "go": ""}
    (done,) = log
    assert (done.person, done.name, done.action, done.subject) == ("web:anna", "Anna", "things.change", "a")
    assert done.detail == "was old, is new"
    refused = client.post("/things/busy/change")
    assert refused.status_code == 409
    assert refused.json() == {"error": "It is busy. Try later."}
    assert len(log) == 1


def test_what_is_gone_is_said_and_names_are_escaped() -> None:
    client = _client(["view"], [])
    assert "&lt;b&gt;a&lt;/b&gt;" in client.get("/things/a").text
    gone = client.get("/things/gone")
    assert gone.status_code == 404
    assert "This thing is gone." in gone.text
    assert "/keys" not in gone.text


def test_a_page_that_is_open_gets_its_content_alone() -> None:
    fragment = _client(["view"], []).get("/things/a", headers={"hx-target": "content"}).text
    assert "<html" not in fragment
    assert "&lt;b&gt;a" in fragment


@pytest.mark.requirement("G-60")
async def test_the_owner_reads_the_audit_log(owner: Browsing) -> None:
    assert "Nothing was changed here yet." in await owner.page("/audit")
    await owner.world.hears(owner.world.said("hello", person="99"))
    page = await owner.page("/")
    assert "Person 99" in page
    async with looking(owner.world, ["view"]) as client:
        shown = (await client.get("/")).text
        assert "Person 99" in shown
        assert "hx-post" not in shown, "who may only look has no buttons"
    code = page.partition("/pairings/")[2].partition("/")[0]
    assert await owner.act(f"/pairings/{code}/approve") == "Person 99 is let in."
    assert "pairings.decide" in await owner.page("/audit")
    assert "pairings.decide" in await owner.page("/audit?find=person+99")
    assert "Nothing of that kind" in await owner.page("/audit?find=%25")
    (done,) = await owner.actions()
    assert (done.person, done.action, done.address) == ("web:operator", "pairings.decide", "127.0.0.1")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, Asked(sort="name", chosen={"state": ""})),
        ({"sort": "size"}, Asked(sort="size", chosen={"state": ""})),
        (
            {"sort": "size", "descending": "1", "page": "3"},
            Asked(sort="size", descending=True, page=3, chosen={"state": ""}),
        ),
        ({"sort": "drop table", "page": "-1", "state": "x"}, Asked(sort="name", chosen={"state": ""})),
        ({"page": "٣", "find": "  a \n b ", "state": "open"}, Asked(sort="name", find="a b", chosen={"state": "open"})),
        ({"page": "99999999999"}, Asked(sort="name", chosen={"state": ""})),
    ],
)
def test_a_look_at_a_table_is_checked(query: dict[str, str], expected: Asked) -> None:
    assert asked(query, columns=("name", "size"), filters={"state": ("open", "closed")}) == expected


def test_a_table_in_memory_is_searched_sorted_and_paged() -> None:
    rows = [f"row {number:03}" for number in range(120)]
    look = asked({"find": "ROW", "sort": "name", "descending": "1", "page": "3"}, columns=("name",))
    page = listed(rows, look, key=lambda row: row, words=lambda row: row)
    assert (page.rows[0], len(page.rows), page.more) == ("row 019", 20, False)
    assert look.by("name") == "?find=ROW&sort=name"
    assert look.address(page=2) == "?find=ROW&sort=name&descending=1&page=2"


def test_each_question_stands_on_the_element_that_acts() -> None:
    """It is looked for there and around it: on the button of a form that acts it would never be asked."""
    templates = [one.read_text() for one in (Path(gateway.dashboard.__file__).parent / "templates").glob("*.html")]
    asking = [tag for text in templates for tag in re.findall(r"<[a-z]+\s[^<]*hx-confirm[^<]*", text)]
    assert asking
    assert [tag for tag in asking if "hx-post=" not in tag] == []
