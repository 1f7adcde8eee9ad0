"""Every read of what comes over a network or a pipe, with what bounds it and how its end is reached.

One read gives what has come by then: a body is read by `agent.core.bounded_body`, piece by piece, or by a library to
its end.
A read that is not registered fails here until somebody has looked at it; so does a registered one that is gone.
"""

import ast

import pytest

from tests.hostile.product_calls import Use, differences, uses_in, uses_of_product

METHODS = frozenset(
    {
        "read", "aread", "read1", "readinto", "readany", "readline", "readlines", "readexactly", "readuntil",
        "readchunk", "iter_any", "iter_chunked", "iter_chunks", "iter_bytes", "iter_raw", "iter_text", "iter_lines",
        "aiter_bytes",
        "aiter_raw", "aiter_text", "aiter_lines", "text", "json", "body", "form", "stream", "receive", "receive_json",
        "receive_text", "receive_bytes", "receive_str", "recv", "recv_into", "recvfrom", "recvmsg", "communicate",
        "ws_connect", "getresponse",
    }
)  # fmt: skip
WHOLE, BEGINNING = "agent.core.bounded_body.whole_body", "agent.core.bounded_body.beginning_of"
LIMITED = "agent.core.httpx_limits.limited_to"
OTHERS = frozenset(
    {
        "urllib.request.urlopen", "subprocess.run", "subprocess.check_output", "subprocess.Popen", "anyio.open_process",
        "anyio.run_process", "asyncio.create_subprocess_exec", "websockets.connect", "mcp.client.stdio.stdio_client",
        "mcp.client.streamable_http.streamable_http_client", "aiohttp.ClientSession", "http.client.HTTPConnection",
        WHOLE, BEGINNING, LIMITED,
    }
)  # fmt: skip
NOT_BODIES = frozenset({"database", "_database", "sqlalchemy", "sa", "op", "estimator"})


def reads_a_body(use: Use) -> bool:
    """Neither a read of the database nor a text that is made: these have arguments of their own."""
    name, call = use.dotted, use.call
    if name in (".stdout", ".stderr"):
        return call is None
    if name in OTHERS:
        return call is not None
    if not name.startswith(".") or name[1:] not in METHODS or call is None or not isinstance(call.func, ast.Attribute):
        return False
    receiver = call.func.value
    owner = (
        receiver.attr if isinstance(receiver, ast.Attribute) else receiver.id if isinstance(receiver, ast.Name) else ""
    )
    if owner in NOT_BODIES or owner.endswith("database"):
        return False
    return not (name in (".text", ".json", ".body", ".form") and call.args)


# The verdicts: how the end is reached, and what bounds it.
BY_HELPER = "read to its end or to a limit by agent.core.bounded_body"
COUNTED = "read piece by piece to its end, counted against a limit that ends it"
EVENTS = "a stream without end by nature: each event has a limit, and each silence and the whole a deadline"
DRAINED = "what comes is thrown away, for a limited time"
BY_LIBRARY = "read by a library, to its end, under a limit that is set here"
OPENS = "opens the connection alone; who reads from it is registered"
DOORWAY = "a body sent to us: gateway.web.middleware bounds each by its size and two minutes"
OURSELVES = "the gateway's own answer on its socket, which its owner alone can serve"
BOUNDED_RUN = "a program of the operator or the system's: its time is limited, and what it writes is counted or small"
NOT_OURS = "frames of the platform's gateway, read by its library, which sets the limit"
NO_BODY = "no network: a file, a database, a text or a queue of our own"

