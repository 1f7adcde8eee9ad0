"""A rolling restart: every process ends in order and comes back, while fifty people talk."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from tests.cluster.processes import Members, running
from tests.doubles.limits import raised_limits
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles
from tests.program.people import OnTelegram, text_of

PEOPLE = 50
PAUSE_S = 1.0  # between an answer and the next message of a person
LONGEST_SILENCE_S = 10.0
LOST_AFTER_S = 60.0
TWO_EACH = ("ingress", "ingress", "worker", "worker", "scheduler,delivery", "scheduler,delivery")


@dataclass(slots=True)
class Screens:
    """The bot's messages in all chats, looked at once for everybody."""

    doubles: Doubles
    texts: Counter[str] = field(default_factory=Counter)
    changed: anyio.Event = field(default_factory=anyio.Event)

    async def watch(self) -> None:
        while True:
            state = await self.doubles.telegram.get("state")
            self.texts = Counter(text_of(one) for one in state["messages"] if one["from"].get("is_bot"))
            self.changed.set()
            self.changed = anyio.Event()
            await anyio.sleep(0.2)

    def count(self, words: str) -> int:
        return sum(times for text, times in self.texts.items() if words in text)


@dataclass(slots=True)
class Talk:
    """Conversations of everybody, until they are to end."""

    screens: Screens
    ends: anyio.Event = field(default_factory=anyio.Event)
    waits_s: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    async def person(self, number: int) -> None:
        me = OnTelegram(self.screens.doubles, {"id": 9000 + number, "first_name": f"P{number}"})
        turn = 0
        while not self.ends.is_set():
            turn += 1
            words = f"<{number}.{turn}>"
            began = time.monotonic()
            await me.say(f"please {words}")
            self.said.append(words)
            with anyio.fail_after(LOST_AFTER_S):
                while not self.screens.count(words):
                    await self.screens.changed.wait()
            self.waits_s.append(time.monotonic() - began)
            await anyio.sleep(PAUSE_S)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.requirement("G-138", "G-139", "G-161")
async def test_every_process_is_restarted_and_nobody_waits_long(tmp_path: Path, postgres_url: str) -> None:
    async with all_doubles() as doubles:
        await doubles.telegram.post("settings", raised_limits())
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        members = Members(tmp_path, postgres_url, config, TWO_EACH)
        talk = Talk(Screens(doubles))
        async with running(members), anyio.create_task_group() as watching:
            watching.start_soon(talk.screens.watch)
            async with anyio.create_task_group() as people:
                for number in range(PEOPLE):
                    people.start_soon(talk.person, number)
                await anyio.sleep(5)  # everybody has spoken
                for member in members.all:
                    assert await member.stop() == 0
                    member.start()
                    await member.ready()
                await anyio.sleep(5)  # and once more
                talk.ends.set()
            await anyio.sleep(1)  # what came twice would be there by now
            watching.cancel_scope.cancel()
        again = {words: count for words in talk.said if (count := talk.screens.count(words)) != 1}
        assert again == {}, "each once"
        waits_s = sorted(talk.waits_s)
        print(
            f"{len(waits_s)} answers; half within {waits_s[len(waits_s) // 2]:.2f} s, the slowest {waits_s[-1]:.2f} s"
        )
        assert waits_s[-1] <= LONGEST_SILENCE_S
