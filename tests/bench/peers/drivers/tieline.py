"""This gateway as `make run` starts it: `tieline run` with the configuration that it needs to meet the doubles.

That is addresses, tokens, the people who may write (the list that an operator writes), and flood limits, which the
doubles do not have either. Everything else is the default of the installation that runs the bench.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.peers.driver import Driver, Launch, Packages, Site

BIN = Path(sys.executable).parent
NOTES = "defaults; the people of the measure are allowed by name, flood limits raised"


def home_of(site: Site) -> Path:
    """The data directory."""
    return site.home / ".tieline"


def config(site: Site, kind: str, model: str) -> str:
    """The configuration file, for a provider of this type."""
    people = ", ".join(f'"telegram:{person}"' for person in site.people)
    return f"""\
[web]
port = {site.port}

[access]
allow = [{people}]
messages_per_minute = 1000000

[[llm.providers]]
name = "main"
type = "{kind}"
model = "{model}"
base_url = "{site.llm}{"" if kind == "anthropic" else "/v1"}"
api_key = "double"

[[channels]]
type = "telegram"
token = "{site.token}"
api_base_url = "{site.telegram}"
messages_per_second = 1000
private_messages_per_second = 1000
"""


def preparing(kind: str, model: str) -> Callable[[Site], Launch]:
    """A function that prepares an installation with a provider of this type."""

    def prepare(site: Site) -> Launch:
        path = home_of(site) / "gateway.toml"
        if not path.exists():
            path.parent.mkdir()
            path.write_text(config(site, kind, model))
        return Launch(
            argv=[str(BIN / "tieline"), "run"],
            env={"HOME": str(site.home)},
            cwd=site.home,
            configuration=path.read_text(),
        )

    return prepare


def driver(name: str, kind: str, model: str) -> Driver:
    return Driver(
        name=name,
        notes=NOTES,
        packages=Packages(Path(sys.executable), "tieline"),
        prepare=preparing(kind, model),
    )


DRIVER = driver("tieline", "openai", "gpt-double")
