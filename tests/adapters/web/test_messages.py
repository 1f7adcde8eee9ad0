"""The page's journal survives a kill at any byte, and stays small."""

from pathlib import Path

import pytest

from adapters.web.messages import Choice, Entry, Gone, Journal, Put, Shown, ShownFile, standing


def shown(id: str, order: int, text: str = "") -> Shown:
    return Shown(id=id, order=order, who="person", at="2026-01-01T12:00:00+00:00", text=text)


async def test_what_was_written_is_read_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a" / "main.jsonl", keep=10)
    file = ShownFile(id="f", name="n", mime_type="image/png", size=3, is_image=True)
    rich = Shown(
        id="m2", order=2, who="bot", at="x", blocks=("<p>a\n</p>",), key="k", reply_to="m1",
        buttons=((Choice(label="l", action="a", style="danger"),),), files=(file,),
    )  # fmt: skip
    for each in (rich, shown("m1", 1, "hello"), shown("m3", 3)):
        await journal.write(Put(put=each), [])
    await journal.write(Gone(gone="m3"), [])
    assert await Journal(tmp_path / "a" / "main.jsonl", keep=10).read() == [shown("m1", 1, "hello"), rich]
    assert (tmp_path / "a" / "main.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [1, 10, 40])
async def test_a_line_cut_by_a_kill_costs_only_itself(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "main.jsonl"
    journal = Journal(path, keep=10)
    await journal.write(Put(put=shown("m1", 1)), [])
    await journal.write(Put(put=shown("m2", 2)), [])
    path.write_bytes(path.read_bytes()[:-cut])
    await journal.write(Put(put=shown("m3", 3)), [])
    assert [each.id for each in await journal.read()] in (["m1", "m3"], ["m1", "m2", "m3"])


async def test_it_is_rewritten_before_it_grows_for_ever(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "main.jsonl", keep=20)
    now: list[Shown] = []
    for number in range(200):
        now.append(shown(f"m{number}", number))
        await journal.write(Put(put=now[-1]), now)
    assert len((tmp_path / "main.jsonl").read_bytes().splitlines()) <= 2 * 20 + 51
    assert [each.id for each in await journal.read()] == [f"m{number}" for number in range(180, 200)]


async def test_where_it_cannot_be_rewritten_it_goes_on_and_is_made_short_later(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    journal, now = Journal(path, keep=20), list[Shown]()
    path.with_suffix(".new").mkdir()
    for number in range(100):
        now.append(shown(f"m{number}", number))
        await journal.write(Put(put=now[-1]), now)
    assert len(path.read_bytes().splitlines()) == 100
    path.with_suffix(".new").rmdir()
    now.append(shown("m100", 100))
    await journal.write(Put(put=now[-1]), now)
    assert [each.id for each in await journal.read()] == [f"m{number}" for number in range(81, 101)]
    assert len(path.read_bytes().splitlines()) == 20


def test_the_last_word_on_a_message_counts() -> None:
    entries: list[Entry] = [
        Put(put=shown("a", 1, "x")),
        Put(put=shown("b", 2)),
        Put(put=shown("a", 1, "y")),
        Gone(gone="b"),
    ]
    assert standing(entries, 10) == [shown("a", 1, "y")]
