"""Forms of tool calls on servers, and the fields that they want back."""

from collections.abc import Mapping

from tests.dialects.quirk import (
    FINE,
    HEAD,
    OSLO,
    ROME,
    STOP,
    TOOLS_STOP,
    WORDS,
    Check,
    Got,
    Quirk,
    call,
    delta,
    pick,
    raw,
    sse,
)

BOTH = Got(calls=[OSLO, ROME])
ONE = Got(calls=[OSLO])
OSLO_TEXT = r'"{\"city\":\"Oslo\"}"'
ROME_TEXT = r'"{\"city\":\"Rome\"}"'
NAMED = f'"function":{{"name":"get_weather","arguments":{OSLO_TEXT}}}'
TO_ROME = f'"function":{{"name":"get_weather","arguments":{ROME_TEXT}}}'


def asks(
    server: str, says: str, does: str, *events: str, gets: Got = ONE, sent: Mapping[int, Check] | None = None
) -> Quirk:
    """A row in which the model calls, is answered, and says that it is fine."""
    return Quirk(
        server=server, says=says, does=does, answers=[sse(HEAD, *events), FINE], asks="tool", gets=gets, sent=sent or {}
    )


FORMS = (
    asks("OpenAI", "the name first, arguments in pieces", "joined", call('[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}]'), call(r'[{"index":0,"function":{"arguments":"{\"city\""}}]'), call(r'[{"index":0,"function":{"arguments":":\"Oslo\"}"}}]'), TOOLS_STOP),
    asks("OpenAI", "two calls, their pieces one after another", "told apart by index", call(f'[{{"index":0,"id":"call_1",{NAMED}}}]'), call(f'[{{"index":1,"id":"call_2",{TO_ROME}}}]'), TOOLS_STOP, gets=BOTH),
    asks("a proxy", "two calls, their pieces mixed", "told apart by index", call(r'[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\""}}]'), call(r'[{"index":1,"id":"b","function":{"name":"get_weather","arguments":"{\"city\""}}]'), call(r'[{"index":0,"function":{"arguments":":\"Oslo\"}"}},{"index":1,"function":{"arguments":":\"Rome\"}"}}]'), TOOLS_STOP, gets=BOTH),
    asks("litellm", "the first call has index 1", "read", call(f'[{{"index":1,"id":"tooluse_1","type":"function",{NAMED}}}]'), TOOLS_STOP),
    asks("Ollama", "a whole call, and reason 'stop'", "run as a call", call(f'[{{"id":"call_1","index":0,"type":"function",{NAMED}}}]'), STOP, gets=ONE),
    asks("Ollama", "calls without an index", "told apart by id", call(f'[{{"id":"call_1","type":"function",{NAMED}}}]'), call(f'[{{"id":"call_2","type":"function",{TO_ROME}}}]'), STOP, gets=BOTH),
    asks("Gemini", "all calls with index 0 and no id", "a new name begins a new call", call(f'[{{"index":0,"id":"","type":"function",{NAMED}}}]'), call(f'[{{"index":0,"id":"","type":"function",{TO_ROME}}}]'), STOP, gets=BOTH),
    asks("Gemini", "two calls with neither index nor id in one event", "a new name begins a new call", call(f'[{{"type":"function",{NAMED}}},{{"type":"function",{TO_ROME}}}]'), STOP, gets=BOTH),
    asks("vLLM", "no id", "one is made", call(f'[{{"index":0,"type":"function",{NAMED}}}]'), TOOLS_STOP),
    asks("vLLM", "no type", "not missed", call(f'[{{"index":0,"id":"call_1",{NAMED}}}]'), TOOLS_STOP),
    asks("SGLang", "id and name in every piece, no index", "joined by id", call(r'[{"id":"call_1","function":{"name":"get_weather","arguments":"{\"city\""}}]'), call(r'[{"id":"call_1","function":{"name":"get_weather","arguments":":\"Oslo\"}"}}]'), TOOLS_STOP),
    asks("Kimi", "the name in every piece", "joined", call(r'[{"index":0,"id":"functions.get_weather:0","function":{"name":"get_weather","arguments":"{\"city\""}}]'), call(r'[{"index":0,"function":{"name":"get_weather","arguments":":\"Oslo\"}"}}]'), TOOLS_STOP),
    asks("llama.cpp", "arguments as an object", "read", call('[{"index":0,"id":"x","function":{"name":"get_weather","arguments":{"city":"Oslo"}}}]'), TOOLS_STOP),
    asks("vLLM", "arguments encoded twice", "decoded twice", call(r'[{"index":0,"id":"x","function":{"name":"get_weather","arguments":"\"{\\\"city\\\":\\\"Oslo\\\"}\""}}]'), TOOLS_STOP),
    asks("DeepSeek", "no arguments: an empty text", "none", call('[{"index":0,"id":"x","function":{"name":"get_weather","arguments":""}}]'), TOOLS_STOP, gets=Got(calls=[("get_weather", {})])),
    asks("LM Studio", "no arguments: the text null", "none", call('[{"index":0,"id":"x","function":{"name":"get_weather","arguments":"null"}}]'), TOOLS_STOP, gets=Got(calls=[("get_weather", {})])),
    asks("any", "arguments that are no JSON", "the model is told what is wrong", call(r'[{"index":0,"id":"x","function":{"name":"get_weather","arguments":"{city: Oslo"}}]'), TOOLS_STOP, gets=Got(calls=[("get_weather", {})], malformed=True)),
    asks("an old gateway", "the form before tools", "read", delta('{"function_call":{"name":"get_weather","arguments":""}}'), delta(f'{{"function_call":{{"arguments":{OSLO_TEXT}}}}}'), delta("{}", "function_call")),
    asks("Mistral", "tool_calls and function_call null beside words", "ignored", delta('{"content":"One moment.","tool_calls":null,"function_call":null}'), call(f'[{{"index":0,"id":"D681PevKs",{NAMED}}}]', "tool_calls")),
    asks("Together", "an empty list of calls in every event", "ignored", delta('{"content":"","tool_calls":[]}'), call(f'[{{"index":0,"id":"call_1",{NAMED}}}]'), delta('{"content":"","tool_calls":[]}', "tool_calls")),
    asks("a proxy", "one call that is no list", "read", delta(f'{{"tool_calls":{{"index":0,"id":"x",{NAMED}}}}}'), TOOLS_STOP),
    asks("a proxy", "two calls of one id", "given ids of their own", call(f'[{{"index":0,"id":"same",{NAMED}}},{{"index":1,"id":"same",{TO_ROME}}}]'), TOOLS_STOP, gets=BOTH),
    asks("xAI", "the whole call in one event beside words", "both are kept", delta(f'{{"role":"assistant","content":"I look.","tool_calls":[{{"id":"call_1","function":{{"name":"get_weather","arguments":{OSLO_TEXT}}},"index":0,"type":"function"}}]}}'), TOOLS_STOP),
    Quirk(server="an old gateway", says="a call in message instead of delta", does="read", asks="tool", gets=ONE, answers=[sse(f'{{"id":"c1","choices":[{{"index":0,"message":{{"role":"assistant","content":null,"tool_calls":[{{"id":"x","type":"function",{NAMED}}}]}},"finish_reason":"tool_calls"}}]}}'), FINE]),
    Quirk(server="an old gateway", says="a call in one JSON body", does="read", asks="tool", gets=ONE, answers=[raw(f'{{"id":"c1","choices":[{{"index":0,"message":{{"role":"assistant","content":null,"tool_calls":[{{"id":"x","type":"function",{NAMED}}}]}},"finish_reason":"tool_calls"}}]}}'.encode(), content_type="application/json"), FINE]),
    Quirk(server="any", says="reason 'tool_calls' and no call", does="the words are the answer", asks="tool", answers=[sse(HEAD, WORDS, TOOLS_STOP)]),
)  # fmt: skip

