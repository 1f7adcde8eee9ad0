"""Approvals through the whole gateway, across restarts."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import select, update

from agent.core.events import ApprovalRequired, ApprovalResumed, LoopEnded, Suspended
from agent.core.ids import ConversationId, PersonId
from agent.inbox import HeldRoles
from agent.storage.tables import approval, tool_call
from agent.tools.files.paths import workspace_of
from gateway.channels.document import CodeBlock
from gateway.channels.inbound import ButtonClicked, Mention, Receipt
from gateway.channels.outbound import SentRef
from gateway.dispatch.dispatcher import Timing
from gateway.storage.grants import Grant
from tests.fakes.channel import Shown
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World, calling

ASK = '[approvals]\nask = ["calculate"]\n'
THREAD, OTHER_THREAD, OTHER_GROUP = f"{GROUP}:9", f"{GROUP}:10", f"{GROUP}6"
CALL = {"type": "tool_use", "name": "calculate", "input": {"expression": "6 * 7"}}
RULES: Sequence[Mapping[str, Any]] = (
    {"match": {"tool_result": True, "tool_result_contains": "42"}, "reply": {"text": "It is 42."}},
    {"match": {"tool_result": True}, "reply": {"text": "Then not."}},
    {"match": {"contains": "work it out"}, "reply": {"blocks": [CALL]}},
)


@pytest.fixture
def asking(world_of: "Callable[..., World]") -> World:
    """A gateway that asks before it calculates."""
    world = world_of(config=ASK)
    world.script(*RULES)
    return world


async def asked(world: World, chat: str = ANN) -> Shown:
    """The message with the buttons, once it is there."""
    await until(lambda: any(shown.actions for shown in world.screen(chat).shown))
    return next(shown for shown in reversed(world.screen(chat).shown) if shown.actions)


def action_of(shown: Shown, choice: str = "y") -> str:
    return next(action for action in shown.actions if action.endswith(f":{choice}"))


async def press(world: World, action: str, *, person: str = ANN, chat: str = ANN, id: str = "p1") -> Receipt:
    """Press a button, also one that is no longer there."""
    said = world.said("", person=person, chat=chat)
    pressed = ButtonClicked(
        key=said.key,
        place=said.place,
        message_id="1",
        sender=said.sender,
        received_at=said.received_at,
        chat_type=said.chat_type,
        interaction=id,
        action=action,
        interaction_id=id,
    )
    return await world.hears(pressed)


async def verdicts(world: World) -> list[str]:
    """The outcomes of the calls, by their record."""
    query = select(tool_call.c.verdict).order_by(tool_call.c.id)
    return await world.database.read(lambda conn: list(conn.execute(query).scalars()))


async def status(world: World) -> list[str]:
    query = select(approval.c.status).order_by(approval.c.created_at)
    return await world.database.read(lambda conn: list(conn.execute(query).scalars()))


@pytest.mark.requirement("Z-14", "W-49", "R-28", "G-01", "G-02")
async def test_a_call_waits_for_the_word_and_runs_once(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        assert "6 * 7" in shown.text
        assert "Press a button, or write yes or no (or /approve, /deny). Expires in 5 min." in shown.text
        assert await verdicts(world) == [], "nothing runs before the word"
        names = [type(event) for event in world.events]
        assert names.index(ApprovalRequired) < names.index(Suspended)
        await press(world, action_of(shown))
        await world.shows("It is 42.")
        await world.settled()
        assert await verdicts(world) == ["ran"]
        assert await status(world) == ["executed"]
        assert [event.status for event in world.events if isinstance(event, ApprovalResumed)] == ["approved"]
        await until(lambda: not any(shown.actions for shown in world.screen().shown))
        (ended,) = [text for text in world.texts() if "Approved by Person 77" in text]
        assert "6 * 7" in ended
        assert "Press a button" not in ended, "how it ended stands in its place"
        assert "Expires in" not in ended
        await press(world, action_of(shown), id="p2")
        assert world.screen().notes[-1] == "Person 77 has approved this already."
        assert await verdicts(world) == ["ran"], "a double click runs nothing"


@pytest.mark.requirement("G-01", "G-02", "R-51")
@pytest.mark.parametrize("pressed_early", [False, True], ids=["after the run is taken up", "before it is taken up"])
async def test_it_survives_a_kill_and_runs_once(asking: World, pressed_early: bool) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
    async with asking.process() as world:
        if not pressed_early:
            await world.shows("I was restarted meanwhile")
            assert (await asked(world)).actions == shown.actions, "the very same buttons"
        await press(world, action_of(shown))
        await world.shows("It is 42.")
        await world.settled()
        assert await verdicts(world) == ["ran"]
        assert world.screen().made("send").count("It is 42.") == 1
        assert len([text for text in world.screen().made("send") if "6 * 7" in text]) == 1, "asked once"


@pytest.mark.requirement("R-51")
async def test_it_survives_more_restarts_than_a_message_has_tries(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
    for restarts in range(1, Timing().most_attempts + 2):
        async with asking.process() as world:
            await until(lambda: sum(isinstance(event, Suspended) for event in asking.events) > restarts)  # noqa: B023
    async with asking.process() as world:
        await press(world, action_of(shown))
        await world.shows("It is 42.")
        await world.settled()
        assert await verdicts(world) == ["ran"]


@pytest.mark.requirement("G-03", "G-35")
async def test_in_a_group_only_the_requester_decides(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out", person=BOB, chat=GROUP)
        shown = await asked(world, GROUP)
        await press(world, action_of(shown), person=ANN, chat=GROUP)
        assert world.screen(GROUP).notes == ["Only the person who asked for it, or an approver, can decide this."]
        assert await world.asks(f"/approve {action_of(shown)[2:12]}", "Only the person who asked", chat=GROUP)
        assert await status(world) == ["pending"]
        await press(world, action_of(shown, "a"), person=BOB, chat=GROUP)
        assert "Only an admin of this chat" in world.screen(GROUP).notes[-1]
        await press(world, action_of(shown, "n"), person=BOB, chat=GROUP)
        await world.shows("Then not.", GROUP)
        assert await verdicts(world) == ["denied"]
        assert any("Denied by Person 78" in text for text in world.texts(GROUP))


@pytest.mark.requirement("G-03")
async def test_an_approver_decides_for_others(world_of: "Callable[..., World]") -> None:
    config = '[approvals]\nask = ["calculate"]\nrequester = false\napprovers = ["telegram:77"]\n'
    unstarted = world_of(config=config)
    unstarted.script(*RULES)
    async with unstarted.process() as world:
        await world.say("work it out", person=BOB, chat=GROUP)
        shown = await asked(world, GROUP)
        await press(world, action_of(shown), person=BOB, chat=GROUP)
        assert await status(world) == ["pending"]
        await press(world, action_of(shown), person=ANN, chat=GROUP)
        await world.shows("It is 42.", GROUP)


@pytest.mark.requirement("G-03")
@pytest.mark.parametrize("killed", [False, True], ids=["while it waits", "while nobody runs"])
async def test_no_answer_is_a_no(asking: World, killed: bool) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        asking.clock.ahead_s += 301
        if not killed:
            asking.services.approvals.look_again_s = 0.01
            await world.services.approvals.reap()
            await world.shows("Then not.")
    async with asking.process() as world:
        await world.shows("Then not.")
        await until(lambda: not any(shown.actions for shown in world.screen().shown))
        assert any("Nobody answered in time" in text for text in world.texts())
        await press(world, action_of(shown))
        assert world.screen().notes[-1] == "Too late: this question has expired."
        assert await verdicts(world) == ["denied"]


@pytest.mark.requirement("G-01")
async def test_what_was_changed_meanwhile_does_not_run(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        forged = update(approval).values(arguments='{"expression":"6 * 8"}')
        await world.database.write(lambda conn: conn.execute(forged))
        await press(world, action_of(shown))
        await world.shows("Then not.")
        assert await verdicts(world) == ["denied"]
        assert await status(world) == ["cancelled"]


@pytest.mark.requirement("G-01")
async def test_a_stop_withdraws_the_question(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        await world.say("/stop")
        await world.shows("Stopped.")
        await world.settled()
        assert await status(world) == ["cancelled"]
        await press(world, action_of(shown))
        assert world.screen().notes[-1] == "This question was withdrawn."
        await until(lambda: not any(shown.actions for shown in world.screen().shown))


@pytest.mark.requirement("G-01")
async def test_an_end_of_the_process_leaves_the_question_standing(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        await world.services.drain(20)  # it does not wait for a person
        assert await status(world) == ["pending"]
    async with asking.process() as world:
        await press(world, action_of(shown))
        await world.shows("It is 42.")
        assert await verdicts(world) == ["ran"]


class TestWords:
    @pytest.mark.requirement("R-41")
    async def test_approve_and_deny_as_text(self, asking: World) -> None:
        async with asking.process() as world:
            assert await world.asks("/approve", "Nothing here waits")
            await world.say("work it out")
            await asked(world)
            await world.say("/approve")
            await world.shows("It is 42.")
            await world.settled()
            await world.say("work it out")
            id = action_of(await asked(world)).split(":")[1]
            assert await world.asks("/deny nonsense", "There is no such request")
            await world.say(f"/deny {id}")
            await world.shows("Then not.")
            told = world.llm.bodies[-1]["messages"][-1]
            assert told["role"] == "tool"
            assert "calculate was not run: the person said no." in told["content"]

    async def test_no_line_says_that_a_denied_tool_runs(self, asking: World) -> None:
        async with asking.process() as world:
            await world.say("work it out")
            await press(world, action_of(await asked(world), "n"))
            await world.shows("Then not.")
            await world.settled()
            said = [call.text for call in world.screen().calls]
            assert not [text for text in said if "🔧" in text]

    async def test_a_word_counts_only_in_its_chat(self, asking: World) -> None:
        async with asking.process() as world:
            await world.say("work it out")
            id = action_of(await asked(world)).split(":")[1]
            assert await world.asks(f"/approve {id}", "There is no such request", chat=GROUP)
            await press(world, f"a:{id}:y", chat=GROUP)
            assert world.screen(GROUP).notes[-1] == "There is no such request in this chat."
            assert await status(world) == ["pending"]

    async def test_two_at_once_are_told_apart(self, world_of: "Callable[..., World]") -> None:
        unstarted = world_of(config=ASK)
        other = {**CALL, "input": {"expression": "6 * 8"}}
        unstarted.script(*RULES[:2], {"match": {"contains": "work both out"}, "reply": {"blocks": [CALL, other]}})
        async with unstarted.process() as world:
            await world.say("work both out")
            await until(lambda: sum(bool(shown.actions) for shown in world.screen().shown) == 2)
            first, second = [shown for shown in world.screen().shown if shown.actions]
            assert await world.asks("/approve", "Which one?")
            await press(world, action_of(second, "n" if "6 * 8" in second.text else "y"))
            await press(world, action_of(first, "n" if "6 * 8" in first.text else "y"), id="p2")
            await world.shows("It is 42.")
            assert sorted(await verdicts(world)) == ["denied", "ran"]
            results = [one["content"] for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"]
            assert results[0] == "42", "results stand in call order, whoever was answered first"
            assert "said no" in results[1]


async def test_always_asks_no_more_until_it_is_revoked(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        await press(world, action_of(await asked(world), "a"))
        await world.shows("It is 42.")
        await world.settled()
        await world.say("work it out")
        await until(lambda: world.screen().made("send").count("It is 42.") == 2)
        await world.settled()
        assert await verdicts(world) == ["ran", "ran"]
        listed = await world.asks("/approvals", "Allowed in this chat")
        assert "1. calculate" in listed
        assert await world.asks("/approvals revoke 1", "revoked")
        await world.say("work it out")
        assert await asked(world)


async def test_who_allows_for_good_is_told_how_far_that_goes(asking: World) -> None:
    call = {"type": "tool_use", "name": "write", "input": {"path": "a.txt", "content": "x"}}
    asking.script(RULES[1], {"match": {"contains": "note it"}, "reply": {"blocks": [call]}})
    async with asking.process() as world:
        await world.say("note it")
        shown = await asked(world)
        assert "“Always” allows from then on: write for files below /workspace." in shown.text
        assert "Waiting for an answer to my question" in await world.asks("/status")
        await press(world, action_of(shown, "a"))
        await until(lambda: "allowed in this chat: write for files below /workspace" in world.screen().notes[-1])
        assert "1. write: files below /workspace" in await world.asks("/approvals", "Allowed in this chat")


async def test_the_operator_sees_what_waits_and_what_was_done(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        (pending,) = (await world.services.overview.overview()).pending
        assert (pending.tool, pending.requester, pending.conversation) == ("calculate", "telegram:77", "telegram:77")
        assert "6 * 7" in pending.shown
        await press(world, action_of(shown))
        await world.shows("It is 42.")
        await world.settled()
        assert (await world.services.overview.overview()).pending == ()
        (line,) = (await world.services.operations.audit({"conversation": "telegram:77"}))["lines"]
        recorded = json.loads(line)
        assert (recorded["tool"], recorded["verdict"], recorded["result"]) == ("calculate", "ran", "42")
        assert recorded["approval"] == pending.id


async def test_what_cannot_be_edited_is_let_go(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        channel = world.services.delivery.channel_for(world.said("").key)
        assert channel is not None
        await channel.delete(SentRef(shown.id))
        await press(world, action_of(shown))
        await world.shows("It is 42.")

        async def settled() -> bool:
            query = select(approval.c.screen)
            return bool(await world.database.read(lambda conn: conn.execute(query).scalar_one()) == "settled")

        await until(settled)


@pytest.mark.requirement("W-50", "R-29")
async def test_unattended_nobody_is_asked(world_of: "Callable[..., World]") -> None:
    unstarted = world_of(config=f"{ASK}auto_approve = true\n")
    unstarted.script(*RULES)
    async with unstarted.process() as world:
        assert await world.answered("work it out", "It is 42.")
        assert await verdicts(world) == ["ran"]


@pytest.mark.requirement("W-50")
async def test_unattended_nobody_is_asked_about_programs_and_files(world_of: "Callable[..., World]") -> None:
    config = '[approvals]\nauto_approve = true\n[tools.shell]\nmode = "open"\n'
    async with world_of(config=config).process() as world:
        world.script(
            *calling("make it", "shell", command="touch made.txt"),
            *calling("note it", "write", path="noted.txt", content="x"),
        )
        await world.answered("make it", "Done: make it")
        await world.answered("note it", "Done: note it")
        assert await verdicts(world) == ["ran", "ran"]
        folder = workspace_of(world.home, ConversationId(f"telegram:{ANN}"))
        assert {path.name for path in folder.glob("*.txt")} == {"made.txt", "noted.txt"}
        assert not [event for event in world.events if isinstance(event, ApprovalRequired)]


@pytest.mark.requirement("G-03")
@pytest.mark.parametrize(("word", "what"), [("Yes.", "It is 42."), ("nein", "Then not.")])
async def test_a_plain_yes_or_no_answers_what_is_asked(asking: World, word: str, what: str) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        prompt = await asked(world)
        here = (ConversationId("telegram:77"), PersonId("telegram:77"), word)
        await until(lambda: world.services.approvals.ruled(*here, HeldRoles("admin")) is not None)
        receipt = await world.say(word)
        assert receipt.reason == "answered a question"
        await world.shows(what)
        await world.settled()
        assert len(world.llm.bodies) == 2, "the word itself is no message to the model"
        assert prompt.text.startswith("May I do this? (calculate)")
        assert "write yes or no" in prompt.text
        assert "ingerprint" not in prompt.text
        assert any(isinstance(block, CodeBlock) and "6 * 7" in block.code for block in prompt.message.document)


async def test_a_yes_of_somebody_else_is_a_message(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out", chat=GROUP)
        await asked(world, GROUP)
        assert (await world.say("yes", person=BOB, chat=GROUP)).reason != "answered a question"
        await world.say("no", chat=GROUP)
        await world.shows("Then not.", GROUP)


async def test_the_list_of_what_waits_tells_one_id(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        await asked(world)
        listed = await world.asks("/approvals", "Waiting for")
        assert re.search(r"^\w{10}: calculate ", listed, re.MULTILINE), listed


@pytest.mark.requirement("G-03")
@pytest.mark.parametrize(("word", "what"), [("yes", "It is 42."), ("Nein", "Then not.")])
async def test_in_a_group_the_one_who_asked_for_it_needs_no_mention(asking: World, word: str, what: str) -> None:
    async with asking.process() as world:
        await world.say("work it out", chat=GROUP)
        prompt = await asked(world, GROUP)
        assert "reply to this message with yes or no" in prompt.text
        quiet = {"chat": GROUP, "mention": Mention.NONE}
        assert (await world.say(word, person=BOB, **quiet)).outcome == "ignored", "of somebody else"
        assert (await world.say("well, yes", **quiet)).outcome == "ignored", "no word that was offered"
        assert (await world.say(word, **quiet)).reason == "answered a question"
        await world.shows(what, GROUP)
        await world.settled()
        assert (await world.say(word, **quiet)).reason == "no mention of the bot"
        assert len(world.llm.bodies) == 2


async def test_in_a_group_an_approver_s_word_needs_a_mention(world_of: "Callable[..., World]") -> None:
    unstarted = world_of(config=f'{ASK}approvers = ["telegram:78"]\n')
    unstarted.script(*RULES)
    async with unstarted.process() as world:
        await world.say("work it out", chat=GROUP)
        await asked(world, GROUP)
        assert (await world.say("yes", person=BOB, chat=GROUP, mention=Mention.NONE)).outcome == "ignored"
        assert (await world.say("yes", person=BOB, chat=GROUP)).reason == "answered a question"
        await world.shows("It is 42.", GROUP)


@pytest.mark.requirement("G-03")
async def test_where_every_message_is_heard_a_yes_of_others_must_be_addressed(world_of: "Callable[..., World]") -> None:
    """It may be meant for anybody; that of who asked for the call is expected."""
    unstarted = world_of(config=f'{ASK}approvers = ["telegram:78"]\n[[places]]\nmatch = "*"\nmention = "always"\n')
    unstarted.script(*RULES)
    async with unstarted.process() as world:
        await world.say("work it out", chat=GROUP)
        await asked(world, GROUP)
        unaddressed = await world.say("yes", person=BOB, chat=GROUP, mention=Mention.NONE)
        assert (unaddressed.outcome, unaddressed.reason) == ("accepted", ""), "a message as any other"
        assert await status(world) == ["pending"]
        assert (await world.say("yes", person=BOB, chat=GROUP)).reason == "answered a question"
        await world.shows("It is 42.", GROUP)
        await world.settled()
        await world.say("work it out", chat=GROUP)
        await until(lambda: any(shown.actions for shown in world.screen(GROUP).shown))
        assert (await world.say("no", chat=GROUP, mention=Mention.NONE)).reason == "answered a question"
        await world.shows("Then not.", GROUP)


@pytest.mark.requirement("G-03")
@pytest.mark.parametrize(
    ("rule", "mention"),
    [("never", Mention.NONE), ("never", Mention.DIRECT), ("mentioned", Mention.IMPLICIT), ("mentioned", Mention.NONE)],
)
async def test_the_one_who_asked_for_it_answers_whatever_the_place_wants_of_messages(
    asking: World, rule: str, mention: Mention
) -> None:
    async with asking.process() as world:
        await world.say("work it out", chat=GROUP)
        await asked(world, GROUP)
        world.config += f'[[places]]\nmatch = "telegram"\nmention = "{rule}"\n'
        world.reload()
        words: dict[str, Any] = {"chat": GROUP, "mention": mention}
        assert (await world.say("well, yes", **words)).outcome == "ignored", "no word that was offered"
        assert (await world.say("yes", person=BOB, **words)).outcome == "ignored", "of somebody else"
        assert (await world.say("yes", **words)).reason == "answered a question"
        await world.shows("It is 42.", GROUP)


async def test_in_a_group_a_word_that_comes_too_late_is_no_message(asking: World) -> None:
    async with asking.process() as world:
        await world.say("work it out", chat=GROUP)
        await asked(world, GROUP)
        world.clock.ahead_s += 301  # it has expired, and who waits for it has not looked yet
        assert (await world.say("yes", chat=GROUP, mention=Mention.NONE)).reason == "no mention of the bot"
        await world.shows("Then not.", GROUP)
        await world.settled()
        assert len(world.llm.bodies) == 2


class TestThreads:
    """A Slack command cannot be given in a thread: it comes with the key of the channel."""

    async def test_a_command_in_the_place_answers_a_question_in_a_thread(self, asking: World) -> None:
        async with asking.process() as world:
            await world.say("work it out", chat=THREAD)
            id = action_of(await asked(world, THREAD)).split(":")[1]
            assert f"{id}: calculate" in await world.asks("/approvals", "Waiting for a word", chat=GROUP)
            await world.say("/approve", chat=GROUP)
            await world.shows("It is 42.", chat=THREAD)
            await world.settled()
            assert await world.asks(f"/approve {id}", "Person 77 has approved this already", chat=GROUP)

    async def test_of_several_the_id_names_one(self, asking: World) -> None:
        async with asking.process() as world:
            await world.say("work it out", chat=THREAD)
            first = action_of(await asked(world, THREAD)).split(":")[1]
            await world.say("work it out", chat=OTHER_THREAD)
            second = action_of(await asked(world, OTHER_THREAD)).split(":")[1]
            which = await world.asks("/deny", "Which one?", chat=GROUP)
            assert first in which
            assert second in which
            await world.say(f"/deny {second}", chat=GROUP)
            await world.shows("Then not.", chat=OTHER_THREAD)
            assert await status(world) == ["pending", "rejected"]

    async def test_a_rule_of_a_thread_is_shown_and_taken_back_from_the_place(self, asking: World) -> None:
        async with asking.process() as world:
            await world.say("work it out", chat=THREAD)
            id = action_of(await asked(world, THREAD)).split(":")[1]
            await world.say(f"/approve {id} always", chat=GROUP)
            await world.shows("It is 42.", chat=THREAD)
            assert "1. calculate" in await world.asks("/approvals", "Allowed in this chat", chat=GROUP)
            assert await world.asks("/approvals revoke 1", "Rule 1 is revoked", chat=GROUP)

    @pytest.mark.parametrize("chat", [OTHER_THREAD, OTHER_GROUP, ANN])
    async def test_a_word_of_another_place_or_thread_does_not_count(self, asking: World, chat: str) -> None:
        async with asking.process() as world:
            await world.say("work it out", chat=THREAD)
            id = action_of(await asked(world, THREAD)).split(":")[1]
            assert await world.asks(f"/approve {id}", "There is no such request", chat=chat)
            assert await world.asks("/approve", "Nothing here waits", chat=chat)
            assert await status(world) == ["pending"]


ELSEWHERE = {"type": "tool_use", "name": "send_message", "input": {"text": "hi", "to": f"telegram:{ANN}"}}


@pytest.mark.requirement("B-93", "B-36")
async def test_an_admin_of_one_group_has_nothing_sent_to_another_chat(world_of: "Callable[..., World]") -> None:
    world = world_of()
    of_the_group = Grant(
        subject=f"telegram:{BOB}",
        kind="person",
        role="admin",
        place=f"telegram:{GROUP}",
        granted_by="operator",
        at=0,
    )
    world.grants = (of_the_group,)
    world.script(
        {"match": {"tool_result": True}, "reply": {"text": "Not done."}},
        {"match": {"contains": "tell Ann"}, "reply": {"blocks": [ELSEWHERE]}},
    )
    async with world.process():
        await world.answered("hello", "hello")  # Ann's chat is known
        await world.say("tell Ann", person=BOB, chat=GROUP)
        await world.shows("Not done.", chat=GROUP)
        assert "only admins of the whole bot" in json.dumps(world.llm.bodies[-1]["messages"])
        assert (await verdicts(world))[-1] == "denied"
        await world.say("tell Ann", person=ANN, chat=GROUP)
        assert f"telegram:{ANN}" in str(await asked(world, GROUP)), "an admin of the bot is asked"


@pytest.mark.requirement("W-49")
@pytest.mark.parametrize(
    ("ending", "status"), [("n", "rejected"), ("time", "expired")], ids=["refused", "nobody answers"]
)
async def test_the_run_is_told_to_go_on_however_the_question_ends(asking: World, ending: str, status: str) -> None:
    async with asking.process() as world:
        await world.say("work it out")
        shown = await asked(world)
        assert not any(isinstance(event, ApprovalResumed) for event in world.events), "the run rests"
        if ending == "n":
            await press(world, action_of(shown, "n"))
        else:
            world.clock.ahead_s += 301
        await world.shows("Then not.")
        await world.settled()
        assert [event.status for event in world.events if isinstance(event, ApprovalResumed)] == [status]
        names = [type(event) for event in world.events]
        assert names.index(ApprovalResumed) < names.index(LoopEnded)
