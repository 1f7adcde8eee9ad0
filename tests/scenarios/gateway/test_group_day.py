"""A recorded day of a group, with a model that wants to speak wherever somebody asks anything: who is spoken to."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Row, Select, select

from agent.group_context.settings import AmbientSettings
from agent.storage.tables import ambient_turn, group_message, metadata
from gateway.channels.inbound import Mention, Sender
from gateway.channels.keys import UserId
from tests.gateway.world import GROUP, World
from tests.scenarios.gateway.test_group_context import SILENT, TOLD, WINDOW

RECORDING = Path(__file__).parents[2] / "recordings" / "groups" / "team_day.json"
# The tokens of a day have a test of their own, and would end this one after some seventy turns; the rest is as shipped.
AMBIENT = f'{WINDOW}mention = "ambient"\n\n[ambient]\ndaily_tokens = 2_000_000\n'
SPOKEN = "I happen to know that."
PEOPLE = {"ann": "77", "bob": "78", "cem": "79", "dora": "80", "eli": "81"}
ERRORS = ("2027 is a Saturday", "1 bar is 10 kilopascal")  # whoever reads these wants to speak as well
EAGER: tuple[dict[str, Any], ...] = (
    *({"match": {"outside": words}, "reply": {"text": SPOKEN}} for words in ("?", *ERRORS)),
    {"match": {}, "reply": {"blocks": [SILENT]}},
)


def minutes(at: str) -> int:
    hours, _, rest = at.partition(":")
    return 60 * int(hours) + int(rest)


@pytest.fixture
def day() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(RECORDING.read_text())
    return loaded


def test_the_recording_is_what_the_day_below_needs(day: list[dict[str, Any]]) -> None:
    """Else it could not fail: the model wants to speak where nobody should, and would be over its cap."""
    wanted = [one for one in day if "?" in one["text"] or any(error in one["text"] for error in ERRORS)]
    labelled = [one for one in day if one.get("speak")]
    assert (len(day), {one["by"] for one in day}, len(labelled)) == (200, set(PEOPLE), 10)
    assert all(one in wanted and one["to"] is None for one in labelled)
    assert len([one for one in wanted if one["to"]]) == 20, "said to somebody else"
    assert len([one for one in wanted if one["to"] is None and not one.get("speak")]) == 3, "beyond the cap"
    assert [minutes(one["at"]) for one in day] == sorted(minutes(one["at"]) for one in day)


@pytest.mark.requirement("G-52")
async def test_it_speaks_where_it_helps_and_nowhere_else(
    world_of: "Callable[..., World]", day: list[dict[str, Any]]
) -> None:
    world = world_of(config=AMBIENT)
    world.script(*EAGER)
    async with world.process() as world:
        began, first = world.clock.now(), minutes(day[0]["at"])
        answered: list[dict[str, Any]] = []
        for number, one in enumerate(day):
            due = began + timedelta(minutes=minutes(one["at"]) - first)
            world.clock.ahead_s += max(0.0, (due - world.clock.now()).total_seconds())
            before = len(said_by_the_bot(world))
            person = PEOPLE[one["by"]]
            said = world.said(
                one["text"],
                chat=GROUP,
                id=f"m{number}",
                mention=Mention.NONE,
                to_others=one["to"] is not None,
                sender=Sender(id=UserId(person), display=one["by"].title(), language="en"),
            )
            receipt = await world.hears(said)
            if receipt.outcome == "accepted":
                await world.settled()
            answered += [one] * (len(said_by_the_bot(world)) - before)
        assert answered == [one for one in day if one.get("speak")]
        assert set(said_by_the_bot(world)) == {SPOKEN}
        await within_its_caps(world)
        kept = await texts_of_all_tables(world)
        left = [one["text"] for one in day if one not in answered and one["text"] in kept]
        assert left == [], "in no table but the window"
        assert all(one["text"] in kept for one in answered), "what it answered stands in the dialogue"
        window = select(group_message.c.text).order_by(group_message.c.id)
        rows = await world.database.read(lambda conn: list(conn.execute(window).scalars()))
        assert rows == [one["text"] for one in day if one not in answered][-50:]


def said_by_the_bot(world: World) -> list[str]:
    return [text for text in world.texts(GROUP) if TOLD not in text]


async def within_its_caps(world: World) -> None:
    """In no hour more messages and turns than are shipped."""
    shipped, hour_us = AmbientSettings(), 3_600_000_000
    turns = await world.database.read(lambda conn: conn.execute(select(ambient_turn)).all())
    assert None not in [turn.spoke for turn in turns]
    for last in turns:
        within = [turn for turn in turns if last.at - hour_us < turn.at <= last.at]
        assert len(within) <= shipped.turns_per_hour
        assert sum(turn.spoke for turn in within) <= shipped.messages_per_hour
    assert len(turns) > 60, "it thought about all that was said to nobody"


def _rows_of(conn: Connection, query: Select[Any]) -> Sequence[Row[Any]]:
    return conn.execute(query).all()


async def texts_of_all_tables(world: World) -> str:
    """All texts of the tables, but for the window."""
    tables = [table for table in metadata.sorted_tables if table is not group_message]
    found: list[str] = []
    for table in tables:
        rows = await world.database.read(partial(_rows_of, query=select(table)))
        found += [str(value) for row in rows for value in row if isinstance(value, (str, bytes))]
    return "\n".join(found)
