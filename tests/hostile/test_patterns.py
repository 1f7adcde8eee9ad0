"""No text from outside makes a regular expression of the product take more than linear time (D-B1, D-B5)."""

import ast
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.attacks import Attack, attacks_on
from tests.hostile.limits import LIMITS
from tests.hostile.sites import Site, pattern_at, patterns_in, sites_in, sites_of_product
from tests.hostile.stopwatch import Compiled, judged

REGISTER: dict[str, Any] = {
    f"{file}:{where}": {"meets": entry} if isinstance(entry, str) else entry
    for file, entries in tomllib.loads(Path(__file__).with_name("patterns.toml").read_text()).items()
    for where, entry in entries.items()
}
SITES = {site.name: site for site in sites_of_product()}
MEETING = sorted(name for name in REGISTER if "meets" in REGISTER[name])


def test_every_pattern_is_listed_and_every_listed_one_is_there() -> None:
    assert {name: SITES[name].line for name in SITES.keys() - REGISTER.keys()} == {}, "list it in patterns.toml"
    assert REGISTER.keys() - SITES.keys() == set(), "these are gone: take them out of patterns.toml"


@pytest.mark.parametrize("name", sorted(REGISTER))
def test_an_entry_says_one_thing(name: str) -> None:
    entry = REGISTER[name]
    assert len(entry.keys() & {"meets", "never", "stopped"}) == 1
    assert entry.get("meets", "page") in LIMITS
    assert set(entry.get("used", ())) | (SITES[name].uses if "meets" in entry else {"search"}), "say how it is used"


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize("name", MEETING)
def test_a_pattern_takes_linear_time(name: str) -> None:
    entry, site = REGISTER[name], SITES[name]
    for pattern in patterns_of(site, entry):
        attacks = attacks_on(pattern)
        for use in tried(entry.get("used", site.uses)):
            verdict = judged(pattern, use, attacks, LIMITS[entry["meets"]])
            if path := os.environ.get("TIELINE_PATTERN_TIMES"):
                with Path(path).open("a") as times:
                    times.write(f"{name}\t{use}\t{len(attacks)}\t{verdict}\n")
            assert verdict.linear, f"{use} of {pattern.pattern!r}: {verdict}"


def tried(uses: Iterable[str]) -> set[str]:
    """The most that these uses do: to find all places holds to look for one, and to replace or to part."""
    searching = set(uses) - {"match", "fullmatch"}
    return (set(uses) - searching) | ({"search"} if searching == {"search"} else {"finditer"} if searching else set())


def patterns_of(site: Site, entry: dict[str, Any]) -> list[Compiled]:
    if "table" in entry:
        module, name = entry["table"].split(":")
        return list(patterns_in(getattr(import_module(module), name)))
    pattern = pattern_at(site, entry.get("names"))
    assert pattern is not None, "say in patterns.toml what the names in it are"
    return [pattern]


@pytest.mark.parametrize(
    ("pattern", "use"),
    [
        pytest.param(r"\b(?P<jwt>eyJ)[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+", "search", id="web token"),
        pytest.param(r"^(\w+\s?)+$", "search", id="words, exponential"),
        pytest.param(r"(a|aa)+$", "match", id="two ways to say the same, exponential"),
        pytest.param(r"(?:a?){30}a{30}", "match", id="thirty that may be left out, exponential"),
        pytest.param(r"\s+$", "search", id="white space before the end"),
        pytest.param(r"a*b", "search", id="a run without its end"),
        pytest.param(r"a*b", "findall", id="all such runs"),
        pytest.param(r"<\s*/?\s*name", "search", id="two pieces that take the same"),
        pytest.param(r"<(?=\s*/?\s*name)", "finditer", id="the same, looked ahead for"),
        pytest.param(r"\{.*\}", "search", id="an end that never comes"),
        pytest.param(r"^```[^\n]*\n(.*?)^```\s*$", "findall", id="a fence that is never closed"),
        pytest.param(r"\[(?=[^\]]*$|[^\]]*\]\([^)]*\)?$)", "search", id="brackets, each looking for the end"),
        pytest.param(r"\brm\s+(?:-\S+\s+)*-\S*[rR]\S*\s+(?:-\S+\s+)*/", "search", id="options in any order, cubic"),
        pytest.param(r"-[a-z]*c[a-z]*", "fullmatch", id="a letter within letters"),
        pytest.param(r"(?:curl|wget)\b[^\n|]*\|\s*sh\b", "search", id="one of several words before an end"),
        pytest.param(r"\w+://\S+", "finditer", id="a scheme that is none"),
        pytest.param(r"“[^”]{0,5000}”", "search", id="a bound as large as a text"),
    ],
)
def test_one_that_does_not_is_noticed(pattern: str, use: str) -> None:
    compiled = re.compile(pattern, re.DOTALL | re.MULTILINE)
    assert not judged(compiled, use, attacks_on(compiled), LIMITS["page"]).linear


