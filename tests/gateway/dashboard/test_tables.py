"""Tables of lists: on a phone each cell stands with the name of its column, so none scrolls sideways."""

import re

import pytest

from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.world import BOB, slowly

TABLE = re.compile(r'<table class="narrow[^>]*>(.*?)</table>', re.DOTALL)
HEADING = re.compile(r'<th scope="col"[^>]*>(.*?)</th>', re.DOTALL)
CELL = re.compile(r'<(?:td|th scope="row")(?: data-label="([^"]*)")?')


@pytest.mark.parametrize(
    "path",
    [
        "/conversations",
        "/conversation-window/telegram%3A77",
        "/turns",
        "/schedules",
        "/delivery?box=waiting",
        "/audit",
        "/people",
        "/sign-ins",
        "/places/telegram%3A77",
        "/memory/telegram%3A77",
        "/providers/a",
        "/accounts",
        "/skills",
        "/settings",
        "/programs",
    ],
)
async def test_each_cell_has_the_name_of_its_column(owner: Browsing, path: str) -> None:
    world = owner.world
    await world.asks("/remind every day at 9:00 water the plants", person=BOB)
    await world.answered("hello")
    await world.asks("/memory add the kettle is blue", "Kept as fact")
    await owner.act("/conversation/clear/telegram%3A77")
    await world.services.doors.keys.create({"name": "crm", "scopes": ["chat"]})
    await world.services.traces.flush()
    world.script(slowly("think hard"))
    await world.say("think hard")
    await world.until_asked(2)
    await world.say("and another thing")
    page = await owner.page(path)
    assert page.count("<table") == len(TABLE.findall(page)) == 1
    (table,) = TABLE.findall(page)
    head, _, body = table.partition("</thead>")
    names = [re.sub(r"<[^>]*>|[↑↓]", "", heading).strip() for heading in HEADING.findall(head)]
    rows = body.split("<tr>")[1:]
    assert rows
    for row in rows:
        assert CELL.findall(row) == ["", *names[1:]]
    world.go_on("think hard")
    await world.settled()
