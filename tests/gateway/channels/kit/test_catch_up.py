"""Catch-up: which places are read and from where, in what order, and what is read again."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from gateway.channels.adapter import AdapterContext, Place
from gateway.channels.channel import Attempt, HistoryPage, Position
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, GatewayUnavailable
from gateway.channels.inbound import MessageReceived, Outcome, Receipt, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.kit.catch_up import CatchUp, Facts, Reading, merged, readings
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.outbound import SentRef
from tests.fakes.clock import FakeClock
from tests.fakes.waiting import until

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MAX_AGE = timedelta(minutes=15)
log = logging.getLogger("tieline.test")


def ago(minutes: float, message_id: str | None = None) -> Position:
    return Position(at=NOW - timedelta(minutes=minutes), message_id=message_id)


def place(channel_id: str, last: str | None, minutes: float) -> Place:
    return Place(
        key=ConversationKey("test", channel_id), last_message_id=last, last_at=NOW - timedelta(minutes=minutes)
    )


# -- where a reading begins


@pytest.mark.parametrize(
    ("known", "facts", "after"),
    [
        pytest.param(place("a", "7", 30), Facts(), ago(30, "7"), id="behind the last stored message"),
        pytest.param(place("a", None, 30), Facts(), ago(30), id="from the time of the last one without an id"),
        pytest.param(place("a", "7", 3000), Facts(), ago(24 * 60), id="no further back than a day"),
        pytest.param(
            place("a", "7", 30), Facts(moment_of=lambda _: ago(40).at), ago(40, "7"), id="an id tells its time"
        ),
        pytest.param(place("a", "/x", 30), Facts(moment_of=lambda _: None), ago(30), id="an id of no message"),
    ],
)
def test_a_place_is_read_from(known: Place, facts: Facts, after: Position) -> None:
    assert readings([known], facts, NOW, MAX_AGE) == {"a": Reading("a", after)}


def test_what_is_read_late_is_read_from_before_what_came_meanwhile() -> None:
    behind = NOW - timedelta(minutes=5)
    known = [place("a", "9", 1), place("b", "3", 60)]
    found = readings(known, Facts(line_of=lambda key: "line"), NOW, MAX_AGE, behind=behind)
    assert found == {
        "a": Reading("a", ago(20)),
        "line": Reading("line", ago(20)),
        "b": Reading("b", ago(60, "3")),
    }


def test_what_is_still_to_be_read_keeps_its_earlier_beginning() -> None:
    a, b = ago(20, "2"), ago(30, "1")
    found = merged([Reading("a", a), Reading("b", ago(5))], [Reading("a", b), Reading("b", ago(1))])
    assert found == {"a": Reading("a", b), "b": Reading("b", ago(5))}
    assert merged([Reading("a", ago(1, "7"))], [Reading("a", ago(1))]) == {"a": Reading("a", ago(1))}  # its own moment


# -- reading


@dataclass
class Platform:
    """Histories by place; `faults` are raised by the next readings, `broken` so many deliveries fail."""

    clock: FakeClock
    home: Path
    rows: dict[str, list[MessageReceived]] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    faults: list[ChannelError] = field(default_factory=list)
    threads: dict[str, Sequence[str]] = field(default_factory=dict)
    broken: int = 0
    delivered: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    page: int = 2

    def write(self, channel_id: str, text: str, minutes: float = 1) -> MessageReceived:
        rows = self.rows.setdefault(channel_id, [])
        said = MessageReceived(
            key=ConversationKey("test", channel_id),
            place=channel_id,
            message_id=str(len(rows) + 1),
            sender=Sender(id=UserId("ann")),
            received_at=NOW,
            sent_at=NOW - timedelta(minutes=minutes),
            text=text,
        )
        rows.append(said)
        return said

    async def deliver(self, said: MessageReceived) -> Receipt:
        if self.broken:
            self.broken -= 1
            raise GatewayUnavailable("disk full")
        self.delivered.append(said.text)
        return Receipt(Outcome.ACCEPTED)

    async def closed(self, channel_id: str) -> None:
        self.gone.append(channel_id)

    async def known(self, channel_type: str) -> Sequence[Place]:
        return self.places


class PlatformHistory:
    def __init__(self, platform: Platform, channel_id: str) -> None:
        self._platform = platform
        self._channel_id = channel_id

    async def since(self, after: Position) -> HistoryPage:
        self._platform.asked.append(self._channel_id)
        if self._platform.faults:
            raise self._platform.faults.pop(0)
        behind = int(after.message_id or 0)
        rows = self._platform.rows.get(self._channel_id, [])
        later = [row for row in rows if row.sent_at and row.sent_at >= after.at and int(row.message_id) > behind]
        page = later[: self._platform.page]
        more = len(later) > len(page)
        following = Position(at=page[-1].sent_at or NOW, message_id=page[-1].message_id) if more else None
        threads = self._platform.threads.get(self._channel_id, ())
        return HistoryPage(messages=page, following=following, threads=threads)

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        raise AssertionError("catch-up looks for nothing of ours")


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return Platform(FakeClock(NOW), tmp_path)


@asynccontextmanager
async def catching_up(platform: Platform, facts: Facts | None = None) -> AsyncIterator[tuple[CatchUp, KeyedQueue]]:
    context = AdapterContext(clock=platform.clock, home=platform.home, known_places=platform.known)
    queues = KeyedQueue(platform.clock, log)
    catch_up = CatchUp(
        context,
        queues,
        log,
        channel_type="test",
        history=lambda channel_id: PlatformHistory(platform, channel_id) if channel_id != "none" else None,
        deliver=platform.deliver,
        gone=platform.closed,
        facts=facts or Facts(),
    )
    async with anyio.create_task_group() as group:
        await group.start(queues.run)
        group.start_soon(catch_up.run)
        yield catch_up, queues
        group.cancel_scope.cancel()


async def test_every_known_place_is_read_to_its_end_in_order(platform: Platform) -> None:
    for number in range(5):
        platform.write("a", f"a{number}")
        platform.write("b", f"b{number}")
    platform.places = [place("a", "1", 1), place("b", "3", 1), place("none", "1", 1)]
    async with catching_up(platform) as (catch_up, _):
        catch_up.begin()
        await until(lambda: len(platform.delivered) == 6)
    assert [text for text in platform.delivered if text[0] == "a"] == ["a1", "a2", "a3", "a4"]
    assert [text for text in platform.delivered if text[0] == "b"] == ["b3", "b4"]


@pytest.mark.requirement("G-12")
async def test_what_is_live_waits_for_what_was_missed_and_cannot_be_stored_yet(platform: Platform) -> None:
    platform.write("a", "missed")
    platform.places = [place("a", None, 2)]
    platform.broken = 3
    async with catching_up(platform) as (catch_up, queues):
        catch_up.begin()
        live = platform.write("a", "live")
        await queues.put("a", lambda: catch_up.take(live), holds=True)
        await anyio.wait_all_tasks_blocked()

        def stored() -> bool:
            platform.clock.advance(1.0)
            return "live" in platform.delivered

        await until(stored)
    assert list(dict.fromkeys(platform.delivered)) == ["missed", "live"]


async def test_a_history_that_is_busy_lets_live_messages_by_and_is_read_later(platform: Platform) -> None:
    platform.write("a", "missed")
    platform.places = [place("a", None, 2)]
    platform.faults = [ChannelBusy("slow down", after_s=20.0), ChannelBusy("slow down", after_s=20.0)]
    async with catching_up(platform) as (catch_up, queues):
        catch_up.begin()
        await until(lambda: not platform.faults)
        live = platform.write("a", "live")
        await queues.put("a", lambda: catch_up.take(live), holds=True)
        await until(lambda: platform.delivered == ["live"])
        await anyio.wait_all_tasks_blocked()
        platform.clock.advance(19.0)  # the platform's wait is kept
        await anyio.wait_all_tasks_blocked()
        assert platform.delivered == ["live"]
        platform.clock.advance(1.0)
        await until(lambda: "missed" in platform.delivered)


@pytest.mark.requirement("G-12")
async def test_only_the_newest_of_the_old_ones_is_delivered_and_all_are_counted(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    for minutes in (50, 40, 30, 1):
        platform.write("a", f"{minutes} minutes ago", minutes)
    platform.places = [place("a", None, 60)]
    platform.page = 10
    async with catching_up(platform) as (catch_up, _):
        catch_up.begin()
        await until(lambda: len(platform.delivered) == 2)
        assert platform.delivered == ["30 minutes ago", "1 minutes ago"]
        assert catch_up.left == 3
    assert "too old to answer" in caplog.text


async def test_hours_that_will_not_be_answered_are_not_leafed_through(platform: Platform) -> None:
    for number in range(100):
        platform.write("a", str(number), 600 - number)
    platform.write("a", "young")
    platform.places = [place("a", None, 700)]
    async with catching_up(platform) as (catch_up, _):
        catch_up.begin()
        await until(lambda: "young" in platform.delivered)
    assert len(platform.asked) == 2


async def test_a_thread_that_begins_in_a_page_is_read_and_a_closed_place_told(platform: Platform) -> None:
    platform.write("line", "begins a thread")
    platform.write("line/1", "in the thread")
    platform.threads = {"line": ["line/1"]}
    platform.places = [place("line", None, 2)]
    async with catching_up(platform) as (catch_up, _):
        catch_up.begin()
        await until(lambda: "in the thread" in platform.delivered)
        platform.faults = [ChannelGone("removed")]
        catch_up.begin()
        await until(lambda: platform.gone == ["line"])


async def test_a_message_that_was_let_go_is_read_again(platform: Platform) -> None:
    let_go = platform.write("a", "let go")
    async with catching_up(platform) as (catch_up, _):
        assert let_go.sent_at is not None
        catch_up.owe("a", let_go.sent_at)
        await until(lambda: platform.delivered == ["let go"])
