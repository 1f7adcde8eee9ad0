"""Clients that others wrote at the doors for programs: OpenAI's for Node, LangChain, `llm`, and FastMCP's.

`make foreign` installs them below `.foreign`; without one its test is skipped.
"""

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.gateway.api.conftest import Caller, serving

FOREIGN = Path(__file__).parents[2] / ".foreign"
NODE = FOREIGN / "node_modules" / "openai"
CLIENTS = FOREIGN / "pypi-clients" / "bin"
FASTMCP = FOREIGN / "pypi" / "bin" / "python"
WITHIN_S = 120

NODE_SCRIPT = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.env.URL + "/v1", apiKey: process.env.KEY, maxRetries: 0 });
const said = (content) => [{ role: "user", content }];
const models = [];
for await (const model of await client.models.list()) models.push(model.id);
const ask = () => client.chat.completions.create(
  { model: "tieline", user: "node", messages: said("hello from node") }, { headers: { "Idempotency-Key": "n1" } });
const [first, again] = [await ask(), await ask()];
let grown = "";
const stream = await client.chat.completions.create(
  { model: "tieline", user: "node", stream: true, messages: said("stream to node") });
for await (const chunk of stream) grown += chunk.choices[0]?.delta?.content ?? "";
const response = await client.responses.create({ model: "tieline", user: "node", input: "respond to node" });
let refused = null;
try { await client.chat.completions.create({ model: "tieline", n: 2, messages: said("x") }); }
catch (error) { refused = [error.status, error.code]; }
console.log(JSON.stringify({ models, first: first.choices[0].message.content, same: first.id === again.id, grown,
  response: response.output_text, refused }));
"""

LANGCHAIN_SCRIPT = """
import json, os
from langchain_openai import ChatOpenAI
chat = ChatOpenAI(model="tieline", base_url=os.environ["URL"] + "/v1", api_key=os.environ["KEY"], max_retries=0)
whole = chat.invoke([("system", "Be brief."), ("human", "hello from langchain")]).content
grown = "".join(piece.content for piece in chat.stream("stream to langchain"))
kept = chat.bind(user="chain").invoke("remember langchain").content
print(json.dumps({"whole": whole, "grown": grown, "kept": kept}))
"""

FASTMCP_SCRIPT = """
import asyncio, json, os
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
async def main(key):
    transport = StreamableHttpTransport(os.environ["URL"] + "/api/mcp", headers={"Authorization": f"Bearer {key}"})
    async with Client(transport) as client:
        tools = [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("send", {"place": "telegram:77", "text": "hello from fastmcp"})
        return {"tools": tools, "sent": result.content[0].text}
found = asyncio.run(main(os.environ["KEY"]))
try:
    asyncio.run(main("sk-tieline-none"))
    found["refused"] = False
except Exception as error:
    found["refused"] = "401" in str(error) or "Unauthorized" in str(error) or type(error).__name__
print(json.dumps(found))
"""


@pytest.fixture
async def caller(world_of: Any) -> AsyncIterator[Caller]:
    async with world_of(accounts=("telegram", "api")).process() as world, serving(world) as there:
        yield there


async def ran(command: list[str], caller: Caller, key: str, cwd: Path | None = None) -> Any:
    """The last line that the program prints, as JSON."""
    environ = {"URL": caller.url, "KEY": key, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(FOREIGN)}
    with anyio.fail_after(WITHIN_S):
        done = await anyio.run_process(command, env=environ, check=False, stderr=subprocess.PIPE, cwd=cwd)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout.decode().strip().splitlines()[-1])


@pytest.mark.skipif(not NODE.exists(), reason="OpenAI's client for Node is not installed: `make foreign` needs npm")
async def test_openais_client_for_node(caller: Caller) -> None:
    found = await ran(["node", "--input-type=module", "-e", NODE_SCRIPT], caller, await caller.key(), FOREIGN)
    assert found["models"] == ["tieline", "a", "b", "persona/default"]
    assert found["first"].endswith("hello from node")
    assert found["same"]
    assert found["grown"].endswith("stream to node")
    assert found["response"].endswith("respond to node")
    assert found["refused"] == [400, "unsupported_parameter"]
    assert len(caller.world.llm.calls) == 3


@pytest.mark.skipif(not CLIENTS.exists(), reason="LangChain is not installed: `make foreign` does that")
async def test_langchain(caller: Caller) -> None:
    found = await ran([str(CLIENTS / "python"), "-c", LANGCHAIN_SCRIPT], caller, await caller.key())
    assert found["whole"].endswith("hello from langchain")
    assert found["grown"].endswith("stream to langchain")
    assert found["kept"].endswith("remember langchain")


@pytest.mark.skipif(not CLIENTS.exists(), reason="llm is not installed: `make foreign` does that")
async def test_llm_on_the_command_line(caller: Caller, tmp_path: Path) -> None:
    models = [
        {"model_id": "tieline", "model_name": "tieline", "api_base": f"{caller.url}/v1", "api_key_name": "tieline"}
    ]
    await anyio.Path(tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))
    key = await caller.key()
    environ = {"LLM_USER_PATH": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [str(CLIENTS / "llm"), "-m", "tieline", "--key", key, "hello from llm"]
    for more in ([], ["--no-stream"]):
        with anyio.fail_after(WITHIN_S):
            done = await anyio.run_process([*command, *more], env=environ, check=False)
        assert done.stdout.decode().strip().endswith("hello from llm"), done.stderr.decode()[-2000:]


@pytest.mark.skipif(not FASTMCP.exists(), reason="FastMCP is not installed: `make foreign` does that")
async def test_fastmcp_uses_the_server_with_a_key_and_not_without(caller: Caller) -> None:
    key = await caller.key("agent", "send")
    found = await ran([str(FASTMCP), "-c", FASTMCP_SCRIPT], caller, key)
    assert found["tools"] == ["send"]
    assert found["sent"] == "sent"
    assert found["refused"]
    assert caller.world.texts() == ["hello from fastmcp"]
