"""`tieline rights`: the tables of ranks and roles, and the rights of one person with their rules."""

import json
from typing import Any

import pytest

from tests.gateway.cli.conftest import Tieline

CONFIG = """
[access]
allow = ["telegram:78"]
allow_groups = ["telegram:-1005"]
[[roles]]
name = "ops"
people = ["telegram:78"]
platform_roles = ["telegram:administrator"]
tools = ["!web_fetch"]
commands = ["budget"]
approve = ["shell"]
"""


@pytest.fixture
def made(tieline: Tieline) -> None:
    """The database is there."""
    tieline("doctor", "--fix", config=CONFIG)


def of(found: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The row of a tool or a command."""
    row: dict[str, Any] = next(row for row in found[f"{kind}s"] if row[kind] == name)
    return row


def test_the_tables(tieline: Tieline) -> None:
    ran = tieline("rights", config=CONFIG)
    assert ran.exit_code == 0
    assert "guest   outside  allow  deny   deny   deny" in ran.stdout
    assert "administrator" in ran.stdout
    found = json.loads(tieline("rights", "--json").stdout)
    shell = of(found, "tool", "shell")
    assert (shell["touches"], shell["effects"], shell["member"], shell["guest"]) == (
        "outside",
        ["write", "run"],
        "ask",
        "deny",
    )
    assert of(found, "tool", "web_fetch")["ops"] == "deny"


@pytest.mark.requirement("G-46")
@pytest.mark.usefixtures("made")
def test_one_person_in_one_place(tieline: Tieline) -> None:
    ran = tieline("rights", "--person", "telegram:78", "--place", "telegram:-1005")
    assert "telegram:78 in telegram:-1005: member; roles: ops." in ran.stdout
    found = json.loads(tieline("rights", "--person", "telegram:78", "--place", "telegram:-1005", "--json").stdout)
    fetch, shell = of(found, "tool", "web_fetch"), of(found, "tool", "shell")
    assert (fetch["may"], fetch["why"]) == ("deny", 'the role ops has "!web_fetch" in its tools')
    assert (shell["may"], shell["decided_by"], shell["approves"]) == ("ask", "an admin or a role", True)
    assert of(found, "command", "budget")["may"] == "allow"
    assert of(found, "command", "allow")["why"] == "/allow is for admins; this person is member here"


@pytest.mark.usefixtures("made")
def test_a_role_of_the_platform(tieline: Tieline) -> None:
    args = ("rights", "--person", "telegram:79", "--place", "telegram:-1005")
    assert "roles: none" in tieline(*args).stdout
    assert "roles: ops" in tieline(*args, "--platform-role", "administrator").stdout


@pytest.mark.usefixtures("made")
def test_somebody_who_is_not_answered(tieline: Tieline) -> None:
    ran = tieline("rights", "--person", "telegram:79", "--place", "telegram:-9")
    assert "telegram:79 is not answered in telegram:-9: group not allowed." in ran.stdout


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--person", "78"], 'write it as "telegram:77"'),
        (["--place", "telegram:-1005"], "add --person"),
        (["--person", "telegram:78", "--place", "slack:C1"], "on another platform"),
    ],
)
def test_mistakes(tieline: Tieline, args: list[str], why: str) -> None:
    ran = tieline("rights", *args)
    assert ran.exit_code == 1
    assert why in ran.stderr


def test_rules_that_stand_for_nothing_are_told(tieline: Tieline) -> None:
    config = '[[roles]]\nname = "ops"\ntools = ["!shel"]\ncommands = ["budgt"]\n'
    ran = tieline("config", "check", config=config)
    assert "roles (ops): tools: there is no tool 'shel'; did you mean shell?" in ran.stdout
    assert "roles (ops): commands: there is no command 'budgt'; did you mean budget?" in ran.stdout


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('name = "owner"', "which is a rank of its own"),
        ('name = "ops"\n[[roles]]\nname = "Ops"', 'two are called "ops"'),
        ('name = "ops"\npeople = ["telegrm:77"]', "did you mean telegram?"),
        ('name = "ops"\nmodels = ["nobody/*"]', "there is no provider 'nobody'"),
        ('name = "ops"\ntool = ["shell"]', "did you mean tools?"),
    ],
)
def test_mistakes_in_a_role(tieline: Tieline, entry: str, why: str) -> None:
    ran = tieline("config", "check", config=f"[[roles]]\n{entry}\n")
    assert ran.exit_code == 78
    assert why in ran.stderr


def test_the_rules_of_a_place_are_among_them(tieline: Tieline, made: None) -> None:
    """Rules of the file, also for a topic of a group that it names."""
    rules = '[[places]]\nmatch = "telegram:-1005"\ndenied_tools = ["shell"]\ntools = ["sh*", "read"]\n'
    for place in ("telegram:-1005", "telegram:-1005/7"):
        ran = tieline("rights", "--person", "telegram:78", "--place", place, "--json", config=CONFIG + rules)
        found = json.loads(ran.stdout)
        assert of(found, "tool", "shell")["why"] == 'this place denies "shell"'
        assert of(found, "tool", "web_search")["why"] == "this place allows only sh*, read"
        assert of(found, "tool", "read")["may"] == "allow"


@pytest.mark.requirement("G-56", "G-58")
@pytest.mark.parametrize(
    ("rights", "rank", "told"),
    [
        ("true", "admin", "Linked with telegram:77: has the rights of telegram:77."),
        ("false", "member", "Linked with telegram:77: rights stay apart."),
    ],
)
def test_linked_accounts_and_whether_their_rights_hold(tieline: Tieline, rights: str, rank: str, told: str) -> None:
    config = (
        '[access]\nallow = ["discord:500000000000000001"]\nadmins = ["telegram:77"]\n'
        f'[[people]]\nname = "ann"\naccounts = ["telegram:77", "discord:500000000000000001"]\nrights = {rights}\n'
    )
    tieline("doctor", "--fix", config=config)
    ran = tieline("rights", "--person", "discord:500000000000000001")
    assert told in ran.stdout
    assert f"in a direct chat: {rank}; roles: none." in ran.stdout
