"""A program at one process, whose picture the model of another one sees."""

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.cluster.processes import Members, running
from tests.gateway.api.test_files import asking, picture, url
from tests.program import configs
from tests.program.doubles import all_doubles


@pytest.mark.requirement("G-166")
@pytest.mark.timeout(200)
async def test_a_picture_reaches_the_worker(tmp_path: Path, postgres_url: str) -> None:
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        members = Members(tmp_path, postgres_url, config, ("ingress", "worker"))
        ingress, worker = members.all
        async with running(members):
            made = await ingress.cli("key", "create", "crm", "--scope", "chat")
            assert made.returncode == 0, made.stderr
            said: Any = asking("what is on it?", picture())
            key, address = made.stdout.strip(), f"{ingress.url}/v1"
            async with openai.AsyncOpenAI(base_url=address, api_key=key, max_retries=0) as client:
                answer = await client.chat.completions.create(model="tieline", user="anna", messages=said)
            assert "what is on it?" in str(answer.choices[0].message.content), members.logs()
            (call,) = (await doubles.llm.get("calls"))["calls"]
            assert url() in str(call["body"]), "the model of the worker sees it"
            assert list(worker.home.glob("files/*/0-picture-1.png"))
            assert not list(ingress.home.glob("uploads/*"))
            assert [path.split("/")[0] for (path,) in members.rows("select path from file order by path")] == [
                "files",
                "workspaces",
            ]
