"""The models that the rules of a place allow, through the whole gateway: in turns, /model and /provider."""

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World

pytestmark = pytest.mark.requirement("Z-146")


def gateway(
    tmp_path: Path, sqlite_template: Path, llm: LlmServer, *models: str, config: str = ""
) -> AbstractAsyncContextManager[World]:
    """A gateway in whose places only these models may answer."""
    rules = f'[[places]]\nmatch = "*"\nmodels = {json.dumps(models)}\n'
    return World(tmp_path, sqlite_template, llm, config=config + "\n" + rules).process()


async def test_the_allowed_one_answers_in_place_of_the_default_and_no_other_can_be_chosen(
    tmp_path: Path, sqlite_template: Path, llm: LlmServer
) -> None:
    llm.double.settings["models"] = ["model-a", "model-b", "model-c"]
    async with gateway(tmp_path, sqlite_template, llm, "b/model-[bc]") as world:
        await world.answered("hello")
        assert world.models_asked == ["model-b"]
        refused = "a/model-a may not answer here. Allowed in this place: b/model-[bc]."
        assert refused in await world.asks("/model a/model-a", "may not answer")
        assert refused in await world.asks("/provider a", "a/model-a may not")
        listed = await world.asks("/model", "page 1")
        assert "b/model-c" in listed
        assert "a/model" not in listed
        assert "(2 in all)" in listed
        await world.asks("/model model-c", "now asks model-c on b")
        await world.answered("again")
        assert world.models_asked == ["model-b", "model-c"]


async def test_one_that_is_not_allowed_does_not_stand_in(tmp_path: Path, sqlite_template: Path, llm: LlmServer) -> None:
    llm.double.script = [{"match": {"model": "model-a"}, "reply": {"error": {"status": 401, "message": "no"}}}]
    async with gateway(tmp_path, sqlite_template, llm, "a/*", config='[llm]\nfailover = ["b"]\n') as world:
        await world.asks("hello", "refused the request")
        assert set(world.models_asked) == {"model-a"}


async def test_where_none_may_answer_the_person_is_told(tmp_path: Path, sqlite_template: Path, llm: LlmServer) -> None:
    async with gateway(tmp_path, sqlite_template, llm, "local/*") as world:
        answer = await world.asks("hello", "No model that is configured may answer here")
        assert "Allowed in this place: local/*." in answer
        assert world.models_asked == []
