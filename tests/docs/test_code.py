"""Blocks of Python and JSON of the documentation, run with the names that their pages speak of, on the real parts."""

import ast
import hashlib
import hmac
import json
import logging
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import randint
from types import SimpleNamespace
from typing import Annotated, Any, cast

import pytest
from pydantic import Field

from agent.core.errors import ToolError
from agent.core.function_tools import FunctionTool, tool
from agent.core.tools import ToolContext
from agent.run.features import Feature
from agent.run.run import Run
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import ConversationKey, parts_of, place_id
from gateway.channels.kit.catch_up import CatchUp, Facts
from gateway.channels.kit.dialect import MARKDOWN
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.commands.command import AnyCall, Command, Commands, Reply, Setting, one_of
from gateway.config.settings import Settings
from gateway.conversations.place_settings import PlaceSettings
from gateway.phrases.catalogue import UsageError
from gateway.receivers.message import AlertMessage, body_of, signature
from gateway.storage.alert_rows import AlertRow
from tests.docs.blocks import Block, of_kind
from tests.gateway.world import World
from tools.docs import ROOT

NAMES: dict[str, Any] = {
    one.__name__: one
    for one in (
        CatchUp, Command, ConversationKey, Facts, Feature, Field, PlaceSettings, Reply, Run, Setting,
        ToolContext, UsageError, one_of, parts_of, place_id, randint, replace, tool,
    )
}  # fmt: skip
NAMES |= {"MARKDOWN": MARKDOWN, "AnyCall": AnyCall, "Annotated": Annotated}
NAMES |= {"re": re, "hmac": hmac, "hashlib": hashlib, "time": time}
# Blocks that other tests of this folder run, and that are a part of code which tests run.
REQUESTS, EXCERPT = ("from openai import", "import base64"), ROOT / "tests/examples/parley/test_parley.py"


def python(page: str, part: str) -> Block:
    """The only block of the page with that part."""
    (found,) = (block for block in of_kind("python") if block.page == page and part in block.text)
    return found


def run(block: Block, **more: Any) -> dict[str, Any]:
    """The names that the block makes, beside those it was given."""
    names = {**NAMES, **more}
    exec(compile(block.text, block.where, "exec", dont_inherit=True), names)
    return names


def test_each_block_of_python_is_run_here_or_by_the_requests() -> None:
    source = Path(__file__).read_text()
    parts = re.findall(r'python\(\s*"([^"]+)", [\'"](.+?)[\'"]\)', source)
    for block in of_kind("python"):
        taken = [part for page, part in parts if page == block.page and part in block.text]
        assert len(taken) == 1 or block.text.startswith(REQUESTS), block.where


async def test_the_catch_up_of_the_page_is_made(world: World) -> None:
    block = python("docs/adapter-kit.md", "self._catch_up = CatchUp(")

    async def nothing(_: object) -> None: ...

    log = logging.getLogger("x")
    queue = KeyedQueue(clock=world.clock, log=log)
    adapter = SimpleNamespace(channel_type="telegram", _queue=queue, _history=lambda _: None, _deliver=nothing)
    run(block, self=adapter, context=world.accounts["telegram"].adapter_context, log=log)
    assert vars(adapter)["_catch_up"].left == 0


def test_the_facts_of_the_page_name_room_and_queue() -> None:
    facts = run(python("docs/adapter-kit.md", "facts = Facts("))["facts"]
    thread = ConversationKey("x", place_id("room", "thread"))
    assert facts.queue_of(thread.channel_id) == "room"
    assert facts.line_of(ConversationKey("x", "room")) is None


def test_the_dialect_of_the_page_writes_its_marks() -> None:
    dialect = run(python("docs/adapter-kit.md", "DIALECT = "))["DIALECT"]
    assert dialect.italic == "_"
    assert dialect.calls.search("hello @ann")


