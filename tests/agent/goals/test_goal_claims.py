"""Claims of completion in an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.goals.goal import claims, completion_pattern
from agent.goals.settings import COMPLETION_PHRASES

GERMAN = ("fertig", "erledigt")
PATTERN = completion_pattern((*COMPLETION_PHRASES, *GERMAN, "all done. bye", "status: ok"))


@pytest.mark.requirement("Z-89", "Z-90")
@pytest.mark.parametrize(
    "text",
    [
        "Done!",
        "done",
        "The task  complete.",
        "**Task complete.**",
        "All FINISHED now",
        "_Done._ The file is in the workspace.",
        "The report is written and the task complete.",
        "Done! What shall I do next?",
        "No problem, it is done.",
        "There were no errors. Task complete.",
        "The first try did not work, but now it is finished.",
        "I could not reach the server at first; the upload is completed now.",
        "Completed without errors.",
        "Done, and nothing was lost.",
        "Here it is:\n\n```\nx = 1\n```\n\nDone.",
        "- the report is finished\n- no mistakes were found",
        "- [x] tests\n\nTask complete.",
        "# No worries\nDone.",
        "Alles erledigt.",
        "Kein Problem, das ist erledigt.",
        "Erst ging es nicht, aber jetzt bin ich fertig.",
        "All done. Bye",
        "Status: ok",
    ],
)
def test_it_is_said_and_meant(text: str) -> None:
    assert claims(text, PATTERN)


@pytest.mark.requirement("Z-89", "Z-90")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Working on it", id="no phrase"),
        pytest.param("That is undone and abandoned", id="part of a word"),
        pytest.param("It is not done.", id="not"),
        pytest.param("It isn’t finished yet.", id="n't with a typographic apostrophe"),
        pytest.param("That hasn't been completed.", id="n't"),
        pytest.param("It is **not** done.", id="not in bold"),
        pytest.param("It is _not_ done.", id="not in italics"),
        pytest.param("I have not, as you wished, finished it.", id="not, in an earlier part of the sentence"),
        pytest.param("I have not\nfinished it.", id="not, on the line before"),
        pytest.param("Done it is not.", id="not, behind it"),
        pytest.param(
            "No, I have not finished this; nothing is done yet. What do you want me to do first?", id="twice denied"
        ),
        pytest.param("Neither of the two is completed.", id="neither"),
        pytest.param("I failed to get it done.", id="failed"),
        pytest.param("Let me know when you are done.", id="when"),
        pytest.param("I'll tell you once it is finished.", id="once"),
        pytest.param("The last part is still to be done.", id="to be done"),
        pytest.param("It will be finished tomorrow.", id="will"),
        pytest.param("It is almost done.", id="almost"),
        pytest.param("Is it done?", id="a question"),
        pytest.param("Shall I count that as completed, or go on?", id="a longer question"),
        pytest.param("It prints `done`.", id="code in a line"),
        pytest.param("```\nprint('x')\ndone\n```", id="a block of code"),
        pytest.param("~~~\ndone\n```\ndone\n~~~", id="another fence inside"),
        pytest.param("```\ndone", id="a block of code that is not closed"),
        pytest.param("> done", id="a quoted line"),
        pytest.param("The log says “task complete” there.", id="a quotation"),
        pytest.param('Say "done" then.', id="a quotation in straight marks"),
        pytest.param("Er sagte „erledigt“ dazu.", id="a German quotation"),
        pytest.param("I would not call “this” done.", id="denied before a quotation"),
        pytest.param("~~Done.~~", id="struck out"),
        pytest.param("- [x] done\n- [ ] completed\n1. [X] finished", id="a task list"),
        pytest.param("Das ist nicht erledigt.", id="nicht"),
        pytest.param("Ich bin noch nicht fertig.", id="noch nicht"),
        pytest.param("Fertig bin ich nicht.", id="nicht, behind it"),
        pytest.param("Keine der Aufgaben ist erledigt.", id="keine"),
        pytest.param("Nichts davon ist fertig.", id="nichts"),
        pytest.param("Weder das eine noch das andere ist fertig.", id="weder"),
        pytest.param("Sag Bescheid, wenn du fertig bist.", id="wenn"),
        pytest.param("Das wird morgen erledigt.", id="wird"),
        pytest.param("Bist du fertig?", id="a German question"),
    ],
)
def test_it_is_not_said_or_not_meant(text: str) -> None:
    assert not claims(text, PATTERN)


def test_without_phrases_nothing_is_claimed() -> None:
    assert not claims("Done.", completion_pattern([]))


@given(st.text(alphabet="done .?!`~>“”\"'*_-[x]\n,;:not", max_size=120))
def test_whatever_is_said_a_question_after_it_changes_nothing_before(text: str) -> None:
    assert claims(f"Done.\n\n{text}", PATTERN)
    assert not claims(f"```\n{text.replace('`', '')}\ndone", PATTERN)