SIGNED = '"extra_content":{"google":{"thought_signature":"sig-ä"}}'
DETAILS = '[{"type":"reasoning.encrypted","data":"opaque","format":"google-gemini-v1","index":0}]'


def ids_agree(body: object) -> bool:
    """The result names the call by the id that the call has in the same request."""
    sent = pick(body, "messages", 2, "tool_calls", 0, "id")  # type: ignore[arg-type]
    return bool(sent) and sent == pick(body, "messages", 3, "tool_call_id")  # type: ignore[arg-type]


BACK = (
    asks("Gemini", "a call is signed, and refused without the signature", "it goes back", call(f'[{{"index":0,"id":"","type":"function",{NAMED},{SIGNED}}}]'), STOP, sent={1: lambda body: pick(body, "messages", 2, "tool_calls", 0, "extra_content", "google", "thought_signature") == "sig-ä"}),
    asks("Gemini", "the signature comes in an event of its own", "it goes back", call(f'[{{"index":0,"id":"x","type":"function",{NAMED}}}]'), call(f'[{{"index":0,{SIGNED}}}]'), STOP, sent={1: lambda body: pick(body, "messages", 2, "tool_calls", 0, "extra_content", "google", "thought_signature") == "sig-ä"}),
    asks("OpenRouter", "reasoning_details belong to a call", "they go back", delta(f'{{"reasoning_details":{DETAILS}}}'), call(f'[{{"index":0,"id":"x",{NAMED}}}]'), TOOLS_STOP, sent={1: lambda body: pick(body, "messages", 2, "reasoning_details", 0, "data") == "opaque"}),
    asks("DeepSeek", "reasoning_content is wanted back in a tool loop", "it goes back", delta('{"reasoning_content":"Hm"}'), call(f'[{{"index":0,"id":"x",{NAMED}}}]'), TOOLS_STOP, sent={1: lambda body: pick(body, "messages", 2, "reasoning_content") == "Hm"}),
    asks("Kimi", "ids such as functions.get_weather:0", "call and result keep one id", call(f'[{{"index":0,"id":"functions.get_weather:0",{NAMED}}}]'), TOOLS_STOP, sent={1: ids_agree}),
    asks("Mistral", "ids of nine letters and digits", "they go back as they are", call(f'[{{"index":0,"id":"D681PevKs",{NAMED}}}]'), TOOLS_STOP, sent={1: lambda body: pick(body, "messages", 2, "tool_calls", 0, "id") == "D681PevKs"}),
    Quirk(server="Groq", says="unknown fields of messages are refused", does="fields of other services stay away", asks="after a call", answers=[FINE], sent={0: lambda body: set(pick(body, "messages", 2)) == {"role", "content", "tool_calls"} and set(pick(body, "messages", 2, "tool_calls", 0)) == {"id", "type", "function"}}),
    Quirk(server="Ollama", says="arguments must be a text", does="they are", asks="after a call", answers=[FINE], sent={0: lambda body: pick(body, "messages", 2, "tool_calls", 0, "function", "arguments") == '{"city":"Oslo"}'}),
    Quirk(server="vLLM", says="templates take one system message, in first place", does="there is one", asks="after a call", answers=[FINE], sent={0: lambda body: [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]}),
    Quirk(server="Groq", says="content must be a text", does="it is one where there are only words", asks="words", answers=[FINE], sent={0: lambda body: isinstance(pick(body, "messages", 1, "content"), str)}),
)  # fmt: skip

ROWS = (*FORMS, *BACK)
