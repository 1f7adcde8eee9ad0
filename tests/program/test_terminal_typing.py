"""Typing in a terminal while an answer grows: it is sent at Enter, read at once, and not torn."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from tests.program import configs
from tests.program.doubles import Doubles
from tests.program.running import Program
from tests.program.stage import Stage
from tests.program.typist import Typist

SLOWLY = 0.15  # seconds for each word
WORDS = " ".join(f"verse{number}" for number in range(200))
MARKER = "please remember MARKER-LOST"


@pytest.fixture
async def stage(doubles: Doubles, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home: Path = tmp_path_factory.mktemp("h", numbered=True)
    async with Program(home, configs.models(doubles, "a")) as program:
        yield Stage(doubles, program)


@pytest.fixture
async def sits_down(stage: Stage) -> AsyncIterator[Callable[[], Typist]]:
    """Open the terminal of this gateway."""
    made: list[Typist] = []

    def one() -> Typist:
        made.append(Typist(stage.program))
        return made[-1]

    yield one
    for typist in made:
        typist.close()


async def asked_slowly(stage: Stage, typist: Typist, **reply: object) -> None:
    """An answer grows on the screen."""
    await stage.script("a long poem", WORDS, **(reply or {"token_delay": SLOWLY}))
    await typist.sees("› ")
    typist.type("a long poem\n")
    await typist.sees("verse1 ")


@pytest.mark.alone
@pytest.mark.requirement("Z-67")
async def test_what_was_sent_while_an_answer_grew_is_answered_after_a_stop(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    await stage.script(MARKER, "It is remembered.")
    typist = sits_down()
    await asked_slowly(stage, typist)
    typist.type(f"{MARKER}\n")
    await typist.sees(MARKER)
    await typist.sees("Waiting: 1")
    typist.type("\x03")
    await typist.sees(r"Stopped\.")
    await typist.sees(r"It is remembered\.\s+› ")
    exported = await stage.program.cli("export", "console:")
    assert exported.stdout.count(MARKER) == 1


@pytest.mark.slow
async def test_a_command_is_done_at_once_while_an_answer_grows(stage: Stage, sits_down: Callable[[], Typist]) -> None:
    typist = sits_down()
    await asked_slowly(stage, typist)
    typist.type("/whoami\n")
    await typist.sees("role owner")
    assert "verse199" not in await typist.sees("verse[3-9]")
    typist.type("/stop\n")
    seen = await typist.sees(r"Stopped\.\s+› ")
    assert "verse199" not in seen
    assert "Nothing is running" not in seen


@pytest.mark.slow
async def test_an_answer_is_drawn_once_whatever_is_typed_meanwhile(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    typist = sits_down()
    await asked_slowly(stage, typist, hold="the rest", hold_after=60)
    for line in ("/whoami\n", "\n", "/whoami\n"):
        await typist.sees("verse59")
        typist.type(line[0])
        await typist.sees("› ")
        typist.type(line[1:])
        if line.strip():
            await typist.sees("role owner")
    await typist.sees("verse59")
    typist.type("half a li")
    await typist.sees("› half a li")
    await stage.release("the rest")
    await typist.sees(r"verse199\s+› half a li")
    shown = typist.screen()
    assert [word for word in shown.split() if word.startswith("verse")] == WORDS.split(), shown
    assert shown.count("role owner") == 2
    assert shown.count("›") == 4, "an Enter alone leaves no trace"
    assert shown.rstrip().endswith("› half a li")


@pytest.mark.alone
async def test_what_is_typed_stands_on_a_line_of_its_own_while_an_answer_grows(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    typist = sits_down()
    await asked_slowly(stage, typist)
    typist.type("half a li")
    await typist.sees("› half a li")
    await stage.program.cli("console", stdin="/whoami\n")  # the answer grows on meanwhile
    await typist.sees("role owner[^›]*› half a li")
    typist.type("ne and more")
    await typist.sees("ne and more")
    assert typist.screen().rstrip().splitlines()[-1] == "› half a line and more"
    typist.type("\x03")
    await typist.sees(r"\^C\s+verse")  # the line first
    typist.type("\x03")
    assert "verse199" not in await typist.sees(r"Stopped\.\s+› ")


@pytest.mark.slow
async def test_ctrl_c_clears_a_line_and_leaves_when_it_is_pressed_twice_at_an_empty_one(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    typist = sits_down()
    await typist.sees(r"Ctrl-D leaves,\s+Ctrl-C clears what is typed, else stops the answer\.")
    await typist.sees("› ")
    typist.type("half a sen")
    await typist.sees("half a sen")
    typist.type("\x03")
    await typist.sees(r"\^C\s+› ")
    typist.type("/whoami\n")
    assert "half" not in await typist.sees("role owner")
    await typist.sees("› ")
    typist.type("\x03")
    await typist.sees("Ctrl-C once more, Ctrl-D or /exit leaves")
    await typist.sees("› ")
    typist.type("/whoami\n")
    await typist.sees("role owner")
    await typist.sees("› ")
    typist.type("\x03")
    await typist.sees("Ctrl-C once more")
    await typist.sees("› ")
    typist.type("\x03")
    assert await typist.ended() == 0


@pytest.mark.slow
async def test_ctrl_d_leaves_while_an_answer_grows_and_the_next_terminal_shows_it(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    typist = sits_down()
    await asked_slowly(stage, typist, hold="the rest", hold_after=60)
    typist.type("\x04")
    with anyio.fail_after(20):
        assert await typist.ended() == 0
    await stage.release("the rest")
    await stage.program.settled()
    await sits_down().sees("verse199")
