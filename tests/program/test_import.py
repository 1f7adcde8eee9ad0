"""A gateway after `tieline import`: the character answers, notes are recalled, schedules are set, the skill waits."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.importers.copies import DISCORD, TELEGRAM, change_json, copy_of
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import TELEGRAM_TOKEN, Doubles
from tests.program.people import OnTelegram
from tests.program.stage import Stage

COMMENT = "# Mine, and it stays.\n"
ADMIN = '[access]\nadmins = ["telegram:77"]\n'
SIGNATURES = {"openclaw": "with a lobster", "hermes": "with a wing", "nanobot": "with a cat"}


def _for_the_double(program: str, source: Path) -> None:
    """The token is the double's; Discord is left out, since its address cannot be moved to a double."""
    change: dict[str, Callable[[Any], None]] = {
        "openclaw": lambda config: config["channels"].pop("discord"),
        "nanobot": lambda config: config["channels"]["discord"].update(enabled=False),
    }
    for name in ("openclaw.json", "config.json", ".env"):
        path = source / name
        if path.exists():
            path.write_text(path.read_text("utf-8").replace(TELEGRAM, TELEGRAM_TOKEN), "utf-8")
    if program == "hermes":
        path = source / ".env"
        path.write_text("".join(line for line in path.read_text().splitlines(True) if "DISCORD" not in line))
    else:
        change_json(source / f"{'openclaw' if program == 'openclaw' else 'config'}.json", change[program])


@pytest.mark.alone
@pytest.mark.requirement("G-157", "G-158", "G-159", "G-160")
@pytest.mark.parametrize(
    "name",
    ["openclaw", pytest.param("hermes", marks=pytest.mark.slow), pytest.param("nanobot", marks=pytest.mark.slow)],
)
async def test_a_gateway_goes_on_where_another_program_stopped(
    name: str, program: Start, doubles: Doubles, tmp_path: Path
) -> None:
    source = copy_of(name, tmp_path)
    _for_the_double(name, source)
    outside = tmp_path / "outside.md"
    outside.write_text("The words of another file.\n")
    for notes in source.rglob("memory"):
        (notes / "LINKED.md").symlink_to(outside)
    gateway = program(COMMENT + ADMIN + configs.models(doubles, "main") + configs.telegram(doubles))
    before = (gateway.home / "gateway.toml").read_text()
    dry = await gateway.cli("import", name, str(source), "--person", "telegram:77", "--dry-run")
    assert (dry.returncode, (gateway.home / "gateway.toml").read_text()) == (0, before), dry.stderr
    assert not (gateway.home / "tieline.db").exists()
    moved = await gateway.cli("import", name, str(source), "--person", "telegram:77")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert moved.stdout.partition("\nMoved.")[0] == dry.stdout.partition("\nThis was")[0]
    assert (gateway.home / "gateway.toml").read_text().startswith(COMMENT)
    again = await gateway.cli("import", name, str(source), "--person", "telegram:77")
    assert (again.returncode, "\nMoves\n" in again.stdout) == (0, False), again.stdout

    assert "words of another file" not in moved.stdout + str(_texts_below(gateway.home)), "no link is followed"

    async with gateway:
        ann, stage = OnTelegram(doubles), Stage(doubles, gateway)
        await ann.say("where does the spare key lie?")
        asked = (await stage.asking("spare key"))["body"]["messages"]
        assert SIGNATURES[name] in str(asked[0]["content"])
        assert "blue flowerpot" in str(asked[-1]["content"])
        await ann.say("/schedules")
        listed = await ann.hears("morning")
        assert "passport" in listed
        await ann.say("/skills")
        assert "it came from another program" in await ann.hears("weekly-report")
        await ann.say("write the weekly report for the board")
        assert "Three sections" not in json.dumps((await stage.asking("weekly report for the board"))["body"])
        text = (gateway.home / "skills" / "imported" / "weekly-report" / "SKILL.md").read_bytes()
        await ann.say(f"/skill approve weekly-report {sha256(text).hexdigest()[:8]}")
        await ann.hears("may be used")
        await ann.say("and a weekly report for the team")
        assert "Three sections" in json.dumps((await stage.asking("weekly report for the team"))["body"])
    written = gateway.log.read_text() + "".join(one.stdout + one.stderr for one in (dry, moved, again))
    for path in (gateway.home / "secrets").iterdir():
        assert path.read_text().strip() not in written
    assert TELEGRAM_TOKEN not in written
    assert DISCORD not in written


def _texts_below(home: Path) -> list[bytes]:
    return [path.read_bytes() for path in home.rglob("*") if path.is_file()]