def test_the_suite_of_the_page_is_that_of_the_example() -> None:
    (shown,) = ast.parse(python("docs/adapter-testing.md", "class TestParley").text).body
    assert ast.dump(shown) in [ast.dump(node) for node in ast.parse(EXCERPT.read_text()).body]


async def test_the_tool_of_the_page_rolls() -> None:
    roll = run(python("docs/new-tool.md", "async def roll"))["roll"]
    assert isinstance(roll, FunctionTool)
    assert roll.spec.name == "roll"
    context = cast(ToolContext, None)  # the tool does not look at it
    assert {await roll.run({"sides": 2}, context) for _ in range(64)} == {"1", "2"}
    with pytest.raises(ToolError, match="sides"):
        await roll.run({"sides": 1}, context)


async def test_the_command_of_the_page_sets_its_setting() -> None:
    names = run(python("docs/new-command.md", "GREET = Command("))
    commands = Commands((names["GREET"],))
    setting = commands.settings["greeting"]
    assert setting.parse("long") == "long"
    with pytest.raises(ValueError, match="purple"):
        setting.parse("purple")
    assert setting.default(Settings.model_construct(), ConversationKey("telegram", "77")) == "short"


async def test_the_free_words_of_the_page_are_checked() -> None:
    block = python("docs/new-command.md", "text_for=_text")
    # The function that the setting names stands below it, as it may in a module only before it.
    setting, function = ast.parse(block.text).body
    ordered = replace(block, text=f"{ast.unparse(function)}\n{ast.unparse(setting)}")
    names = run(ordered, LONGEST=10)
    assert await names["GREETING"].text_for(None, "off") == ""
    assert await names["GREETING"].text_for(None, "hello") == "hello"
    with pytest.raises(UsageError):
        await names["GREETING"].text_for(None, "much too long a text")
    assert names["GREETING"].show("") == "off"


async def test_the_feature_of_the_page_adds_its_footer(world: World) -> None:
    footer: Setting[str] = Setting(
        key="footer", command="x", default=lambda settings, place: "– the bot", parse=str, text_for=None, changed="x"
    )
    place_settings = PlaceSettings((footer,), world.database, world.clock, world.live)
    await place_settings.load()
    made = run(python("docs/new-command.md", "class FooterFeature"), FOOTER=footer)["FooterFeature"]
    block = python("docs/new-command.md", "more = lambda")
    (feature,) = run(block, FooterFeature=made, place_settings=place_settings)["more"]("telegram:77")
    assert feature.final_text(None, "Hello.") == "Hello.\n\n– the bot"


def test_the_receiver_of_alerts_takes_what_the_gateway_signs() -> None:
    block = python("docs/alerts.md", "expected = hmac")
    body_block = of_kind("json")[0]
    body, secret = body_block.text.encode(), "a secret of sixteen"
    t, v1 = re.fullmatch(r"t=(\d+),v1=(\w+)", signature(secret, body, datetime.now(UTC))).groups()  # type: ignore[union-attr]
    assert run(block, secret=secret.encode(), body=body, t=t, v1=v1)["ok"]
    assert not run(block, secret=secret.encode(), body=body + b" ", t=t, v1=v1)["ok"]
    assert not run(block, secret=secret.encode(), body=body, t=str(int(t) - 600), v1=v1)["ok"]


def test_the_request_of_an_alert_is_that_of_the_page() -> None:
    (block,) = of_kind("json")
    shown = json.loads(block.text)
    (alert,) = shown["alerts"]
    at = to_timestamp(datetime.fromisoformat(alert["at"]))
    row = AlertRow(
        **{name: alert[name] for name in ("id", "subject", "severity", "text")},
        receiver="webhook", created_at=at, due_at=at, attempts=0, error="", state="new", ended_at=None,
    )  # fmt: skip
    body, _ = body_of(AlertMessage(rows=(row,), host=shown["host"]), "json")
    assert json.loads(body) == shown
