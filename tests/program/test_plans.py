"""Plans on the running program: proposed and confirmed on all five channels over a kill, carried out two tasks at once,
one tried again; cut off by a kill and resumed; cancelled."""

import json

import pytest

from tests.faults.places import PLACES
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program
from tests.program.test_approvals import button, press, says

TASKS = [
    {"id": 1, "title": "read A", "description": "Please read A now.", "depends_on": []},
    {"id": 2, "title": "read B", "description": "Please read B now.", "depends_on": [], "on_failure": "retry"},
    {"id": 3, "title": "weigh them", "description": "Please weigh them now.", "depends_on": [1, 2]},
]
ONE = [{"id": 1, "title": "dig", "description": "Please dig now."}]


def plan_of(tasks: list[dict[str, object]], goal: str) -> dict[str, object]:
    return {
        "match": {"contains": f"{goal}\n</goal>\n\nMake the plan."},
        "reply": {"text": json.dumps({"tasks": tasks})},
    }


def does(task: str, text: str, **more: object) -> dict[str, object]:
    return {"match": {"contains": f"Please {task} now."}, "reply": {"text": text, **more}}


async def calls_with(doubles: Doubles, words: str) -> int:
    made = (await doubles.llm.get("calls"))["calls"]
    return sum(words in json.dumps(call["body"]["messages"][-1]) for call in made)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("Z-09")
async def test_plans_on_the_running_program(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with all_doubles() as doubles:
        program = Program(tmp_path_factory.mktemp("h"), "")
        places = {name: make(doubles, program) for name, make in PLACES.items()}
        accounts = "".join(place.config() for place in places.values())
        program.write(configs.ACCESS + "messages_per_minute = 600\n" + configs.models(doubles, "a") + accounts)
        rules = [
            {"match": {"contains": "Put the results together."}, "reply": {"text": "B is the better offer."}},
            plan_of(TASKS, "compare the two offers"),
            plan_of(ONE, "dig for the old figures"),
            does("weigh them", "B wins"),
            {"match": {"contains": "Please read B now."}, "times": len(places), "reply": {"text": "", "hold": "both"}},
            does("read A", "A is dear", hold="both"),
            does("read B", "B is cheap", hold="both"),
            does("dig", "dug", hold="dug"),
        ]
        await doubles.llm.post("script", rules)
        telegram = OnTelegram(doubles)

        async def held(words: str, count: int) -> None:
            async def there() -> bool:
                return await calls_with(doubles, words) >= count

            await until(there, what=f"{count} calls with {words!r}")

        async with program:
            # Proposed on all five, killed, confirmed by a press or in words.
            for place in places.values():
                await place.say("hello")
            for place in places.values():
                await place.say("/plan compare the two offers")
            for place in places.values():
                await says(place, "Please weigh them now")
            await program.settled()
            assert await calls_with(doubles, "Please read") == 0
            program.kill()
            program.start()
            await program.ready()
            for name, place in places.items():
                if name == "console":
                    await place.say("/plan confirm")
                else:
                    await press(name, doubles, place, *await button(name, doubles, place, "▶ Carry it out"))
            # Two at once, seen in one message that changes; one fails and is tried again.
            await held("Please read A now.", len(places))
            await held("Please read B now.", len(places))
            await telegram.hears("▶ 1. read A\n▶ 2. read B\n▫ 3. weigh them")
            await doubles.llm.post("release", {"name": "both"})
            for place in places.values():
                await says(place, "B is the better offer.")
                await says(place, "3 of 3 tasks")
            await program.settled()
            assert await calls_with(doubles, "Please read A now.") == len(places)
            assert await calls_with(doubles, "Please read B now.") == 2 * len(places)
            assert not any("of 3 done" in text for text in await telegram.texts())
            # Cut off by a kill: it rests until somebody says so, and nothing ran twice unseen.
            await telegram.say("/plan dig for the old figures")
            await telegram.hears("1. dig")
            await telegram.say("/plan confirm")
            await held("Please dig now.", 1)
            await telegram.hears("▶ 1. dig")
            program.kill()
            program.start()
            await program.ready()
            await telegram.hears("The gateway was restarted while I worked on it")
            await program.settled()
            assert await calls_with(doubles, "Please dig now.") == 1
            await telegram.say("/plan resume")
            await held("Please dig now.", 2)
            await telegram.say("/plan cancel")
            await telegram.hears("is cancelled.")
            await program.settled()
            assert await calls_with(doubles, "Please dig now.") == 2
