"""Forms in which servers stream words, thoughts, numbers and ends."""

import gzip

from agent.core.errors import KeyRefused, ProviderBusy, ProviderRefused
from tests.dialects.quirk import (
    DONE,
    FINE,
    HEAD,
    STOP,
    WORDS,
    Fails,
    Got,
    Plays,
    Quirk,
    delta,
    event,
    raw,
    sse,
)

UNFINISHED = sse(HEAD, WORDS, end=b"")
FILTERS = '"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}'
THINKS = "thoughts are kept apart from the answer"


def ended(reason: str) -> str:
    return delta("{}", reason)


def used(usage: str, choices: str = "[]") -> str:
    return f'{{"id":"c1","choices":{choices},"usage":{usage}}}'


FRAMING = (
    Quirk(server="OpenAI", says="role first, usage in an event of its own, [DONE]", does="read", answers=[sse(HEAD, WORDS, STOP, used('{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}'))], gets=Got(usage=(9, 2, 0), stop="end_turn")),
    Quirk(server="OpenAI", says="padding, fingerprint and tier beside the words", does="ignored", answers=[sse(HEAD, '{"id":"c1","obfuscation":"rxmjmgN6","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":"Fine."},"logprobs":null,"finish_reason":null}]}', STOP)]),
    Quirk(server="Azure", says="first event about the filter, without choices", does="ignored", answers=[sse('{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,' + FILTERS + '}]}', HEAD, WORDS, STOP)]),
    Quirk(server="Azure", says="filter results in each choice, usage null in each event", does="ignored", answers=[sse('{"id":"c1","choices":[{' + FILTERS + ',"index":0,"delta":{"content":"Fine."},"finish_reason":null}],"usage":null}', '{"id":"c1","choices":[{"content_filter_results":{},"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}')]),
    Quirk(server="OpenRouter", says="comments while nothing comes", does="ignored", answers=[raw(b": OPENROUTER PROCESSING\n\n", b": OPENROUTER PROCESSING\n\n", event(WORDS), event(STOP), DONE)]),
    Quirk(server="DeepSeek", says="keep-alive comments and empty lines", does="ignored", answers=[raw(b": keep-alive\n\n\n\n", b"\n\n", event(WORDS), b": keep-alive\n\n", event(STOP), DONE)]),
    Quirk(server="Groq", says="its own x_groq beside the words", does="ignored", answers=[sse('{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"x_groq":{"id":"req_1","queue_length":1}}', WORDS, STOP)]),
    Quirk(server="Mistral", says="reason and usage in the event of the last words", does="read", answers=[sse(used('{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}', '[{"index":0,"delta":{"content":"Fine."},"finish_reason":"stop"}]'))], gets=Got(usage=(7, 2, 0))),
    Quirk(server="Gemini", says="one event with role, words and reason", does="read", answers=[sse(delta('{"role":"assistant","content":"Fine."}', "stop"))]),
    Quirk(server="llama.cpp", says="content null in the first event", does="ignored", answers=[sse(delta('{"role":"assistant","content":null}'), WORDS, STOP)]),
    Quirk(server="Ollama", says="the role in every event", does="read", answers=[sse(delta('{"role":"assistant","content":"Fi"}'), delta('{"role":"assistant","content":"ne."}'), delta('{"role":"assistant","content":""}', "stop"))]),
    Quirk(server="a proxy", says="no blank after data:", does="read", answers=[raw(b"data:" + WORDS.encode() + b"\n\n", b"data:" + STOP.encode() + b"\n\ndata:[DONE]\n\n")]),
    Quirk(server="a proxy", says="line ends of Windows", does="read", answers=[raw(event(WORDS).replace(b"\n", b"\r\n"), event(STOP).replace(b"\n", b"\r\n"), DONE.replace(b"\n", b"\r\n"))]),
    Quirk(server="a proxy", says="a byte order mark first", does="ignored", answers=[raw(b"\xef\xbb\xbf", event(WORDS), event(STOP), DONE)]),
    Quirk(server="LM Studio", says="named events with ids", does="read", answers=[raw(b"event: message\nid: 1\nretry: 100\n" + event(WORDS), b"event: message\nid: 2\n" + event(STOP), DONE)]),
    Quirk(server="a proxy", says="one event over several data lines", does="joined", answers=[raw(b'data: {"id":"c1",\ndata: "choices":[{"index":0,\ndata: "delta":{"content":"Fine."}}]}\n\n', event(STOP), DONE)]),
    Quirk(server="any", says="cut within a letter", does="joined", answers=[raw(event(delta('{"content":"Grüße 👍"}'))[:-16], event(delta('{"content":"Grüße 👍"}'))[-16:], event(STOP), DONE), ], gets=Got(text="Grüße 👍")),
    Quirk(server="any", says="cut inside every event", does="joined", answers=[raw(*(bytes([byte]) for byte in event(WORDS)), event(STOP), DONE)]),
    Quirk(server="a proxy", says="the last event without its empty line", does="read", answers=[raw(event(WORDS), event(STOP).rstrip())]),
    Quirk(server="Gemini", says="no [DONE] after the reason", does="the reason is the end", answers=[sse(HEAD, WORDS, STOP, end=b"")]),
    Quirk(server="llama-cpp-python", says="[DONE] without a reason", does="[DONE] is the end", answers=[sse(HEAD, WORDS)]),
    Quirk(server="a proxy", says="blanks after [DONE], and [DONE] twice", does="read", answers=[sse(HEAD, WORDS, STOP, end=b"data: [DONE]  \n\ndata: [DONE]\n\n")]),
    Quirk(server="a proxy", says="events after the reason, without choices", does="ignored", answers=[sse(HEAD, WORDS, STOP, '{"id":"c1","choices":[]}')]),
    Quirk(server="Perplexity", says="events without choices, such as citations", does="ignored", answers=[sse('{"id":"c1","object":"ping"}', WORDS, STOP)]),
    Quirk(server="a proxy", says="delta null with the reason", does="read", answers=[sse(WORDS, delta("null", "stop"))]),
    Quirk(server="a proxy", says="an event stream called text/plain", does="read", answers=[raw(event(WORDS), event(STOP), DONE, content_type="text/plain")]),
    Quirk(server="a proxy", says="a compressed stream", does="read", answers=[Plays(200, [gzip.compress(event(WORDS) + event(STOP) + DONE)], {"content-type": "text/event-stream", "content-encoding": "gzip"})]),
    Quirk(server="an old gateway", says="one JSON body though a stream was asked for", does="read as the answer", answers=[raw(b'{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Fine."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}', content_type="application/json")], gets=Got(usage=(3, 2, 0))),
    Quirk(server="an old gateway", says="the same, written over many lines", does="read as the answer", answers=[raw(b'\n{\n  "choices": [\n', b'    {"message": {"content": "Fine."}, "finish_reason": "stop"}\n  ]\n}\n', content_type="application/json")]),
)  # fmt: skip

