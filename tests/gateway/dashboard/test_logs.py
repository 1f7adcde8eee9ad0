"""Warnings and errors on the dashboard, found by what a person was told; levels of loggers for a while."""

import logging
import re
from collections.abc import Callable, Sequence
from functools import partial

import httpx2
import pytest
from sqlalchemy import text as sql
from starlette.applications import Starlette

from gateway.access.settings import DashboardRight
from gateway.dashboard.frame.shell import Shell
from gateway.dashboard.program.logs import LogPages
from gateway.logs import rows
from gateway.logs.buffer import LogBuffer, LogLine
from gateway.storage.operator_actions import OperatorAction
from tests.fakes.sandbox import sandboxed
from tests.fakes.waiting import until
from tests.gateway.dashboard.conftest import As, Browsing, browsing
from tests.gateway.world import BOB, GROUP, World

pytestmark = sandboxed  # else the start itself logs a warning

HOSTILE = "<script>alert(1)</script>"
LOG = logging.getLogger("tieline.test")


async def kept(world: World) -> list[LogLine]:
    """Lines in the database, the newest first."""
    await world.services.logs.recorder.write()
    return list(await world.database.read(rows.newest))


def fail(world: World) -> None:
    """The model refuses what asks it to break."""
    world.script({"match": {"contains": "break"}, "reply": {"status": 400, "error": {"message": "no"}}})


@pytest.mark.requirement("G-97")
async def test_the_line_is_found_by_what_the_person_was_told(owner: Browsing) -> None:
    assert "Nothing has gone wrong." in await owner.page("/logs")
    fail(owner.world)
    told = await owner.world.asks("break", "Reference")
    ref = re.search(r"Reference (\w+)", told)
    assert ref is not None, told
    await owner.world.answered("and now to something else")
    page = await owner.page(f"/logs?id=%28reference+{ref[1]}%29")
    assert "run failed" in page
    assert "Person 77" in page
    await owner.world.services.traces.flush()
    number = re.search(r'href="/logs/(\d+)"', page)
    assert number is not None
    line = await owner.page(f"/logs/{number[1]}")
    assert "tieline.turn" in line
    assert f'href="/turns/{ref[1]}' in line, "the turn's trace"
    assert 'href="/conversations/telegram%3A77"' in line
    assert "No line matches." in await owner.page("/logs?id=00000000")
    message = await owner.world.database.read(lambda conn: conn.execute(sql("SELECT min(id) FROM inbox")).scalar_one())
    assert "run failed" in await owner.page(f"/logs?id=in-{message}")
    of_it = sql("SELECT id FROM outbox WHERE inbox_id = (SELECT min(id) FROM inbox)")
    answer = await owner.world.database.read(lambda conn: conn.execute(of_it).scalar_one())
    assert "run failed" in await owner.page(f"/logs?id=out-{answer}")
    assert "No line matches." in await owner.page("/logs?id=in-999")


@pytest.mark.requirement("G-97")
async def test_lines_are_filtered_and_open_to_their_traceback(owner: Browsing) -> None:
    await owner.world.answered("hello")
    LOG.warning("the platform is slow with sk-double", extra={"conversation": "telegram:77"})
    try:
        raise ValueError("the egg is bad")
    except ValueError:
        LOG.exception("boiling failed", extra={"conversation": "telegram:78", "run": "4711aabb-1"})
    logging.getLogger("tieline.other").error("unrelated")
    logging.getLogger("tieline.other").info("nothing to see")
    page = await owner.page("/logs")
    assert all(words in page for words in ("slow with [redacted]", "boiling failed", "ValueError: the egg is bad"))
    assert "nothing to see" not in page
    assert page.index("unrelated") < page.index("boiling failed") < page.index("slow with"), "newest first"
    for query, found in (
        ("level=error", {"boiling", "unrelated"}),
        ("level=warning", {"slow"}),
        ("logger=tieline.other", {"unrelated"}),
        ("conversation=telegram:78", {"boiling"}),
        ("conversation=person+77", {"slow"}),
        ("find=EGG", {"boiling"}),
        ("id=4711AABB", {"boiling"}),
        ("conversation=nowhere", set()),
        ("find=100%25", set()),
    ):
        page = await owner.page(f"/logs?{query}")
        rows_of = "".join(re.findall(r"<tr>.*?</tr>", page, re.DOTALL))
        assert {word for word in ("slow", "boiling", "unrelated") if word in rows_of} == found, query
    (number,) = {line.id for line in await kept(owner.world) if "boiling" in line.message}
    line = await owner.page(f"/logs/{number}")
    assert "Traceback (most recent call last)" in line
    assert "raise ValueError" in line
    missing = await owner.visitor.client.get("/logs/99999", headers={"accept": "text/html"})
    assert missing.status_code == 404
    assert "not kept any more" in missing.text


async def test_a_line_of_no_conversation_has_marked_blanks(owner: Browsing) -> None:
    """A phone, where the table is a list, leaves them out."""
    LOG.warning("the disk is slow")
    await owner.world.services.logs.recorder.write()
    page = await owner.page("/logs?find=the+disk+is+slow")
    for name in ("Where", "Reference"):
        assert f'<td data-label="{name}"><span class="soft none">–</span></td>' in page


