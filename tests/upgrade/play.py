"""A play with the running program until every table and every state is there, and the kill that ends it.

The parts come in order: `begin` while all is well, `crash` for what is given up after crashes, `wait` for what waits at
the end. Nothing is written into the database by hand.
"""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from tests.doubles.limits import raised_limits
from tests.faults.places import PLACES, Place
from tests.program.doubles import Doubles, until
from tests.program.people import GROUP, OnTelegram
from tests.program.running import Program
from tests.upgrade import doors
from tests.upgrade.home import GROWING, NAMES, TOPIC
from tests.upgrade.rows import query

FILLER = "tell me about place number {}: " + "some more words about it " * 120
WISHES = "and here is a long list of wishes: " + "a wish that takes some room " * 700
STEP = {"match": {"contains": "[autonomous]"}, "reply": {"text": "Every page is tidy."}}
EDGE = {"subject": "Ann", "relation": "lives in", "object": "Oslo", "confidence": 0.9, "message": 1, "single": True}
SUMMARY = "Goal: a trip\nAccomplished: booked HAT-4471\nKey Decisions: window seats\nRelevant Files: none"
TASKS = [{"id": 1, "title": "dig", "description": "Please dig now."}]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """The model's reply that calls a tool."""
    return {"type": "tool_use", "name": name, "input": arguments}


def when(words: str, reply: dict[str, Any], **match: Any) -> dict[str, Any]:
    return {"match": {"contains": words, **match}, "reply": reply}


def plan_of(goal: str) -> dict[str, Any]:
    return when(f"{goal}\n</goal>\n\nMake the plan.", {"text": json.dumps({"tasks": TASKS})})


RULES = [
    {"match": {"system_contains": "You read chat messages"}, "reply": {"text": json.dumps(EDGE)}},
    {
        "match": {"system_contains": "You write the memory"},
        "reply": {"text": f"<summary>{SUMMARY}</summary>"},
    },
    when("Is the goal reached?", {"text": json.dumps({"achieved": True, "reason": "all pages are there"})}),
    STEP,
    plan_of("compare the offers"),
    plan_of("dig for the old figures"),
    plan_of("dig for the new figures"),
    when("Put the results together.", {"text": "B is the better offer."}),
    when("Please dig now.", {"text": "", "hold": "dig"}, turn=99),
    when("Please dig now.", {"text": "dug"}),
    when("count it all", {"text": "Counted."}, tool_result=True),
    when("count it all", {"blocks": [call("calculate", expression=f"{n}7 ** 30") for n in (1, 2, 3)]}),
    when("my list", {"text": "Listed."}, tool_result=True),
    when(
        "my list",
        {"blocks": [call("task_create", description=one) for one in ("buy a rope", "paint the bow", "call the yard")]},
    ),
    when("the rope is bought", {"text": "Ticked."}, tool_result=True),
    when("the rope is bought", {"blocks": [call("task_update", task_id=1, status="completed", output="12 m")]}),
    when("my boat is called", {"text": "A fine name, kept."}, tool_result=True),
    when("my boat is called", {"blocks": [call("remember", fact="Ann's boat is called Wandering Albatross.")]}),
    when("note it", {"text": "There you are."}, tool_result=True),
    when("note it", {"blocks": [call("write", path="tea/times.txt", content="four minutes\n")]}),
    when("break it", {"text": "That did not work."}, tool_result=True),
    when("break it", {"blocks": [call("read", path="nowhere.txt")]}),
    when("with a heading, please", {"text": "# Heading\n\nUnder a heading."}),
    when("something costly", {"text": "spent", "usage": {"input_tokens": 490_000}}),
    when("hold on", {"text": "held on", "hold": "on"}),
    when("interrupted work", {"text": "It takes a while", "hold": "interrupted", "hold_after": 2}),
]