ENDS = (
    *(
        Quirk(server=server, says=f"finish_reason {reason!r}", does=does, answers=[sse(HEAD, WORDS, ended(reason))], gets=Got(stop=stop))
        for server, reason, stop, does in (
            ("OpenAI", "length", "max_tokens", "told as cut"),
            ("Mistral", "model_length", "max_tokens", "told as cut"),
            ("Gemini", "MAX_TOKENS", "max_tokens", "told as cut"),
            ("Together", "eos", "end_turn", "an ordinary end"),
            ("Cohere", "COMPLETE", "end_turn", "an ordinary end"),
            ("a proxy of Anthropic", "end_turn", "end_turn", "an ordinary end"),
            ("Gemini", "STOP", "end_turn", "an ordinary end"),
            ("OpenAI", "content_filter", "refusal", "told as declined"),
            ("Gemini", "SAFETY", "refusal", "told as declined"),
            ("Gemini", "content_filter: PROHIBITED_CONTENT", "refusal", "told as declined"),
            ("a proxy of Anthropic", "refusal", "refusal", "told as declined"),
        )
    ),
    Quirk(server="OpenAI", says="words as a refusal", does="told as declined", answers=[sse(HEAD, delta('{"refusal":"I cannot."}'), STOP)], gets=Got(text="I cannot.", stop="refusal")),
    Quirk(server="any", says="the connection is cut before the end", does="asked again", answers=[raw(event(HEAD), event(WORDS), cut=True), FINE], waits=[0.5]),
    Quirk(server="any", says="a body without a byte", does="asked again", answers=[raw(), FINE], waits=[1.0]),
    Quirk(server="llama.cpp", says="never closes a stream", does="believed at the second", answers=[UNFINISHED, UNFINISHED], waits=[0.5]),
    Quirk(server="DeepSeek", says="finish_reason 'insufficient_system_resource'", does="asked again", answers=[sse(HEAD, WORDS, ended("insufficient_system_resource")), FINE], waits=[0.5]),
    Quirk(server="OpenRouter", says="an error in the middle, with reason 'error'", does="asked again", answers=[sse(HEAD, WORDS, '{"id":"c1","error":{"code":"server_error","message":"Provider disconnected unexpectedly"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}'), FINE], waits=[0.5]),
    Quirk(server="OpenRouter", says="an error inside the choice", does="asked again", answers=[sse(HEAD, '{"id":"c1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"Upstream error"}}]}'), FINE], waits=[1.0]),
    Quirk(server="vLLM", says="an error in the place of an event", does="asked again", answers=[sse('{"object":"error","message":"EngineCore encountered an issue.","type":"InternalServerError","param":null,"code":500}'), FINE], waits=[1.0]),
    Quirk(server="llama.cpp", says="an error as a field of its own in the stream", does="asked again", answers=[raw(event(HEAD), b'error: {"code":500,"message":"Failed to parse input","type":"server_error"}\n\n'), FINE], waits=[1.0]),
    Quirk(server="a proxy", says="an error that is a text", does="asked again", answers=[sse('{"error":"upstream timed out"}'), FINE], waits=[1.0]),
    Quirk(server="OpenRouter", says="an error as JSON with status 200", does="asked again", answers=[raw(b'{"error":{"code":502,"message":"Upstream error from provider"}}', content_type="application/json"), FINE], waits=[1.0]),
    Quirk(server="OpenRouter", says="a refused key as JSON with status 200", does="told to the operator", answers=[raw(b'{"error":{"code":401,"message":"User not found."}}', content_type="application/json")], gets=Fails(KeyRefused, ["the API key was refused", "User not found."])),
    Quirk(server="any", says="bytes that are no JSON", does="asked again, then told", answers=[raw(b"data: {oops\n\n")] * 4, gets=Fails(ProviderBusy, ["malformed data"]), waits=[1.0, 2.0, 4.0]),
    Quirk(server="a web server", says="a page in the place of a stream", does="told that base_url is wrong", answers=[raw(b"<!doctype html><title>Welcome</title>", content_type="text/html")], gets=Fails(ProviderRefused, ["answered with a web page; check base_url"])),
    Quirk(server="a web server", says="a redirection", does="not followed, told", answers=[Plays(308, [], {"location": "https://elsewhere.example/v1/chat/completions"})], gets=Fails(ProviderRefused, ["HTTP 308", "base_url"])),
    Quirk(server="Gemini", says="an answer without a word", does="an empty answer, which the turn tells", answers=[sse(delta('{"role":"assistant"}', "stop"))], gets=Got(text="", stop="end_turn")),
)  # fmt: skip

