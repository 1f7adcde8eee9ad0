"""Limits that hold for all processes on one database together: circuits of providers, floods, rates of platforms."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.processes import Member, Members, running
from tests.doubles.limits import few_a_second
from tests.program import configs
from tests.program.doubles import all_doubles, until
from tests.program.people import DM, GENERAL, OnDiscord, OnTelegram
from tests.program.stage import Stage

TWO_WORKERS = ("ingress,scheduler,delivery", "worker", "worker")
DOWN = {"match": {"model": "model-a"}, "reply": {"error": {"status": 500, "message": "down"}}}
FAILOVER = '[retry]\nbackoff_ms = 10\nbreaker_failures = 1\nbreaker_open_ms = 600000\n[llm]\nfailover = ["a", "b"]\n'
ABOUT = {"llm.failover", "retry"}


def had_by(members: Members, worker: Member, conversation: str) -> None:
    """Let that worker have the conversation from now on."""
    assert worker.process is not None
    members.write(
        "insert into conversation_host (conv, process) select :conv, id from process where pid = :pid",
        {"conv": conversation, "pid": worker.process.pid},
    )


def person(doubles: Any, number: int, worker: Member, members: Members) -> OnTelegram:
    """Somebody whose direct chat that worker has."""
    had_by(members, worker, f"telegram:{number}")
    return OnTelegram(doubles, {"id": number, "first_name": f"P{number}"})


async def answered_by(stage: Stage, somebody: OnTelegram, words: str) -> list[str]:
    """The models that were asked for an answer, the last one gave it."""
    await somebody.say(words)
    await somebody.hears(words)
    return [call["body"]["model"] for call in await stage.asked(words)]


@pytest.mark.requirement("G-168")
@pytest.mark.timeout(200)
async def test_a_provider_that_one_process_finds_broken_is_passed_over_by_all(
    tmp_path: Path, postgres_url: str
) -> None:
    async with all_doubles() as doubles:
        config = configs.ACCESS + FAILOVER + configs.models(doubles, "a", "b") + configs.telegram(doubles)
        members = Members(tmp_path, postgres_url, config, TWO_WORKERS, about=ABOUT)
        _, one, other = members.all
        async with running(members):
            stage = Stage(doubles, members.all[0])
            ann, ben = person(doubles, 77, one, members), person(doubles, 78, other, members)
            await doubles.llm.post("script", [DOWN])
            assert set(await answered_by(stage, ann, "first")) == {"model-a", "model-b"}
            await until(lambda: _is_open(members))
            assert await answered_by(stage, ben, "second") == ["model-b"]
            late = Member(tmp_path / "late", members.config, "worker", about=ABOUT)
            async with late:
                cleo = person(doubles, 79, late, members)
                assert await answered_by(stage, cleo, "third") == ["model-b"]
                await _well_again(members, stage, ann, ben, cleo)


async def _well_again(members: Members, stage: Stage, ann: OnTelegram, ben: OnTelegram, cleo: OnTelegram) -> None:
    """The time is over: one process tries it, the others go on without; its answer brings it back at all of them."""
    await stage.doubles.llm.post("script", [])
    members.write("update provider_circuit set open_until = tieline_now() - 1000000", {})
    await stage.script("is it well", "it is well", hold="probe")
    await ann.say("is it well")
    call = await stage.asking("is it well")
    assert call["body"]["model"] == "model-a"
    assert await answered_by(stage, ben, "fourth") == ["model-b"]
    await stage.release("probe")
    await ann.hears("it is well")
    await until(lambda: _closed(members))
    assert await answered_by(stage, ben, "fifth") == ["model-a"]
    assert await answered_by(stage, cleo, "sixth") == ["model-a"]


async def _is_open(members: Members) -> bool:
    return members.rows("select count(*) from provider_circuit where open_until > tieline_now()") == [(1,)]


async def _closed(members: Members) -> bool:
    return members.rows("select count(*) from provider_circuit") == [(0,)]


FORUM = {"id": -1006, "type": "supergroup", "title": "Forum", "is_forum": True}
THREE_A_MINUTE = "messages_per_minute = 3\n"


def topic(number: int) -> dict[str, Any]:
    return {"chat": FORUM, "message_thread_id": number, "is_topic_message": True}


@pytest.mark.requirement("G-169")
@pytest.mark.timeout(200)
async def test_who_writes_too_much_at_two_workers_is_told_once(tmp_path: Path, postgres_url: str) -> None:
    async with all_doubles() as doubles:
        config = configs.ACCESS + THREE_A_MINUTE + configs.models(doubles, "a") + configs.telegram(doubles)
        members = Members(tmp_path, postgres_url, config, TWO_WORKERS)
        _, one, other = members.all
        async with running(members):
            had_by(members, one, "telegram:-1006:3")
            had_by(members, other, "telegram:-1006:4")
            ann = OnTelegram(doubles)
            await ann.say("@double_bot a word", **topic(3))
            await until(lambda: _taken(members, 1))
            members.write("update rate_bucket set at = at + 3600000000", {})  # on a slow machine, too, none is added
            await ann.say("@double_bot a word", **topic(4))  # plain words and commands count alike
            await ann.say("/whoami@double_bot", **topic(3))
            await until(lambda: _taken(members, 3))
            await ann.say("@double_bot one more", **topic(4))
            await ann.say("/whoami@double_bot", **topic(3))
            await until(lambda: _refused(members, 2))
            assert "did not take" in await ann.hears("I take 3 messages a minute", chat=-1006)
            bob = OnTelegram(doubles, {"id": 4711, "first_name": "Bob"})
            await bob.say("@double_bot and I", **topic(4))
            await bob.hears("and I", chat=-1006)
            told = [text for text in await ann.texts(-1006) if "messages a minute" in text]
            assert len(told) == 1
            assert members.rows("select count(distinct process) from conversation_host where conv like '%-1006:%'") == [
                (2,)
            ]


async def _taken(members: Members, count: int) -> bool:
    return members.rows("select count(*) from inbox where status in ('new', 'done', 'merged')") == [(count,)]


async def _refused(members: Members, count: int) -> bool:
    return members.rows("select count(*) from inbox where status = 'refused' and note = 'flood limit'") == [(count,)]


@pytest.mark.requirement("G-170")
@pytest.mark.timeout(300)
async def test_two_workers_together_keep_to_the_limit_of_an_account(tmp_path: Path, postgres_url: str) -> None:
    async with all_doubles() as doubles:
        await doubles.telegram.post("settings", few_a_second(3))  # what one alone may do, and half as much again
        slow = configs.telegram(doubles, more="messages_per_second = 2")
        members = Members(tmp_path, postgres_url, configs.ACCESS + configs.models(doubles, "a") + slow, TWO_WORKERS)
        async with running(members):
            people = [person(doubles, 100 + number, members.all[1 + number % 2], members) for number in range(16)]
            for somebody in people:
                await somebody.say("/whoami")
            for somebody in people:
                await somebody.hears(f"telegram:{somebody.user['id']}")
            calls = (await doubles.telegram.get("calls"))["calls"]
            assert [call["method"] for call in calls if call.get("status") == 429] == []


HELD_S = 8.0


@pytest.mark.requirement("G-170")
@pytest.mark.timeout(200)
async def test_where_the_platform_asks_for_quiet_all_processes_are_quiet(tmp_path: Path, postgres_url: str) -> None:
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.discord(doubles)
        members = Members(tmp_path, postgres_url, config, TWO_WORKERS)
        async with running(members):
            had_by(members, members.all[1], f"discord:{DM}")
            had_by(members, members.all[2], f"discord:{GENERAL}")
            ann = OnDiscord(doubles)
            fault = {"method": "create_message", "kind": "rate_limit", "retry_after": HELD_S, "global": True}
            await doubles.discord.post("faults", [fault])
            await ann.say("/whoami")
            await until(lambda: _is_closed(members))
            await ann.say("<@100000000000000001> /whoami", channel=GENERAL)
            await ann.hears("discord:500000000000000001", channel=GENERAL)
            await ann.hears("discord:500000000000000001")
            first, *others = await ann.calls("create_message")
            assert first["status"] == 429
            assert min(call["at"] for call in others) - first["at"] >= HELD_S


async def _is_closed(members: Members) -> bool:
    return members.rows("select count(*) from rate_bucket where closed_until > tieline_now()") == [(1,)]