async def test_what_others_wrote_stays_text(owner: Browsing) -> None:
    logging.getLogger(f"tieline.{HOSTILE}").error(
        "a file called %s", HOSTILE, extra={"conversation": HOSTILE, "run": HOSTILE}
    )
    page = await owner.page("/logs")
    (line,) = await kept(owner.world)
    opened = await owner.page(f"/logs/{line.id}")
    assert HOSTILE not in await owner.page("/log-levels")
    for shown in (page, opened, await owner.page(f"/logs?find={HOSTILE}&id={HOSTILE}&logger={HOSTILE}")):
        assert HOSTILE not in shown
        assert "&lt;script&gt;" in shown


@pytest.mark.requirement("G-97")
async def test_a_flood_is_counted_and_bounded(world_of: Callable[..., World]) -> None:
    world = world_of(config="[logging]\nkeep_lines = 100\n")
    async with world.process(), browsing(world) as owner:
        for _ in range(1_000):
            LOG.error("the disk is full")
        assert [(line.message, line.times) for line in await kept(world)] == [("the disk is full", 1_000)]
        LOG.error("the disk is full")
        assert [line.times for line in await kept(world)] == [1_001], "also in a later batch"
        assert "1,001 times" in await owner.page("/logs")
        for number in range(5_000):
            LOG.error("file %d is lost", number)
        lines = await kept(world)
        assert "more lines came at once" in lines[0].message or "file" in lines[0].message
        assert any(
            "more lines came at once" in line.message
            for line in await world.database.read(partial(rows.newest, most=9_000))
        )
        await world.services.logs.recorder.prune()
        assert len(await world.database.read(partial(rows.newest, most=9_000))) == 100
        world.clock.ahead_s = 15 * 86_400
        await world.services.logs.recorder.prune()
        assert await kept(world) == []


