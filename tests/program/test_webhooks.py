"""Other services send webhooks to the running program, which tells people on Slack what has happened."""

import json
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.webhooks.senders import BUILD, GITHUB, github, raw, section
from tests.program import configs
from tests.program.people import OnSlack
from tests.program.stage import on_stage

PLACE = "slack:T0DOUBLE:C0GENERAL"


@pytest.mark.slow
async def test_a_webhook_of_github_runs_one_turn_whose_answer_stands_on_slack(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home: Path = tmp_path_factory.mktemp("h", numbered=True)
    hook = section(
        "builds", GITHUB, style="github", place=PLACE, template="CI: {{ workflow_run.conclusion }}", task="Why?"
    )
    async with on_stage(home, lambda doubles, _: configs.slack(doubles) + hook, about={"webhooks"}) as stage:
        await stage.script("Why?", "CI of ann/kiln is broken.")
        body = raw(BUILD)
        url = f"{stage.program.url}/api/hooks/builds"
        async with aiohttp.ClientSession() as client:

            async def posted(content: bytes, headers: dict[str, str]) -> int:
                async with client.post(url, data=content, headers=headers) as answer:
                    json.loads(await answer.read())
                    return answer.status

            assert await posted(body, github(body)) == 202
            ann = OnSlack(stage.doubles)
            await ann.hears("CI of ann/kiln is broken", channel="C0GENERAL")
            assert await posted(body, github(body)) == 200
            assert await posted(body + b" ", github(body)) == 401
            assert await posted(b"x" * (2 << 20), github(b"x")) == 413
            async with client.get(url) as answer:
                assert answer.status == 405
        tried = await stage.program.cli("webhook", "test", "builds", "--event", "workflow_run")
        assert (tried.returncode, tried.stdout) == (0, '202 {"accepted":true}\n'), tried.stderr
        listed = await stage.program.cli("webhook", "list")
        assert listed.returncode == 0, listed.stderr
        assert listed.stdout.splitlines()[1].split()[:4] == ["builds", "github", "ask", PLACE]
        unknown = await stage.program.cli("webhook", "test", "bilds")
        assert (unknown.returncode, "there are: builds" in unknown.stderr) == (1, True)
        assert len(await stage.asked("Why?")) in (1, 2)  # the second one may be under way
        assert GITHUB not in stage.program.log.read_text()
