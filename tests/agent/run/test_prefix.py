"""The prefix before the conversation, and the names of its changes."""

from dataclasses import replace

import pytest

from agent.core.tools import ToolSpec
from agent.providers.provider import SystemPrompt, ToolSchema, Usage
from agent.run.prefix import CacheWatch, Fingerprints, Prefix, Read, causes

BASE = Prefix(system="s", notes="n", tools="t", model="m", start="1")


def spec(name: str, description: str = "Does it.") -> ToolSpec:
    return ToolSpec(name=name, description=description, schema={"type": "object", "properties": {}})


@pytest.mark.requirement("R-11")
def test_a_fingerprint_is_made_of_the_bytes_of_system_tools_and_model() -> None:
    fingerprints = Fingerprints()
    system, tools = SystemPrompt("rules", "notes"), ToolSchema((spec("a"),))
    first = fingerprints.of(system, tools, "x/m", "1")
    assert fingerprints.of(SystemPrompt("rules", "notes"), tools, "x/m", "1") == first
    assert Fingerprints().of(system, ToolSchema((spec("a"),)), "x/m", "1") == first, "by content, also after a restart"
    assert causes(first, fingerprints.of(SystemPrompt("rules!", "notes"), tools, "x/m", "1")) == ("system",)
    assert causes(first, fingerprints.of(SystemPrompt("rules", "notes!"), tools, "x/m", "1")) == ("notes",)
    assert causes(first, fingerprints.of(system, ToolSchema((spec("a", "?"),)), "x/m", "1")) == ("tools",)
    assert causes(first, fingerprints.of(system, tools, "x/other", "1")) == ("model",)
    assert causes(first, fingerprints.of(system, tools, "x/m", "9")) == ("history",)
    assert fingerprints.of(system, tools, "x/m", "1").hash == first.hash


def read(tokens: int, at: float = 0.0, **changed: str) -> Read:
    return Read(prefix=replace(BASE, **changed), cache_read=tokens, at=at, tier="1h")


@pytest.mark.requirement("R-11")
@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param(read(100_000), None, id="as before"),
        pytest.param(read(97_900, system="!"), None, id="2,100 of 100,000 is less than a twentieth"),
        pytest.param(read(94_900), (), id="nothing of ours changed"),
        pytest.param(read(0, tools="!", notes="!"), ("tools", "notes"), id="every cause, in the order of the request"),
        pytest.param(read(0, model="!"), None, id="another model has its own cache"),
        pytest.param(read(0, at=3601.0), None, id="it had ended by itself"),
    ],
)
def test_a_break_is_a_fall_that_is_large_both_ways(second: Read, found: tuple[str, ...] | None) -> None:
    watch = CacheWatch()
    assert watch.after(read(100_000), Usage(prompt=10, cache_read=100_000)) is None
    broken = watch.after(second, Usage(prompt=10, cache_read=second.cache_read))
    assert (broken.causes if broken else None) == found


def test_a_small_cache_may_come_and_go() -> None:
    watch = CacheWatch()
    watch.after(read(2000), Usage(cache_read=2000))
    assert watch.after(read(0), Usage(prompt=2000)) is None


@pytest.mark.requirement("R-11")
def test_after_a_change_on_purpose_there_is_nothing_to_compare_with() -> None:
    watch = CacheWatch()
    watch.after(read(100_000), Usage(cache_read=100_000))
    watch.forget()
    assert watch.after(read(0), Usage(prompt=100_000)) is None


def test_little_from_the_cache_is_told_once_and_only_of_those_who_cache() -> None:
    never = CacheWatch()
    for _ in range(5):
        never.after(read(0), Usage(prompt=1000))
        assert not never.is_poor(Usage(prompt=1000))
    watch = CacheWatch()
    told = []
    for _ in range(5):
        usage = Usage(prompt=1000, cache_creation=500)
        watch.after(read(0), usage)
        told.append(watch.is_poor(usage))
    assert told == [False, False, True, False, False]