class Play:
    """One program on its home, the doubles around it, and its database."""

    def __init__(self, doubles: Doubles, program: Program, engine: Engine, receivers: doors.Receivers) -> None:
        self.doubles = doubles
        self.receivers = receivers
        self.program = program
        self.engine = engine
        self.places: dict[str, Place] = {name: make(doubles, program) for name, make in PLACES.items()}
        self.ann = OnTelegram(doubles)

    def on_telegram(self, id: int) -> OnTelegram:
        return OnTelegram(self.doubles, {"id": id, "first_name": NAMES[id]})

    def rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return query(self.engine, sql, **values)

    async def there(self, sql: str, *, seconds: float = 60.0, **values: Any) -> None:
        """Wait until the query finds something."""

        async def found() -> bool:
            return bool(self.rows(sql, **values))

        await until(found, seconds=seconds, what=sql)

    async def settled(self) -> None:
        await self.there(
            "select 1 where not exists (select 1 from outbox where status in ('new', 'sending'))"
            " and not exists (select 1 from inbox where status = 'new')"
        )

    def arm(self, point: str) -> None:
        """Let the process kill itself at this crash point."""
        order = self.program.home / "crash"
        new = order.with_suffix(".new")
        new.write_text(point)
        new.replace(order)

    async def death(self) -> None:
        process = self.program.process
        assert process is not None

        async def ended() -> bool:
            return process.poll() is not None

        await until(ended, what="the kill")

    async def asked(self, words: str) -> None:
        """Wait until the model was asked this."""

        async def found() -> bool:
            calls = (await self.doubles.llm.get("calls"))["calls"]
            return any(words in json.dumps(one["body"].get("messages", ""), ensure_ascii=False) for one in calls)

        await until(found, what=f"a model call with {words!r}")

    async def says(self, id: int, words: str, hears: str) -> str:
        """A person on Telegram writes; wait for the answer."""
        person = self.on_telegram(id) if id in NAMES else self.ann
        await person.say(words)
        return await person.hears(hears)

    # -- while all is well

    async def begin(self) -> None:
        for double in (self.doubles.telegram, self.doubles.discord, self.doubles.slack):
            await double.post("settings", raised_limits())
        await self.doubles.llm.post("script", RULES)
        parts: tuple[Callable[[], Awaitable[None]], ...] = (
            self.greetings, self.choices, self.people, self.tools, self.memory, self.schedules, self.goals, self.plans,
            self.skills, self.window, self.money, self.queues, self.server, self.opinions, self.programs,
        )  # fmt: skip
        for part in parts:
            print(f"  {part.__name__}", flush=True)
            await part()

    async def greetings(self) -> None:
        """Each channel, directly, in groups, in a topic and in a thread."""
        for name, place in self.places.items():
            await place.say(f"the first words on {name}")
        for place in self.places.values():
            await self._heard(place, "the first words on")
        await self.ann.say("/allow", chat=GROUP)
        await self.ann.hears("This group is let in", chat=-1005)
        for name in ("telegram", "discord", "slack"):
            place = self.places[name]
            await place.say(f"the first words of a group on {name}", in_group=True)
            await self._heard(place, "the first words of a group", in_group=True)
        await self.places["slack"].say("and more in the thread", in_group=True)
        await self._heard(self.places["slack"], "and more in the thread", in_group=True)
        await self.ann.say("@double_bot the first words of a topic", **TOPIC)
        await self.ann.hears("the first words of a topic", chat=-1006)
        await self.settled()

    async def _heard(self, place: Place, words: str, *, in_group: bool = False) -> None:
        async def found() -> bool:
            return any(words in text for text in await place.shown(in_group=in_group))

        await until(found, what=f"{words!r} on {place.name}")

    async def choices(self) -> None:
        """Provider, model, persona, time zone, how much is shown, what waits, quiet hours."""
        await self.says(77, "/provider b", "This chat now uses")
        await self.says(77, "the words before the upgrade", "the words before the upgrade")
        await self.says(77, "/verbose verbose", "From now on I show")
        await self.says(77, "/timezone Berlin", "Berlin")
        await self.says(78, "/persona harbour", "harbour")
        await self.says(78, "/model model-other", "model-other")
        await self.says(78, "/queue drop", "From now on: drop")
        await self.ann.say("/provider b", chat=GROUP)
        await self.ann.hears("This chat now uses", chat=-1005)
        await self.ann.say("/provider lock", chat=GROUP)
        await self.ann.hears("only admins may choose", chat=-1005)
        await self.ann.say("/schedules quiet 22-7", chat=GROUP)
        await self.there("select 1 from channel_setting where key = 'quiet_hours'")
        for number in range(5):
            await self.says(302, f"ok do it {number}", f"ok do it {number}")

    async def people(self) -> None:
        """A pairing that is granted, one that is turned away, one that is open; who was let in and who is blocked; and
        two accounts of one person.
        """
        codes = {}
        for id in (99, 98, 100):
            offer = await self.says(id, "let me in", "pairing code")
            found = re.search(r"code is (\w{8})", offer)
            assert found
            codes[id] = found[1]
        assert (await self.program.cli("pair", "approve", "AAAA2222")).returncode == 1
        assert (await self.program.cli("pair", "approve", codes[99])).returncode == 0
        assert (await self.program.cli("pair", "deny", codes[100])).returncode == 0
        await self.on_telegram(99).hears("You are in")
        await self.says(77, "/allow telegram:96", "telegram:96 is let in")
        await self.says(77, "/allow block telegram:95", "telegram:95 is blocked")
        found = re.search(r"/link (\w{8})", await self.says(99, "/link", "works once"))
        assert found
        await self.says(96, f"/link {found[1]}", "Is that you, too?")
        await self.says(96, "yes", "The accounts are linked")
        await self.there("select 1 from identity")

    async def tools(self) -> None:
        """Calls that run, fail, are allowed once, denied, allowed for good; a file that came, and tasks."""
        for number in range(3):
            await self.says(301, f"count it all {number}", "Counted.")
            await self.settled()
        await self.there("select 1 from cleared_result")
        await self.says(77, "this is my list", "Listed.")
        await self.says(77, "the rope is bought", "Ticked.")
        await self.says(77, "break it", "That did not work.")
        await self.says(77, "note it, once", "Write /workspace/tea/times.txt")
        await self.ann.say("/approve")
        await self.there("select 1 from approval where status = 'executed'")
        await self.settled()
        for word, status in (("/deny", "rejected"), ("/stop", "cancelled"), ("/approve always", "executed")):
            await self.ann.say(f"note it, and {word[1:]}")
            await self.there("select 1 from approval where status = 'pending'")
            await self.there("select 1 where not exists (select 1 from outbox where status in ('new', 'sending'))")
            await self.ann.say(word)
            await self.there("select 1 from approval where status = :status", status=status)
            await self.settled()
        await self.there("select 1 from approval_rule")
        table = {"name": "list.csv", "text": "thing,count\ncups,4\n", "mime_type": "text/csv"}
        await self.ann.send({"user": self.ann.user, "file": table, "caption": "keep the list of cups"})
        await self.ann.hears("keep the list of cups")
        await self.settled()

    async def memory(self) -> None:
        """Facts, vectors, relations, notes, what was not found, what was erased."""
        await self.says(77, "Remember that my boat is called Wandering Albatross", "A fine name, kept.")
        await self.says(77, "/memory add The jetty is closed on Mondays.", "Kept as fact")
        await self.says(77, "/memory add The kettle is blue.", "Kept as fact")
        await self.says(77, "/memory forget kettle", "Forget this for good?")
        await self.says(77, "yes", "Forgotten. Things I had kept")
        await self.says(77, "where does Ann live, in which town of Norway?", "in which town of Norway")
        await self.says(411, "/memory off", "The memory is off here")
        folder = self.program.home / "memory" / "telegram%3A77"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "MEMORY.md").write_text("Ann sails on Saturdays.\n", "utf-8")
        for table in ("relation", "memory_vector", "skill_outcomes", "memory_erasure", "user_model"):
            await self.there(f"select 1 from {table}")

    async def schedules(self) -> None:
        """One of each kind. What is active lies far ahead, so that nothing but one reminder is due at the upgrade."""
        for words in (
            "/remind 2099-12-24T18:00 the far reminder",
            "/remind every year on 29 February the leap reminder",
            "/remind cron 0 0 29 2 * the cron reminder",
            "/remind every 90 min the paused reminder",
            "/remind ask 2099-12-25T18:00 what is new in the world?",
        ):
            await self.ann.say(words)
        await self.there("select 1 where (select count(*) from schedule) = 5")
        ((paused,),) = self.rows("select id from schedule where text = 'the paused reminder'")
        await self.ann.say(f"/schedules pause {paused}")
        await self.there("select 1 from schedule where state = 'paused'")
        await self.says(408, "/heartbeat every 30 min is the build green?", "I will look after this")
        ((beats,),) = self.rows("select id from schedule where action = 'heartbeat'")
        await self.on_telegram(408).say(f"/schedules pause {beats}")
        await self.ann.say("/remind in 1 sec the near reminder")
        await self.ann.hears("⏰ the near reminder")
        await self.says(408, "/remind every 5 sec the frequent reminder", "the frequent reminder")
        await self.there("select 1 where (select count(*) from schedule_run where delivery = 'sent') > 1")
        ((often,),) = self.rows("select id from schedule where text = 'the frequent reminder'")
        await self.on_telegram(408).say(f"/schedules pause {often}")
        await self.there("select 1 where (select count(*) from schedule where state = 'paused') = 3")
        await self.settled()

    async def goals(self) -> None:
        """A goal that is reached, one that is cleared, one that is paused, one that the agent reached by itself."""
        await self.says(409, "/goal create clear the shed", "Goal")
        await self.says(409, "/goal clear", "is gone")
        await self.says(409, "/goal create paint the shed", "paint the shed")
        await self.says(409, "/goal complete", "is reached")
        await self.says(409, "/goal create tidy up the wiki --auto --turns 4", "is reached: tidy up the wiki")
        await self.says(409, "/goal create sell the shed --turns 20 --usd 1.50", "sell the shed")
        await self.says(409, "/goal pause", "is paused")
        await self.says(78, "/goal create mend the fence", "mend the fence")

    async def plans(self) -> None:
        """A plan that was carried out, and one that was cancelled."""
        await self.says(409, "/plan compare the offers", "1. dig")
        await self.says(409, "/plan confirm", "B is the better offer.")
        await self.settled()
        await self.says(409, "/plan dig for the old figures", "dig for the old figures")
        await self.there("select 1 from plan where status = 'proposed'")
        await self.says(409, "/plan cancel", "is cancelled")
        await self.settled()

    async def skills(self) -> None:
        """A skill that was drafted and approved, one that was taken back, one that was used."""
        for number in range(3):
            await self.says(77, f"Please refactor the billing code module {number}", f"code module {number}")
            await self.settled()
        await self.there("select 1 from evolved_prompts")
        await self.says(77, "/skill reload", "Read anew")
        shown = await self.says(77, "/skill show billing-module-refactor", "/skill approve billing-module-refactor ")
        line = shown[shown.index("/skill approve billing-module-refactor ") :].split()[:4]
        await self.says(77, " ".join(line), "may be used")
        await self.says(77, "/skill tide for Sunday", "for Sunday")
        await self.says(77, "/skill revoke ebb", "is not used any more")
        await self.there("select 1 from skill_arm")

    async def window(self) -> None:
        """A conversation that outgrew its window, sessions that ended, and messages that were cleared."""
        await self.says(301, "/provider small", "This chat now uses")
        await self.says(301, "My first request: plan my trip.", "My first request")
        for number in range(4):
            await self.says(301, FILLER.format(number), f"place number {number}")
        await self.says(301, WISHES, "a long list of wishes")
        await self.there("select 1 from message where compacted_at is not null")
        await self.there("select 1 from message where parts like '%HAT-4471%'")
        await self.says(302, "something to forget", "something to forget")
        await self.says(302, "/new", "A new conversation")
        await self.says(302, "and something new", "and something new")
        await self.says(302, "/undo", "Taken back")
        await self.settled()

    async def money(self) -> None:
        """A budget that was used up and raised."""
        await self.says(78, "/model reset", "Back to the configured model")
        await self.says(78, "something costly", "spent")
        await self.says(78, "one more", "You may spend")
        await self.says(77, "/budget more person:telegram:78 day 2", "Allowed. Now")
        await self.there("select 1 from budget_grant")
        await self.settled()

    async def queues(self) -> None:
        """Messages that became one, one that was refused, answers that could not be delivered or were dropped."""
        eve = self.on_telegram(402)
        both = [{"user": eve.user, "text": words} for words in ("these words come", "in two messages")]
        await self.doubles.telegram.post("updates", {"updates": both})
        await eve.hears("in two messages")
        await self.there("select 1 from inbox where status = 'merged'")
        await self.on_telegram(402).say("please hold on")
        await self.asked("please hold on")
        await self.on_telegram(402).say("never to be answered")
        await self.there("select 1 from inbox where status = 'new' and payload like '%never to be answered%'")
        await self.says(402, "/clear-queue", "Dropped: 1")
        await self.doubles.llm.post("release", {"name": "on"})
        await eve.hears("held on")
        refusal = {"method": "*", "chat_id": 410, "kind": "error", "error_code": 400,
                   "description": "Bad Request: the text is not wanted", "times": 40}  # fmt: skip
        await self.doubles.telegram.post("faults", refusal)
        await self.on_telegram(410).say("an answer that is refused")
        await self.there("select 1 from outbox where status = 'dead'")
        limit = {"method": "*", "kind": "rate_limit", "retry_after": 60, "chat_id": 411, "times": 1000}
        await self.doubles.telegram.post("faults", limit)
        await self.on_telegram(411).say("an answer that nobody wants any more")
        waits = "select id from outbox where conv = 'telegram:411' and not_before is not null"
        await self.there(waits)
        ((unwanted,),) = self.rows(waits)
        assert (await self.program.cli("outbox", "drop", str(unwanted))).returncode == 0
        await self.there("select 1 from outbox where status = 'dropped'")
        await self.settled()

    async def server(self) -> None:
        """A server that lacks what an answer would look better with, which is kept for later starts."""
        await self.doubles.telegram.post("settings", {"rich_messages": "absent"})
        await self.says(77, "with a heading, please", "Under a heading")
        await self.there("select 1 from adapter_store")

    async def opinions(self) -> None:
        """A word on an answer, a rule about a whole tool, and a model whose window nobody has configured."""
        await self.says(77, "/feedback up well put", "Noted, with that answer")
        await self.says(77, "/approvals deny edit", "edit")
        await self.there("select 1 from approval_rule where effect = 'deny'")
        await self.says(408, "/provider found", "This chat now uses")
        await self.says(408, "which model is this", "which model is this")
        for table in ("feedback", "model_fact", "memory_use"):
            await self.there(f"select 1 from {table}")
        await self.settled()

    async def programs(self) -> None:
        """Programs with a key that holds and one that was revoked; webhooks, and events that were taken or given up."""
        caller = await doors.with_key(self.program, "crm")
        await doors.use_all(caller, self.doubles, self.engine, self.receivers)
        former = await doors.with_key(self.program, "former")
        assert (await self.program.cli("key", "revoke", former.name)).returncode == 0
        for table in doors.TABLES:
            await self.there(f"select 1 from {table}")
        await self.there("select 1 from event_delivery where state = 'given_up'")
        await self.settled()

    async def backup(self, file: Path) -> None:
        """The backup that `tieline backup` makes of it."""
        done = await self.program.cli("backup", str(file))
        assert done.returncode == 0, done.stderr

    # -- what is given up after crashes

    async def crash(self) -> None:
        """A message that no process survives: after five tries it is a dead letter."""
        leo = self.on_telegram(405)
        await leo.say("the words that nobody survives")
        for _ in range(5):
            await self.death()
            if self.rows("select 1 from inbox where attempts >= 5 and status = 'new'"):
                break
            self.arm("model.before")
            self.program.start()
        self.program.start()
        await self.program.ready()
        await leo.hears("I put it aside")
        await self.settled()

    # -- what waits when it ends

    async def wait(self, backup: Path | None = None) -> None:
        """Leave something open of each kind; then let it die between the platform's word and its own note of it."""
        await self.says(401, "note it, when somebody allows", "Write /workspace/tea/times.txt")
        await self.says(402, "/plan dig for the old figures", "1. dig")
        await self.there("select 1 from plan where status = 'proposed'")
        await self.doubles.llm.post("script", [when("Please dig now.", {"text": "", "hold": "for ever"}), *RULES])
        await self.says(403, "/plan dig for the new figures", "1. dig")
        await self.says(403, "/plan confirm", "▶ 1. dig")
        await self.asked("Please dig now.")
        held = {**STEP, "reply": {"text": "slow", "hold": "for ever"}}
        await self.doubles.llm.post("script", [held, when("hold on", {"text": "held on", "hold": "for ever"}), *RULES])
        await self.says(404, "/goal create count the gulls --auto", "Working on: count the gulls")
        await self.settled_but_open()
        limit = {"method": "*", "kind": "rate_limit", "retry_after": 60, "chat_id": 406, "times": 1000}
        await self.doubles.telegram.post("faults", limit)
        await self.on_telegram(406).say("an answer that the platform puts off")
        await self.there("select 1 from outbox where conv = 'telegram:406' and not_before is not null")
        await self.ann.say("@double_bot please hold on", chat=GROWING)
        await self.there("select 1 from turn where conv = 'telegram:-1007' and state = 'running'")
        await self.ann.say("@double_bot the words behind it", chat=GROWING)
        await self.there("select 1 from inbox where payload like '%the words behind it%' and status = 'new'")
        await self.places["telegram"].say("/clear", in_group=True)
        await self.there("select 1 from ephemeral where kind = 'question'")
        await self.says(407, "/remind in 60 sec the late reminder", "the late reminder")
        await self.settled_but_open()
        if backup is not None:
            await self.backup(backup)
        self.arm("send.after")
        await self.on_telegram(302).say("the last words before the kill")
        await self.death()

    async def settled_but_open(self) -> None:
        await self.there(
            "select 1 where not exists (select 1 from outbox where status in ('new', 'sending')"
            " and conv <> 'telegram:406')"
        )
