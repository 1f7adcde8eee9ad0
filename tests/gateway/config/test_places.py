"""`[[places]]`: the places that a `match` names, and mistakes that are told at the start."""

from pathlib import Path

import pytest

from gateway.channels.keys import ConversationKey
from gateway.config.errors import ConfigError
from gateway.config.places import LONGEST_LIST, MOST_PATTERNS, PlaceRules, PlaceSection
from gateway.config.read import load

HERE, AT_WORK = ConversationKey("telegram", "*"), ConversationKey("telegram@work", "*")


@pytest.mark.parametrize(
    ("match", "found"),
    [
        pytest.param("*", (True, False, False), id="everything"),
        pytest.param("*:*", (True, False, False), id="every place of every platform"),
        pytest.param("*@work", (False, False, True), id="an account of any platform"),
        pytest.param("telegram", (False, True, True), id="a platform"),
        pytest.param("telegram@work:*", (False, False, True), id="an account"),
        pytest.param("*:-1005", (False, False, False), id="a place of any platform"),
    ],
)
@pytest.mark.requirement("G-42")
def test_a_match_names_everything_or_accounts_or_neither(match: str, found: tuple[bool, ...]) -> None:
    rules = PlaceRules([PlaceSection(match=match, merge_ms=1)])
    assert tuple(rules.find("merge_ms", key) is not None for key in (None, HERE, AT_WORK)) == found


@pytest.mark.parametrize("key", ["models", "tools", "denied_tools", "skills"])
def test_a_list_has_bounds_as_in_a_chat(key: str) -> None:
    def mistakes(*names: str) -> list[str]:
        return PlaceSection(match="*", **{key: names}).mistakes()  # type: ignore[arg-type]

    many = tuple(f"tool{number}" for number in range(MOST_PATTERNS + 1))
    assert mistakes() == mistakes(*many[1:]) == mistakes("x" * LONGEST_LIST) == []
    for wrong, told in ((many, "51 names"), (("x" * (LONGEST_LIST + 1),), "2,001 characters"), ((" ",), "0 names")):
        (mistake,) = mistakes(*wrong)
        assert mistake.startswith(f"{key}: ")
        assert told in mistake


@pytest.mark.parametrize(
    ("match", "near"),
    [("telegarm:-1005", "telegram"), ("telegarm@work", "telegram"), ("-1005", "")],
)
def test_a_platform_that_is_none_is_told_at_the_start(tmp_path: Path, match: str, near: str) -> None:
    source = tmp_path / "gateway.toml"
    source.write_text(f'[[places]]\nmatch = "{match}"\nmention = "always"\n')
    with pytest.raises(ConfigError) as error:
        load(environ={"TIELINE_HOME": str(tmp_path)})
    (mistake,) = error.value.mistakes
    platform = match.partition(":")[0].partition("@")[0]
    assert mistake.startswith(f"places[0].match: {platform!r} is no platform; use one of ")
    assert mistake.endswith(f"; did you mean {near}?") == bool(near)


@pytest.mark.parametrize("match", ["*", "tele*:-1005", "web:*", "slack@work", "discord:1"])
def test_platforms_that_are_known_and_patterns_are_taken(tmp_path: Path, match: str) -> None:
    source = tmp_path / "gateway.toml"
    source.write_text(f'[[places]]\nmatch = "{match}"\nmention = "always"\n')
    (section,) = load(environ={"TIELINE_HOME": str(tmp_path)}).places
    assert section.match == match
