"""The options of `tieline run` and `tieline console`: each acts, and those that open gates are refused to others."""

import re
from subprocess import CompletedProcess

import pytest

from tests.fakes.llm_server import LlmServer
from tests.gateway.world import calling
from tests.live.scenes import SUMMARY, model, rule
from tests.program.conftest import Start
from tests.program.doubles import TELEGRAM_TOKEN
from tests.program.running import Program


async def talk(program: Program, *lines: str, flags: tuple[str, ...] = ()) -> CompletedProcess[str]:
    return await program.cli("console", *flags, stdin="\n".join([*lines, "/exit", ""]), timeout=40)


def own(llm: LlmServer) -> list[str]:
    """The messages of the turns' own requests, oldest first."""
    return [str(body["messages"]) for body in llm.bodies if body.get("tools")]


@pytest.mark.slow  # three processes, one after the other
@pytest.mark.requirement("W-65", "W-51", "W-22")
async def test_flags_act_for_their_process_alone(program: Start, llm: LlmServer) -> None:
    tieline = program(model(llm, window=128_000))
    llm.double.script = [
        {"match": {}, "reply": {"blocks": [{"type": "tool_use", "name": "current_time", "input": {}}]}}
    ]
    said = await talk(tieline, "look for ever", flags=("--max-turns", "2"))
    assert len(own(llm)) == 2, said
    written = "workspaces/*/{}.txt"
    for flag, name in (("--auto-approve", "a"), ("--yolo", "b")):
        llm.double.script = [dict(one) for one in calling(f"keep {name}", "write", path=f"{name}.txt", content="x")]
        said = await talk(tieline, f"keep {name}", flags=(flag,))
        assert list(tieline.home.glob(written.format(name))), said
        assert f"Done: keep {name}" in said.stdout, "and nobody was asked"


@pytest.mark.slow  # two processes, one after the other
@pytest.mark.requirement("W-63")
async def test_compaction_can_be_switched_off_for_one_process(program: Start, llm: LlmServer) -> None:
    lines = [f"bird {number} " + "and a little more of it " * 100 for number in range(12)]
    for flags, asked in ((("--compaction", "off"), False), ((), True)):
        tieline = program(model(llm, window=16_000))
        llm.double.script = [dict(rule("Goal: a", system_contains=SUMMARY)), dict(rule("fine"))]
        llm.calls.clear()
        said = await talk(tieline, *lines, flags=flags)
        assert said.stdout.count("fine") == len(lines), said
        assert any(SUMMARY in str(body["messages"]) for body in llm.bodies) is asked


@pytest.mark.slow  # three processes, one after the other
@pytest.mark.requirement("W-65")
async def test_an_earlier_session_is_gone_back_to(program: Start, llm: LlmServer) -> None:
    tieline = program(model(llm, window=128_000))
    said = await talk(tieline, "the plover", "/new", "the heron", "/sessions")
    (earlier, *_) = [line for line in said.stdout.splitlines() if "plover" in line and re.search(r"[0-9a-f]{6}", line)]
    await talk(tieline, "and now", flags=("--resume-latest",))
    assert "the plover" in own(llm)[-1]
    assert "the heron" not in own(llm)[-1]
    found = re.search(r"[0-9a-f][0-9a-f-]{5,}", earlier)
    assert found, earlier
    await talk(tieline, "/new", "the stork")
    await talk(tieline, "once more", flags=("--resume", found[0]))
    assert "the plover" in own(llm)[-1]
    assert "the stork" not in own(llm)[-1]
    refused = await talk(tieline, flags=("--resume", "x", "--resume-latest"))
    assert refused.returncode == 1
    assert "exclude each other" in refused.stderr


@pytest.mark.slow  # six processes
@pytest.mark.requirement("W-51")
async def test_gates_are_opened_to_nobody_else(program: Start, llm: LlmServer) -> None:
    channel = '[[channels]]\ntype = "telegram"\ntoken = "' + TELEGRAM_TOKEN + '"\n'
    tieline = program(channel + model(llm, window=128_000))
    for command in ("run", "console"):
        for flag in ("--auto-approve", "--yolo"):
            refused = await tieline.cli(command, flag, stdin="", timeout=30)
            assert refused.returncode == 1
            assert f"{flag} opens gates for everybody, and there is telegram" in refused.stderr
    alone = program(model(llm, window=128_000))
    async with alone:
        refused = await alone.cli("console", "--max-turns", "2", stdin="")
        assert refused.returncode == 1
        assert "a gateway runs already" in refused.stderr


@pytest.mark.slow  # three processes, one after the other
@pytest.mark.requirement("Z-67")
@pytest.mark.parametrize("verbosity", ["normal", "quiet"])
async def test_a_pipe_does_not_hang_behind_an_open_question(program: Start, llm: LlmServer, verbosity: str) -> None:
    tieline = program(model(llm, window=128_000))
    llm.double.script = [dict(one) for one in calling("keep it", "write", path="a.txt", content="x")]
    async with tieline:
        assert (await tieline.cli("console", stdin=f"/verbose {verbosity}\n", timeout=40)).returncode == 0
        left = await tieline.cli("console", stdin="keep it\n", timeout=40)
        assert left.returncode == 75, left
        assert "The question above is open still" in left.stderr
        behind = await tieline.cli("console", stdin="hello\n", timeout=40)
        assert behind.returncode == 75, behind
        assert "My question above comes first: answer it, or /stop." in behind.stderr
        assert behind.stdout == ""