@pytest.mark.parametrize(
    ("pattern", "use"),
    [
        (r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}+\.", "search"),
        (r"(?<!\s)\s++$", "search"),
        (r"(?<!a)a*+b", "findall"),
        (r"<\s*+(?:/\s*+)?name", "search"),
        (r"\d{1,9}[.)][ \t]+\S|[*_~`]", "finditer"),
        (r"[^\W_]+(?:['-][^\W_]+)*", "findall"),
    ],
)
def test_one_that_does_is_left_alone(pattern: str, use: str) -> None:
    compiled = re.compile(pattern)
    verdict = judged(compiled, use, attacks_on(compiled), LIMITS["result"])
    assert verdict.linear, verdict


@pytest.mark.parametrize(
    ("source", "places"),
    [
        pytest.param("import re\nA = re.compile('a')", ["A"], id="a constant"),
        pytest.param("import re as r\nA = r.compile('a')", ["A"], id="a library by another name"),
        pytest.param("from re import compile as c\nA = c('a')", ["A"], id="a function by another name"),
        pytest.param("import re\nc = re.compile\nA = c('a')", ["A", "c"], id="a function given another name"),
        pytest.param("import re\nr = re\nA = r.compile('a')", ["A"], id="a library given another name"),
        pytest.param("import regex\ndef f(x):\n return regex.search(x, 'a')", ["f"], id="another library"),
        pytest.param("def f(x):\n import re\n return re.sub(x, '', x)", ["f"], id="an import within a function"),
        pytest.param(
            "import re\ndef f(x):\n return re.sub(f'{x}a', '', x) + re.sub('a', '', x)", ["f", "f#2"], id="two"
        ),
        pytest.param("import re\nA = tuple(map(re.compile, 'ab'))", ["A"], id="a function handed on"),
        pytest.param("import re\nA = (re.compile('a'), re.compile('b'))", ["A", "A#2"], id="a table"),
        pytest.param("import re\nclass C:\n A = re.compile('a')", ["C.A"], id="in a class"),
        pytest.param("import re\ngetattr(re, 'compile')('a')", ["module"], id="by a name at run time"),
        pytest.param("import fnmatch\nfnmatch.fnmatch('a', 'b')", ["module"], id="wildcards"),
        pytest.param("import re\nA: re.Pattern[str] = re.compile('a')", ["A"], id="with its type"),
        pytest.param("import re\nx = 'a'.split()\ny = re.escape('a')", [], id="what runs no pattern"),
    ],
)
def test_the_scan_finds(source: str, places: list[str]) -> None:
    assert sorted(site.where for site in sites_in(ast.parse(source))) == places


def test_an_attack_has_the_length_that_is_asked_for() -> None:
    assert Attack("<<", "ab", "!").text(100) == "<<" + "ab" * 48 + "!"


def test_attacks_are_told_apart() -> None:
    attacks = attacks_on(re.compile(r"a+b|c"))
    assert max(Counter(attacks).values()) == 1
    assert Attack("", "a", "\x00") in attacks