async def test_lines_outlive_the_process(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        LOG.error("before the restart", extra={"conversation": "telegram:77"})
        LOG.error("of another place", extra={"conversation": "telegram:78"})
    async with world.process():
        told = await world.asks("/log", "before the restart")
        assert "another place" not in told


@pytest.mark.requirement("G-97")
@pytest.mark.parametrize("what", ["plover", "all"])
async def test_lines_go_with_what_is_forgotten(world: World, what: str) -> None:
    await world.answered("I like plovers", "plovers")
    for word in ("PLOVER", "heron"):
        LOG.error("cannot read %r", word, extra={"conversation": "telegram:77"})
    LOG.error("plovers are fine elsewhere", extra={"conversation": "telegram:78"})
    assert len(await kept(world)) == 3
    LOG.error("a plover that waits", extra={"conversation": "telegram:77"})
    await world.hears(world.said(f"/memory forget {what}"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    await world.shows("Forgotten.")
    await world.settled()
    left = {line.message for line in await kept(world)}
    assert left == {"plovers are fine elsewhere", *({"cannot read 'heron'"} if what == "plover" else ())}


async def test_in_a_group_a_member_takes_along_the_lines_of_their_own_turns_only(world: World) -> None:
    await world.answered("@bot my umbrella stands there", "umbrella", chat=GROUP, person=BOB)
    read = sql("SELECT run_id FROM turn")
    run = await world.database.read(lambda conn: conn.execute(read).scalar_one())
    LOG.error("of Bob's turn", extra={"conversation": "telegram:-1005", "run": run})
    LOG.error("of the group", extra={"conversation": "telegram:-1005"})
    await kept(world)
    await world.hears(world.said("/memory forget all", chat=GROUP, person=BOB))
    await world.shows("Forget this for good?", GROUP)
    await world.hears(world.said("yes", chat=GROUP, person=BOB))
    await world.shows("Forgotten.", GROUP)
    await world.settled()
    assert [line.message for line in await kept(world)] == ["of the group"]


async def test_a_database_that_fails_costs_no_turn_and_begins_no_loop(owner: Browsing) -> None:
    world = owner.world
    await world.database.write(lambda conn: conn.execute(sql("ALTER TABLE log_entry RENAME TO gone")))
    LOG.error("nobody can keep this")
    assert await world.answered("and yet", "and yet")
    for _ in range(3):
        await world.services.logs.recorder.write()
    await world.database.write(lambda conn: conn.execute(sql("ALTER TABLE gone RENAME TO log_entry")))
    LOG.error("this is kept")
    assert [line.message for line in await kept(world)] == ["this is kept"]


async def test_nothing_is_kept_where_the_configuration_says_so(world_of: Callable[..., World]) -> None:
    world = world_of(config="[logging]\nkeep = false\n")
    async with world.process(), browsing(world) as owner:
        LOG.error("lost", extra={"conversation": "telegram:77"})
        assert "Lines are not kept" in await owner.page("/logs")
        assert await kept(world) == []
        assert "No warning and no error" in await world.asks("/log")


@pytest.mark.requirement("G-98")
async def test_a_level_holds_for_a_while_and_over_a_restart(
    world_of: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    world, name = world_of(), "tieline.turn"
    logger = logging.getLogger(name)
    before = logger.level
    async with world.process(), browsing(world) as owner:
        assert "Every logger has its usual level." in await owner.page("/log-levels")
        told = await owner.act("/log-level/choose", logger=name, level="debug", **{"for": "1h"})
        where = "the standard error of the gateway (under systemd: journalctl -u tieline)"
        assert told == f"tieline.turn logs debug for 1 hour. Its lines go to {where}."
        assert f"debug and info lines go to {where}." in await owner.page("/logs")
        assert logger.level == logging.DEBUG
        logger.debug("how it goes")
        assert "how it goes" in caplog.text
        assert "tieline.turn at debug" in await owner.page("/logs")
        await owner.act("/log-level/choose", logger="tieline.storage", level="error", **{"for": "start"})
        (action, _) = await owner.actions()
        assert (action.action, action.subject, action.detail) == ("logs.level", name, "debug for 1 hour")
        assert await kept(world) == [], "the database keeps no debug lines"
    assert logger.level == before, "the end of the process leaves nothing behind"
    world.clock.ahead_s += 1_800
    async with world.process(), browsing(world) as owner:
        assert logger.level == logging.DEBUG
        page = await owner.page("/log-levels")
        assert "As before" in page
        assert "<strong>tieline.storage</strong>" not in page, "that one was until the next start"
        world.clock.ahead_s += 1_801

        async def is_over() -> bool:
            return await world.database.read(rows.chosen_levels) == []

        await until(is_over)
        assert logger.level == before
        assert "Every logger has its usual level." in await owner.page("/log-levels")


@pytest.mark.parametrize(
    ("rights", "sees"), [(("view", "operate", "transcripts"), False), (("view", "configure"), True)]
)
async def test_looking_needs_the_right_to_configure(
    owner: Browsing, rights: Sequence[DashboardRight], sees: bool
) -> None:
    LOG.error("tells of doings", extra={"conversation": "telegram:77"})
    services = owner.world.services
    logs = services.logs
    section = LogPages(
        database=services.database,
        clock=owner.world.clock,
        recorder=logs.recorder,
        levels=logs.levels,
        is_kept=True,
    ).section()

    async def unkept(done: OperatorAction) -> None: ...

    app = As(Starlette(routes=list(Shell([section], unkept, owner.world.clock, "").routes)), frozenset(rights))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://there") as anna:
        page = await anna.get("/logs")
        assert ("tells of doings" in page.text) is sees
        assert 'href="/conversations/' not in page.text, "she may not read what people say"
        form = {"logger": "tieline", "level": "debug", "for": "1h"}
        chosen = await anna.post("/log-level/choose", data=form)
        assert (page.status_code, chosen.status_code) == ((200, 200) if sees else (403, 403))


@pytest.mark.requirement("G-98")
async def test_a_level_is_taken_back_and_a_wrong_one_refused(owner: Browsing) -> None:
    root = logging.getLogger("tieline")
    before = root.level
    await owner.act("/log-level/choose", logger="tieline", level="debug", **{"for": "15m"})
    assert root.level == logging.DEBUG
    await owner.act("/log-level/choose", logger="tieline", level="warning", **{"for": "15m"})
    assert root.level == logging.WARNING
    assert await owner.act("/log-level/reset/tieline") == "tieline logs as before."
    assert root.level == before
    for form, says in (
        ({"logger": "root", "level": "debug", "for": "1h"}, "is no logger of Tieline"),
        ({"logger": "tieline.nothing", "level": "debug", "for": "1h"}, "no logger 'tieline.nothing'"),
        ({"logger": "tieline", "level": "loud", "for": "1h"}, "is no level"),
        ({"logger": "tieline", "level": "debug", "for": "ever"}, "for how long"),
    ):
        response = await owner.post("/log-level/choose", **form)
        assert response.status_code == 409
        assert says in response.json()["error"]
    response = await owner.post("/log-level/reset/tieline")
    assert response.status_code == 404
    assert root.level == before


@pytest.mark.requirement("G-97")
async def test_a_line_that_no_database_takes_costs_no_other(owner: Browsing) -> None:
    LOG.warning("one before")
    # To this handler alone: the test runner could not report such a line.
    buffer = next(one for one in logging.getLogger().handlers if isinstance(one, LogBuffer))
    half = {"msg": "half \ud83d of an emoji", "conversation": "web:\ud83d"}
    buffer.handle(logging.makeLogRecord({"name": LOG.name, "levelno": logging.WARNING, "levelname": "WARNING", **half}))
    LOG.warning("one behind")
    told = {line.message for line in await kept(owner.world)}
    assert {"one before", "half \ufffd of an emoji", "one behind"} <= told


async def test_the_file_of_all_lines_is_named(world_of: Callable[..., World]) -> None:
    async with world_of(config='[logging]\nfile = "logs/all.log"\n').process() as world, browsing(world) as owner:
        assert f"and to {world.home}/logs/all.log" in await owner.page("/log-levels")
