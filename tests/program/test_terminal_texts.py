"""Any text in a terminal crashes nothing, styles nothing and loses no character."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.program import configs
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program
from tests.program.stage import Stage
from tests.program.typist import Typist

SIGNS = "[/] [/x] Bo"
HTML = (
    "Use Vec<String> and the <div> tag, or List<int> x; if a<b and c>d then <b>bold</b>, see [docs](http://127.0.0.1/d)"
    "\n\n<details>\n<summary>more</summary>\n</details>\n\n```python\nx = a[0] if b<c else d[/x]\n```\n\nThe end."
)


@pytest.fixture
async def stage(doubles: Doubles, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home: Path = tmp_path_factory.mktemp("h", numbered=True)
    config = configs.models(doubles, "a") + configs.telegram(doubles)
    async with Program(home, config) as program:
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


def stranger(stage: Stage, id: int, name: str) -> OnTelegram:
    return OnTelegram(stage.doubles, {"id": id, "first_name": name})


async def closed(typist: Typist) -> None:
    typist.type("/exit\n")
    await typist.sees("Bye")
    await typist.ended()


@pytest.mark.alone
async def test_a_strangers_name_neither_ends_a_terminal_nor_styles_it(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    first = sits_down()
    await first.sees("› ")
    await closed(first)
    await stranger(stage, 98, SIGNS).say("hello")
    await stranger(stage, 98, SIGNS).hears("pairing code")
    await stage.program.settled()
    owner = sits_down()
    assert SIGNS in await owner.sees(r"asks to be let in\s+on telegram")  # it waited for the terminal
    await owner.sees("› ")
    mal = stranger(stage, 99, "[bold]Mal[/bold] [link=http://127.0.0.1/e]x")
    await mal.say("hello")
    assert "[bold]Mal[/bold] [link=http://127.0.0.1/e]x" in await owner.sees(r"asks to be let in\s+on telegram")
    await owner.sees("› ")
    owner.type("/whoami\n")
    await owner.sees("role owner")
    await closed(owner)


@pytest.mark.slow
async def test_a_terminal_that_opens_later_shows_what_became_of_a_request(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    first = sits_down()
    await first.sees("› ")
    await closed(first)
    await stranger(stage, 97, "Zoe").say("hello")
    await stranger(stage, 97, "Zoe").hears("pairing code")
    await stage.program.settled()
    assert (await stage.program.cli("pair", "deny", "1")).returncode == 0

    async def changed() -> bool:
        return "turned away" in (stage.program.home / "console.jsonl").read_text()

    await until(changed)
    owner = sits_down()
    shown = await owner.sees("turned away")
    assert "Zoe" in shown
    assert "Let in]" not in shown + await owner.sees("› ")


@pytest.mark.slow
async def test_ones_own_words_are_shown_as_they_were_typed(stage: Stage, sits_down: Callable[[], Typist]) -> None:
    owner = sits_down()
    await owner.sees("› ")
    owner.type("/remind in 1 h buy [milk] and [b], check [/etc/hosts] :smile: file\n")
    await owner.sees(r"I will remind you .*buy \[milk\] and \[b\],\s+check\s+\[/etc/hosts\]\s+:smile:\s+file")
    await owner.sees("› ")
    owner.type("/skill [/x] now\n")
    await owner.sees(r"There is no skill[^›]*\[/x\]")
    await closed(owner)


@pytest.mark.alone
@pytest.mark.requirement("Z-67")
async def test_an_answer_keeps_each_character_the_address_of_a_link_and_its_code(
    stage: Stage, sits_down: Callable[[], Typist]
) -> None:
    await stage.script("show me", HTML)
    owner = sits_down()
    await owner.sees("› ")
    owner.type("show me\n")
    seen = " ".join((await owner.sees(r"The end\.\s+› ")).split())
    final = seen[seen.rindex("Use Vec") :]
    for words in (
        "Use Vec<String> and the <div> tag, or List<int> x; if a<b and c>d then <b>bold</b>, see docs (http://127.0.0.1/d)",
        "<details> <summary>more</summary> </details>",
        "x = a[0] if b<c else d[/x]",
    ):
        assert words in final