NUMBERS = (
    Quirk(server="OpenAI", says="what was read from the cache", does="counted apart", answers=[sse(WORDS, STOP, used('{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":60}}'))], gets=Got(usage=(40, 2, 60))),
    Quirk(server="DeepSeek", says="the same as prompt_cache_hit_tokens", does="counted apart", answers=[sse(WORDS, used('{"prompt_tokens":100,"completion_tokens":2,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}', '[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]'))], gets=Got(usage=(36, 2, 64))),
    Quirk(server="Groq", says="usage inside x_groq", does="counted", answers=[sse(WORDS, '{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"prompt_tokens":9,"completion_tokens":1}}}')], gets=Got(usage=(9, 1, 0))),
    Quirk(server="xAI", says="running usage in every event", does="the last counts", answers=[sse(used('{"prompt_tokens":9,"completion_tokens":1}', '[{"index":0,"delta":{"content":"Fi"}}]'), used('{"prompt_tokens":9,"completion_tokens":2}', '[{"index":0,"delta":{"content":"ne."}}]'), STOP)], gets=Got(usage=(9, 2, 0))),
    Quirk(server="OpenRouter", says="cost and details beside the numbers", does="ignored", answers=[sse(WORDS, STOP, used('{"prompt_tokens":9,"completion_tokens":2,"cost":0.00014,"is_byok":false,"cost_details":{"upstream_inference_cost":null}}'))], gets=Got(usage=(9, 2, 0))),
    Quirk(server="a proxy", says="numbers with a decimal point", does="counted", answers=[sse(WORDS, STOP, used('{"prompt_tokens":9.0,"completion_tokens":2.0}'))], gets=Got(usage=(9, 2, 0))),
    Quirk(server="a proxy", says="null, texts and negative numbers as usage", does="not counted", answers=[sse(WORDS, STOP, used('{"prompt_tokens":null,"completion_tokens":"many","prompt_tokens_details":null}'))], gets=Got(usage=(0, 0, 0))),
)  # fmt: skip