REGISTER: dict[str, tuple[str, str]] = {
    "gateway/api/http.py _fields": (".body", DOORWAY),
    "gateway/api/openai/door.py OpenAiDoor.show_model": (".read", NO_BODY),
    "gateway/api/openai/door.py _whole_body": (".stream", DOORWAY),
    "gateway/api/openai/door.py OpenAiDoor._answer": (".read", NO_BODY),
    "gateway/api/openai/door.py _with_signs_of_life": (".receive", NO_BODY),
    "gateway/dashboard/people/people.py PeoplePages.dashboard": (".form", DOORWAY),
    "agent/storage/copies/postgres.py _load_table": (".read", NO_BODY),
    "agent/storage/copies/dumped_tables.py rows_in": (".read", NO_BODY),
    "agent/storage/files/cache.py FileCache.read": (".read", NO_BODY),
    "agent/storage/files/cache.py FileCache.hashed": (".read", NO_BODY),
    "agent/storage/files/cache.py FileCache.parts": (".read", NO_BODY),
    "gateway/backup/archive.py Contents.add": (".read", NO_BODY),
    "gateway/backup/archive.py is_archive": (".read", NO_BODY),
    "gateway/backup/archive.py _plain": (".read", NO_BODY),
    "gateway/backup/archive.py _unpack": (".read", NO_BODY),
    "gateway/backup/archive.py _manifest_of": (".read", NO_BODY),
    "gateway/backup/archive.py _measured": (".read", NO_BODY),
    "gateway/backup/encryption.py EncryptedReader.__init__": (".read .read .readline", NO_BODY),
    "gateway/backup/encryption.py EncryptedReader._next": (".read", NO_BODY),
    "adapters/web/chat_sessions.py ChatSessions.find": (".read", NO_BODY),
    "gateway/cli/mcp.py _visited": (".receive", COUNTED),
    "agent/memory/erasure.py _searched": (".read", NO_BODY),
    "agent/memory/notes.py read": (".read", NO_BODY),
    "agent/providers/anthropic/client.py AnthropicProvider.stream": (".aiter_raw", EVENTS),
    "agent/providers/anthropic/client.py _client": (LIMITED, BY_LIBRARY),
    "agent/providers/routing.py Models._consume": (".stream", OPENS),
    "agent/providers/openai/client.py OpenAIProvider.stream": (".readany", EVENTS),
    "agent/providers/openai/client.py OpenAIProvider._answer": (f".iter_any {BEGINNING}", BY_HELPER),
    "agent/providers/openai/client.py _Connections.open": ("aiohttp.ClientSession", OPENS),
    "agent/providers/openai/client.py _drain": (".readany", DRAINED),
    "agent/providers/openai/endpoint.py Endpoint._post": (f".iter_any {WHOLE} aiohttp.ClientSession", BY_HELPER),
    "agent/providers/model_lists.py ask": (".read aiohttp.ClientSession", OPENS),
    "agent/providers/model_lists.py _Asking.pages": (".read", BY_HELPER),
    "agent/providers/model_lists.py _Asking.read": (f".iter_any {WHOLE}", BY_HELPER),
    "agent/providers/registry.py LazyProvider.stream": (".stream", OPENS),
    "agent/providers/window_discovery.py _Server.__aenter__": ("aiohttp.ClientSession", OPENS),
    "agent/providers/window_discovery.py _Server._read": (f".iter_any {WHOLE}", BY_HELPER),
    "agent/documents/documents.py Documents.text_of": (".read", NO_BODY),
    "agent/documents/documents.py Documents._kept": (".read", NO_BODY),
    "agent/documents/office.py Package.pieces": (".read", COUNTED),
    "agent/documents/reader.py read": (".read", NO_BODY),
    "agent/providers/encoding.py _read": (".read", NO_BODY),
    "agent/skills/folders.py _read": (".read", NO_BODY),
    "agent/tools/images.py _made_before": (".read", NO_BODY),
    "agent/tools/files/edit.py EditTools.edit.change": (".read", NO_BODY),
    "agent/tools/files/search.py _in_file": (".read", NO_BODY),
    "agent/tools/hooks.py Hooks._run": ("anyio.open_process", OPENS),
    "agent/tools/hooks.py _finished": (".stderr .stdout", BOUNDED_RUN),
    "agent/tools/mcp/server.py bounded": (".read", NO_BODY),
    "agent/tools/mcp/server.py last_line": (".read", NO_BODY),
    "agent/tools/mcp/login.py Login._renewed": (".aread", BY_LIBRARY),
    "agent/tools/mcp/login.py _first_word": (".stream .stream", OPENS),
    "agent/tools/mcp/resources.py ResourceTools.read_mcp_resource": (".read", BY_LIBRARY),
    "agent/tools/mcp/server.py Server.read": (".read", BY_LIBRARY),
    "agent/tools/mcp/wire.py logged_in": (LIMITED, BY_LIBRARY),
    "agent/tools/mcp/wire.py _transport": (
        "mcp.client.stdio.stdio_client mcp.client.streamable_http.streamable_http_client", BY_LIBRARY,
    ),
    "agent/tools/mcp/wire.py _transport.client": (LIMITED, BY_LIBRARY),
    "agent/turn/intake.py read_documents.read_one": (".read", NO_BODY),
    "agent/tools/output_files.py Outputs.read_output": (".read", NO_BODY),
    "agent/tools/session_tools.py recall_transcript": (".read", NO_BODY),
    "agent/tools/shell/shell.py trouble_with": (".stderr .stdout subprocess.run", BOUNDED_RUN),
    "agent/tools/shell/sandbox.py run": ("anyio.open_process", OPENS),
    "agent/tools/shell/sandbox.py _followed": (".stdout", OPENS),
    "agent/tools/shell/sandbox.py _followed.read_all": (".receive", COUNTED),
    "agent/tools/shell/parser.py read": (".read", NO_BODY),
    "agent/tools/web/fetching.py Fetcher._ask_at": (".stream", OPENS),
    "agent/tools/web/fetching.py _body": (".aiter_raw", COUNTED),
    "agent/tools/web/pages.py _read": (".read", NO_BODY),
    "agent/tools/web/tools.py WebTools._ask": (f".aiter_bytes .stream {WHOLE}", BY_HELPER),
    "agent/run/environment.py _read": (".read", NO_BODY),
    "gateway/cli/terminal/session.py Terminal._typed": (".read", NO_BODY),
    "gateway/cli/terminal/session.py Terminal._until_the_end": (".read", NO_BODY),
    "gateway/doctor/providers.py _first_piece": (".stream", OPENS),
    "gateway/delivery/outbox/call_journal.py _read": (".read", NO_BODY),
    "gateway/importers/home.py Home.bytes": (".read", NO_BODY),
    "gateway/importers/plan.py _Files._add": (".read", NO_BODY),
    "gateway/web/control.py Control._do": (f".stream {WHOLE}", BY_HELPER),
    "gateway/web/control_client.py call": (".read", OURSELVES),
    "gateway/web/control_client.py _told": (".read", OURSELVES),
    "gateway/web/control_client.py channel_call": (".read", OURSELVES),
    "gateway/web/control_client.py _request": (".getresponse http.client.HTTPConnection", OURSELVES),
    "gateway/web/control_client.py _refuse": (".read", OURSELVES),
    "agent/skills/folders.py text_of": (".read", NO_BODY),
    "gateway/dashboard/now/approvals.py ApprovalPages.reply": (".form", DOORWAY),
    "gateway/dashboard/now/conversations.py ConversationPages.provider": (".form", DOORWAY),
    "gateway/dashboard/now/delivery.py DeliveryPages.do_all": (".form", DOORWAY),
    "gateway/dashboard/program/logs.py LogPages.choose": (".form", DOORWAY),
    "gateway/dashboard/program/mcp_servers.py McpPages.add": (".form", DOORWAY),
    "gateway/dashboard/people/memory.py MemoryPages.forget_fact": (".form", DOORWAY),
    "gateway/dashboard/people/people.py PeoplePages.add": (".form", DOORWAY),
    "gateway/dashboard/people/people.py PeoplePages.role": (".form", DOORWAY),
    "gateway/dashboard/people/people.py PeoplePages.take_there": (".form", DOORWAY),
    "gateway/dashboard/program/configuration_file.py FilePages.save": (".form", DOORWAY),
    "gateway/dashboard/program/mcp_servers.py McpPages.log_in": (".form", DOORWAY),
    "gateway/dashboard/people/person_data.py PersonData.erase": (".form", DOORWAY),
    "gateway/dashboard/program/settings.py SettingsPages.save": (".form", DOORWAY),
    "gateway/dashboard/people/sign_ins.py SignInPages.add": (".form", DOORWAY),
    "gateway/dashboard/now/spending.py SpendingPages.more": (".form", DOORWAY),
    "gateway/dashboard/program/api_keys.py KeyPages.create": (".form", DOORWAY),
    "gateway/dashboard/people/sign_ins.py SignInPages.password": (".form", DOORWAY),
    "gateway/dashboard/program/skills.py SkillPages.approve": (".form", DOORWAY),
    "gateway/receivers/email.py _mail": (".text", NO_BODY),
    "gateway/receivers/http_post.py post": (".stream agent.core.httpx_limits.limited_to", BY_LIBRARY),
    "gateway/otel/collector.py Collector.send": (".aread .stream", BY_LIBRARY),
    "gateway/otel/collector.py Collector._opened": (LIMITED, BY_LIBRARY),
    "gateway/otel/metric_export.py MetricExport.send": (".read", NO_BODY),
    "gateway/running/monitoring/overview.py OverviewService._readings": (".read", NO_BODY),
    "gateway/receivers/email.py _Answers.readline": (".readline", COUNTED),
    "gateway/web/sign_in/identity_provider.py IdentityProvider._asked": (
        "agent.core.httpx_limits.limited_to", BY_LIBRARY,
    ),
    "gateway/web/sign_in/routes.py SignIn._by_password": (".body", DOORWAY),
    "gateway/web/sessions.py cookie_of": (".read", NO_BODY),
    "adapters/console.py _posted": (f".stream {WHOLE}", BY_HELPER),
    "adapters/console_screen.py Screen.lines": (".receive", NO_BODY),
    "adapters/discord/diagnosis.py _gateway": (".receive .ws_connect", NOT_OURS),
    "adapters/discord/rest.py AccountHTTP.ws_connect": (".ws_connect", NOT_OURS),
    "adapters/discord/rest.py _said": (f".iter_any {BEGINNING}", BY_HELPER),
    "adapters/discord/files.py DiscordFiles.fetch": ("aiohttp.ClientSession", OPENS),
    "gateway/channels/kit/http_api.py HttpApi.session": ("aiohttp.ClientSession", OPENS),
    "gateway/channels/kit/websocket.py Connection.receive": (".receive", BY_LIBRARY),
    "gateway/channels/kit/websocket.py WebSocketEvents._listen": (".receive", BY_LIBRARY),
    "gateway/channels/kit/websocket.py WebSocketEvents._opened": (".ws_connect", BY_LIBRARY),
    "gateway/channels/kit/http.py save": (".iter_chunked", COUNTED),
    "gateway/channels/kit/http.py json_body": (".iter_chunked", COUNTED),
    "adapters/slack/api.py BoundedResponse.read": (f".iter_any .read {WHOLE}", BY_HELPER),
    "adapters/slack/api.py SlackApi.session": ("aiohttp.ClientSession", BY_LIBRARY),
    "adapters/slack/channel.py _said": (f".iter_any {BEGINNING}", BY_HELPER),
    "adapters/slack/history.py SlackHistory.since": (".read", NO_BODY),
    "adapters/slack/history.py SlackHistory.trace": (".read", NO_BODY),
    "adapters/slack/socket_mode.py SocketLink._receive": (".receive", BY_LIBRARY),
    "adapters/slack/socket_mode.py connected": (".ws_connect", BY_LIBRARY),
    "adapters/slack/webhook.py _limited": (f".stream {WHOLE}", BY_HELPER),
    "adapters/telegram/request.py Connections.session": ("aiohttp.ClientSession", OPENS),
    "adapters/telegram/request.py Connections.post": (f".iter_any {WHOLE}", BY_HELPER),
    "adapters/telegram/webhook.py _update_in": (f".stream {WHOLE}", BY_HELPER),
    "adapters/web/chat_session.py ChatSession.read_again": (".read", NO_BODY),
    "adapters/web/chat_sessions.py ChatSessions.open": (".read", NO_BODY),
    "adapters/web/chat_sessions.py ChatSessions._entry": (".read", NO_BODY),
    "adapters/web/chat_store.py ChatLines.names": (".read", NO_BODY),
    "adapters/web/chat_store.py LineJournal.read": (".read .read", NO_BODY),
    "agent/ledger/ledger.py Budgets._read_others": (".read", NO_BODY),
    "agent/storage/files/seal.py read_seal": (".read", COUNTED),
    "adapters/web/routes.py Routes._upload": (".stream", DOORWAY),
    "adapters/web/routes.py _body": (".body", DOORWAY),
    "gateway/webhooks/door.py WebhookDoor._taken": (".body", DOORWAY),
    "gateway/cli/programs/webhooks.py _posted": (".getresponse .read http.client.HTTPConnection", BY_LIBRARY),
    "adapters/web/attachment_store.py AttachmentStore._note": (".read", NO_BODY),
}  # fmt: skip


def test_every_read_of_a_body_has_been_looked_at() -> None:
    assert differences(uses_of_product(reads_a_body), REGISTER) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("async def f(answer):\n    return await answer.content.read(9)", ".read"),
        (
            "async def f(answer):\n    return (await answer.text())[:9], await answer.json(content_type=None)",
            ".json .text",
        ),
        ("async def f(request):\n    async for piece in request.stream(): pass", ".stream"),
        (
            "from subprocess import Popen as P\ndef f():\n    return P('x').stdout.read(9)",
            ".read .stdout subprocess.Popen",
        ),
        ("def f(sock):\n    return sock.recv(9)", ".recv"),
        ("async def f(self):\n    return await self._database.read(look), estimator.text(x), sa.text('y')", None),
    ],
)
def test_the_scan_sees_a_read_however_it_is_written(source: str, found: str | None) -> None:
    assert uses_in(source, reads_a_body) == ({"f": tuple(found.split())} if found else {})
