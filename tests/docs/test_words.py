"""Texts of the pages that cannot be run here: lines that the program says, files of other servers, addresses.

The lines of the program are made, or found among its sentences; other servers' files are compared word by word with
what the program needs of them.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import discord
import pytest

from agent.core.errors import AgentInvalid
from agent.definitions import Definitions
from gateway.config.errors import ConfigError
from gateway.config.read import read
from gateway.config.sections import WebSettings
from tests.docs.blocks import Block, of_kind
from tests.tools.test_troubleshooting import strings
from tools.docs import ROOT

# Pages whose lines are made here, and those whose sentences are looked for in the program.
MADE = ("docs/agents.md", "docs/configuration.md")
SENTENCES = [block for block in of_kind("said") if block.page not in MADE]
# Words of the files of other servers, by the server; tests/deploy tries `deploy/Caddyfile` and the image itself.
SERVERS = {
    "FROM": {"FROM", "RUN", "USER"},
    "server": {
        "client_max_body_size", "listen", "location", "proxy_http_version", "proxy_pass", "proxy_read_timeout",
        "proxy_set_header", "server", "server_name", "ssl_certificate", "ssl_certificate_key",
    },
    "chat.example.org": {"chat.example.org", "reverse_proxy"},
}  # fmt: skip


Triples = frozenset[tuple[str, ...]]


def triples(text: str) -> Triples:
    """Three words in a row, between which no value, mark, path, break of a table or ellipsis stands."""
    fixed = re.sub(r"\S*\d\S*|\"[^\"]*\"| {2,}|\n(?=\S+ {2})|\{\w+\}|/\S+|[][,:()<>]", "…", text)
    words = [re.findall(r"[a-z]+", piece.lower()) for piece in fixed.split("…")]
    return frozenset(tuple(piece[at : at + 3]) for piece in words for at in range(len(piece) - 2))


@cache
def known() -> Triples:
    """Triples of the program's sentences, from the files that hold words of the pages; reading all takes seconds."""
    wanted = [" ".join(triple) for block in SENTENCES for triple in triples(block.text)]
    texts = list(tomllib.loads((ROOT / "gateway/phrases/en.toml").read_text()).values())
    for path in (path for layer in ("agent", "gateway") for path in (ROOT / layer).rglob("*.py")):
        source = path.read_text()
        lower = source.lower()
        if any(words in lower for words in wanted):
            texts += strings(source)
    return frozenset().union(*(triples(text) for text in texts if isinstance(text, str)))


def share_of_known(text: str) -> float:
    """The share of the text's own that the program says; names and what people wrote are the rest."""
    found = triples(text)
    return len(found & known()) / len(found)


def on_page(kind: str, page: str) -> Block:
    (found,) = (block for block in of_kind(kind) if block.page == page)
    return found


def test_the_mistakes_of_the_page_are_told_so() -> None:
    wrong = tomllib.loads('[web]\nprot = 1\n[[channels]]\ntype = "telegram"\n')
    with pytest.raises(ConfigError) as told:
        read(wrong, {}, home=Path("/nowhere"), source=Path("gateway.toml"))
    assert str(told.value).splitlines() == on_page("said", "docs/configuration.md").text.splitlines()


def test_a_broken_character_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "broken" / "AGENT.md"
    file.parent.mkdir()
    file.write_text("---\nname: Broken\ntols: []\n---\n")
    with pytest.raises(AgentInvalid) as told:
        Definitions([tmp_path], known_tools=frozenset()).load("broken")
    block = on_page("said", "docs/agents.md")
    for part in block.text.removeprefix("✗ agent broken: …").split("; "):
        assert part.removesuffix("…") in str(told.value)


@pytest.mark.parametrize("block", SENTENCES, ids=lambda block: block.where)
def test_the_program_has_the_sentences_of_the_page(block: Block) -> None:
    assert share_of_known(block.text) > 0.6


def test_other_words_are_not_those_of_the_program() -> None:
    block = on_page("said", "docs/skill-learning.md")
    assert share_of_known(block.text) == 1.0
    assert share_of_known(block.text.replace("help here; use it", "be of help; take it")) < 0.6


@pytest.mark.parametrize("block", of_kind("server"), ids=lambda block: block.where)
def test_a_file_of_another_server_passes_on_what_the_gateway_needs(block: Block) -> None:
    lines = [line.strip().removesuffix(";") for line in block.text.splitlines() if line.strip() not in ("", "}")]
    assert {line.split()[0] for line in lines} <= SERVERS[block.text.split()[0]]
    if "proxy" in block.text:
        assert f"127.0.0.1:{WebSettings().port}" in block.text
    if found := re.search(r"client_max_body_size (\d+)m", block.text):
        assert int(found[1]) >= WebSettings().max_upload_mb


def test_the_invitation_asks_for_the_permissions_that_the_page_names() -> None:
    block = on_page("address", "docs/platforms.md")
    (number,) = parse_qs(urlsplit(block.text).query)["permissions"]
    asked = {name for name, on in discord.Permissions(int(number)) if on}
    page = (ROOT / block.page).read_text()
    named = re.search(r"The number stands for: (.*?)\.\n", page, re.DOTALL)
    assert named
    words = {" ".join(one.split()).lower().replace(" ", "_") for one in named[1].split(",")}
    assert asked == {"read_messages" if word in ("view_channels", "view_channel") else word for word in words}


def test_a_sum_takes_the_figures_of_its_page() -> None:
    (block,) = of_kind("arithmetic")
    page = (ROOT / block.page).read_text().replace(block.text, "")
    for figure in re.findall(r"× 0\.(\d+)", block.text):
        assert re.search(rf"\b(?:0\.{figure}|{int(figure)} ms)\b", page), figure