THOUGHTS = (
    Quirk(server="DeepSeek", says="thoughts as reasoning_content", does=THINKS, answers=[sse(delta('{"role":"assistant","content":null,"reasoning_content":"Hm"}'), delta('{"content":null,"reasoning_content":", so."}'), delta('{"content":"Fine.","reasoning_content":null}'), STOP)], gets=Got(thought="Hm, so.")),
    Quirk(server="Ollama", says="thoughts as reasoning", does=THINKS, answers=[sse(delta('{"role":"assistant","content":"","reasoning":"Hm"}'), WORDS, STOP)], gets=Got(thought="Hm")),
    Quirk(server="vLLM", says="the same thought in both fields", does="kept once", answers=[sse(delta('{"reasoning":"Hm","reasoning_content":"Hm"}'), WORDS, STOP)], gets=Got(thought="Hm")),
    Quirk(server="Mistral", says="content as a list, thoughts in it", does=THINKS, answers=[sse(delta('{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}'), delta('{"content":[{"type":"text","text":"Fine."}]}'), STOP)]),
    Quirk(server="llama.cpp", says="thoughts between <think> tags", does=THINKS, answers=[sse(delta('{"content":"<think>\\nHm\\n</think>\\n\\nFine."}'), STOP)]),
    Quirk(server="LM Studio", says="the same, the tags cut in pieces", does=THINKS, answers=[sse(*(delta(f'{{"content":"{piece}"}}') for piece in ("<th", "ink>", "Hm</", "think", ">\\n\\nFi", "ne.")), STOP)]),
    Quirk(server="vLLM", says="only the closing tag", does="what stood before it is withdrawn", answers=[sse(delta('{"content":"Hm, so.\\n"}'), delta('{"content":"</think>\\n\\nFine."}'), STOP)]),
    Quirk(server="Gemini", says="thoughts between <thought> tags", does=THINKS, answers=[sse(delta('{"content":"<thought>Hm</thought>Fine."}'), STOP)]),
    Quirk(server="any", says="a sentence about the tag", does="left as it is", answers=[sse(delta('{"content":"Write <think> before it and </think> after."}'), STOP)], gets=Got(text="Write <think> before it and </think> after.", thought="")),
    Quirk(server="OpenRouter", says="reasoning and its details", does=THINKS, answers=[sse(delta('{"content":"","reasoning":"Hm","reasoning_details":[{"type":"reasoning.text","text":"Hm","index":0}]}'), WORDS, STOP)], gets=Got(thought="Hm")),
)  # fmt: skip

ROWS = (*FRAMING, *ENDS, *NUMBERS, *THOUGHTS)
