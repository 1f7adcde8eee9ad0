"""The models that may answer in a place: by choice, by routing, as a fallback, and for side calls."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import NoModelAllowed
from agent.providers.registry import ProviderDeps, Registry
from agent.providers.routing import Choice, Need, ProviderSlot, allowed
from agent.providers.settings import ProviderSettings


@pytest.mark.parametrize(
    ("patterns", "may"),
    [
        pytest.param((), True, id="without patterns every model may"),
        pytest.param(("main/gpt-5",), True, id="the name itself"),
        pytest.param(("Main/GPT-5",), True, id="in capitals"),
        pytest.param(("main/*",), True, id="every model of a provider"),
        pytest.param(("*/gpt-?",), True, id="a model of any provider"),
        pytest.param(("other/*", "main/gpt*"), True, id="any of several"),
        pytest.param(("main",), False, id="a provider alone is no pattern of a model"),
        pytest.param(("other/*",), False, id="another provider"),
        pytest.param(("main/gpt-5-*",), False, id="another model"),
    ],
)
@pytest.mark.requirement("Z-146")
def test_which_models_may_answer(patterns: tuple[str, ...], may: bool) -> None:
    lists = (patterns,) if patterns else ()
    assert allowed("main", "gpt-5", lists) is may
    assert not allowed("main", "gpt-5", (*lists, ("other/*",))), "each list must fit"
    assert allowed("main", "gpt-5", (*lists, ("*",))) is may


class Place:
    """A place with rules that change, and the providers a, b and c."""

    def __init__(self, home: Path, *patterns: str) -> None:
        self.patterns = patterns
        settings = [
            ProviderSettings(name=name, type="openai", model=f"model-{name}", api_key=SecretStr("k")) for name in "abc"
        ]
        self.registry = Registry(
            settings,
            ProviderDeps(home=home, clock=SystemClock()),
            failover=("b", "c"),
            routing={"light": "b", "heavy": "c"},
        )
        self.slot = ProviderSlot(self.registry, lambda: (self.patterns,) if self.patterns else ())

    def route(self, tier: str = "") -> list[str]:
        return [f"{one.name}/{one.model}" for one in self.slot.route(Need(tier))]


@pytest.mark.requirement("Z-146")
def test_a_model_that_is_not_allowed_answers_in_no_way(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.route() == ["a/model-a", "b/model-b", "c/model-c"]
    assert place.route("heavy")[0] == "c/model-c"
    place.patterns = ("a/*", "b/*")
    assert place.route() == ["a/model-a", "b/model-b"], "not as a fallback"
    assert place.route("heavy") == ["a/model-a", "b/model-b"], "not by its tier"
    place.slot.override("c")
    assert place.route() == ["a/model-a", "b/model-b"], "not by choice"
    assert place.slot.named("c").name == "a", "not for a side call"
    place.slot.restore(Choice(provider="a", model="other"))
    assert place.route()[0] == "a/other"
    place.patterns = ("a/model-a",)
    assert place.route() == ["a/model-a"], "not another model of an allowed provider"


@pytest.mark.requirement("Z-146")
def test_the_first_that_may_answers_where_the_default_may_not(tmp_path: Path) -> None:
    place = Place(tmp_path, "c/*", "b/model-b")
    assert place.route() == ["b/model-b", "c/model-c"]
    assert place.slot.current().name == "b"


@pytest.mark.requirement("Z-146")
def test_a_model_that_is_spelled_out_may_answer_though_no_provider_is_configured_with_it(tmp_path: Path) -> None:
    place = Place(tmp_path, "b/small")
    assert place.route() == ["b/small"]


@pytest.mark.requirement("Z-146")
def test_where_none_may_answer_none_does(tmp_path: Path) -> None:
    place = Place(tmp_path, "local/*")
    with pytest.raises(NoModelAllowed, match=r"allowed: local/\*"):
        place.route()
    with pytest.raises(NoModelAllowed):
        place.slot.named("c")
    assert place.slot.current().name == "a", "its window is asked for all the same"


@pytest.mark.requirement("Z-146")
def test_the_rules_of_a_turn_are_those_of_its_beginning(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.slot.turn():
        place.patterns = ("b/*",)
        assert place.route()[0] == "a/model-a"
    assert place.route() == ["b/model-b"]
