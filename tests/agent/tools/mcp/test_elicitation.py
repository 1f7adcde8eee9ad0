"""Questions of an MCP server to people: each kind, declined, cancelled, repeated, too late; and addresses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.core.ids import PersonId
from agent.core.outbox import Answer, Question
from agent.core.tools import Asker
from agent.tools.mcp.elicitation import Given, Wanted, ask_person
from tests.fakes.calls import call_in

ANN = PersonId("telegram:77")


@dataclass
class Person:
    """Answers in order, then not at all."""

    answers: Sequence[str]
    asked: list[Question] = field(default_factory=list)

    async def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        number = len(self.asked) - 1
        return Answer(self.answers[number] if number < len(self.answers) else None)


async def asked(tmp_path: Path, wanted: Wanted, *answers: str, **more: Any) -> tuple[Given, list[Question]]:
    person = Person(answers)
    context = call_in(tmp_path, **{"elicit": person, "person": ANN, **more})
    return await ask_person("shop", wanted, context), person.asked


def form(required: Sequence[str] = (), **properties: Any) -> Wanted:
    return Wanted(message="Tell me.", schema={"properties": properties, "required": list(required)})


NAME = {"type": "string", "title": "Your name", "minLength": 2}
THREE = form(
    ["name", "colour"],
    name=NAME,
    age={"type": "integer", "title": "Age", "minimum": 1},
    colour={"type": "string", "title": "Colour", "enum": ["red", "blue"], "default": "blue"},
)


async def test_a_yes(tmp_path: Path) -> None:
    given, (question,) = await asked(tmp_path, Wanted(message="Really?"), "yes")
    assert given == Given(action="accept", content={})
    assert question.prompt == "The MCP server shop asks: Really?"
    assert question.choices == ("yes", "no", "Cancel")
    assert (question.asked_of, question.takes_words) == (ANN, False)
    assert (await asked(tmp_path, Wanted(message="Really?"), "no"))[0].action == "decline"
    assert (await asked(tmp_path, Wanted(message="Really?"), "Cancel"))[0].action == "cancel"
    assert (await asked(tmp_path, Wanted(message="Really?")))[0].action == "decline"


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [({"type": "boolean", "title": "Sure"}, "yes", True), ({"type": "boolean"}, "no", False),
     (NAME, "Ann", "Ann"), ({"type": "number"}, "2.5", 2.5), ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
     ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}, "Red", "r"),
     ({"type": "array", "items": {"enum": ["a", "b"]}}, "a, b", ["a", "b"])],
)  # fmt: skip
async def test_one_field_of_each_kind(tmp_path: Path, schema: dict[str, Any], answer: str, value: Any) -> None:
    given, (question,) = await asked(tmp_path, form(["x"], x=schema), answer)
    assert given == Given(action="accept", content={"x": value})
    assert str(schema.get("title", "x")) in question.prompt
    assert question.choices[-2:] == ("Decline", "Cancel")


async def test_a_form_field_after_field(tmp_path: Path) -> None:
    given, questions = await asked(tmp_path, THREE, "Ann", "Skip", "red")
    assert given == Given(action="accept", content={"name": "Ann", "colour": "red"})
    first, second, third = questions
    assert first.prompt.startswith("The MCP server shop asks: Tell me.\nIt wants 3 answers")
    assert "1 of 3: Your name" in first.prompt
    assert first.choices == ("Decline", "Cancel"), "it cannot be skipped"
    assert second.prompt == "The MCP server shop asks:\n2 of 3: Age\nA whole number, in digits."
    assert second.choices == ("Skip", "Decline", "Cancel")
    assert third.choices == ("red", "blue", "Skip", "Decline", "Cancel")
    assert "“Skip” leaves blue." in third.prompt
    assert all(one.takes_words for one in questions)


async def test_a_form_in_one_message_and_what_does_not_fit_of_it_is_asked_again(tmp_path: Path) -> None:
    given, questions = await asked(tmp_path, THREE, "Your name: Ann\nAge: minus one\nColour: red", "7")
    assert given == Given(action="accept", content={"name": "Ann", "age": 7, "colour": "red"})
    assert questions[1].prompt.startswith("That does not fit Age: A whole number, in digits.\n")


async def test_what_is_skipped_has_its_default(tmp_path: Path) -> None:
    assert (await asked(tmp_path, THREE, "Ann", "Skip", "Skip"))[0].content == {"name": "Ann", "colour": "blue"}


async def test_words_that_do_not_fit_are_asked_again_and_not_for_ever(tmp_path: Path) -> None:
    given, questions = await asked(tmp_path, form(["name"], name=NAME), "A", "Ann")
    assert given.content == {"name": "Ann"}
    assert questions[1].prompt.startswith("That does not fit Your name: From 2 to 4000 characters; these are 1.")
    given, questions = await asked(tmp_path, form(["name"], name=NAME), *"ABCDEFGH")
    assert (given.action, len(questions)) == ("decline", 5)
    assert "no answer fitted" in given.note


@pytest.mark.parametrize(("answer", "action"), [("Decline", "decline"), ("Cancel", "cancel"), (None, "decline")])
async def test_each_question_may_be_declined_cancelled_or_left(tmp_path: Path, answer: str | None, action: str) -> None:
    given, _ = await asked(tmp_path, THREE, "Ann", *([answer] if answer else []))
    assert (given.action, given.content) == (action, None)
    assert ("in time" in given.note) == (answer is None)


async def test_many_or_long_choices_are_a_list(tmp_path: Path) -> None:
    many = {"type": "string", "enum": [f"choice{number}" for number in range(9)]}
    given, (question,) = await asked(tmp_path, form(["x"], x=many), "3")
    assert given.content == {"x": "choice2"}
    assert "\n3. choice2\n" in question.prompt
    assert question.takes_words
    assert question.choices == ("Decline", "Cancel")


async def test_a_choice_called_like_a_way_around_it_keeps_its_name(tmp_path: Path) -> None:
    wanted = form(["x"], x={"type": "string", "enum": ["Cancel", "Keep"]})
    given, (question,) = await asked(tmp_path, wanted, "Cancel")
    assert given.content == {"x": "Cancel"}
    assert question.choices == ("Cancel", "Keep", "Decline", "✕ Cancel")
    assert (await asked(tmp_path, wanted, "✕ Cancel"))[0].action == "cancel"


async def test_in_a_group_people_are_told_to_reply(tmp_path: Path) -> None:
    _, (question,) = await asked(tmp_path, form(["x"], x=NAME), "Ann", asker=Asker(chat_type="group"))
    assert question.prompt.endswith("Reply to this message with your answer.")


async def test_nobody_is_asked_for_secrets_nor_for_words_where_it_is_nobodys_call(tmp_path: Path) -> None:
    given, questions = await asked(tmp_path, form(password={"type": "string"}), "hunter2")
    assert (given.action, questions) == ("decline", [])
    assert "asks for a secret" in given.note
    given, questions = await asked(tmp_path, form(x=NAME), "Ann", person=None)
    assert (given.action, questions) == ("decline", [])
    unasked = (await asked(tmp_path, form(x=NAME), elicit=None))[0]
    assert unasked.action == "decline"
    assert "nobody can be asked" in unasked.note


async def test_an_address_is_shown_with_its_host_and_asked_about(tmp_path: Path) -> None:
    wanted = Wanted(message="Log in there.", url="https://login.example.org/a?b=c")
    given, (question,) = await asked(tmp_path, wanted, "I open it")
    assert given == Given(action="accept")
    assert question.prompt.startswith("The MCP server shop asks you to open an address: Log in there.\n\nhttps://login")
    assert "It leads to login.example.org." in question.prompt
    assert question.choices == ("I open it", "Decline", "Cancel")
    assert (await asked(tmp_path, wanted, "Decline"))[0].action == "decline"
    assert (await asked(tmp_path, wanted, "Cancel"))[0].action == "cancel"
    assert (await asked(tmp_path, wanted))[0].action == "decline"


async def test_letters_that_look_like_others_do_not_hide_in_the_host(tmp_path: Path) -> None:
    _, (question,) = await asked(tmp_path, Wanted(message="x", url="https://аpple.com/"))
    assert "It leads to xn--pple-43d.com." in question.prompt


@pytest.mark.parametrize(
    "url",
    ["http://example.org/", "javascript:alert(1)", "file:///etc/passwd", "https://a:b@example.org/", "https:///x",
     "https://example.org/\n", "data:text/html,x", "https://example.org:x/", "tg://resolve", "https://" + "x" * 3_000],
)  # fmt: skip
async def test_no_other_address_is_shown(tmp_path: Path, url: str) -> None:
    given, questions = await asked(tmp_path, Wanted(message="x", url=url), "I open it")
    assert (given.action, questions) == ("decline", [])
    assert "address" in given.note
