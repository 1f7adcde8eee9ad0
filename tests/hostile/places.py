"""Where texts of strangers are read and written, module by module, and the longest text that gets there.

`PLACES` has a function of each module that goes through such a text. `ELSEWHERE` says of the other modules that work on
texts why no stranger's text of any length comes there; the watchdog fails on a module that stands in neither.
"""

import ast
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import adapters.discord.escape
import adapters.discord.parse
import adapters.discord.render
import adapters.discord.tables
import adapters.slack.address
import adapters.slack.emoji
import adapters.slack.inlines
import adapters.slack.markdown
import adapters.slack.mrkdwn
import adapters.slack.parse
import adapters.slack.render
import adapters.slack.settled
import adapters.slack.text
import adapters.telegram.parse
import adapters.telegram.render
import adapters.telegram.rich
import adapters.telegram.tables
import adapters.web.attachment_store
import adapters.web.chat_sessions
import adapters.web.code_colours
import adapters.web.names
import adapters.web.parse
import adapters.web.render
import agent.compaction.excerpts
import agent.compaction.guidelines
import agent.compaction.pinning
import agent.compaction.probe
import agent.compaction.relevance
import agent.compaction.scrubbing
import agent.compaction.sidequest
import agent.compaction.summaries
import agent.core.framing
import agent.core.whole_text
import agent.goals.claims
import agent.goals.lifecycle
import agent.goals.prompts
import agent.goals.stuck
import agent.goals.verdicts
import agent.memory.extraction
import agent.memory.lexicon
import agent.memory.routing
import agent.memory.words
import agent.plans.admission
import agent.plans.likely
import agent.plans.planner
import agent.plans.task_prompts
import agent.providers.anthropic_stream
import agent.providers.demo_replies
import agent.providers.failures
import agent.providers.json_bytes
import agent.providers.openai_stream
import agent.providers.replies
import agent.providers.sse
import agent.providers.tool_ids
import agent.providers.window_discovery
import agent.sessions.passages
import agent.skills.feedback
import agent.skills.matching
import agent.skills.parsing
import agent.skills.scanning
import agent.skills.sentences
import agent.skills.signatures
import agent.style.detector
import agent.tools.arguments
import agent.tools.calculate
import agent.tools.files.grep
import agent.tools.files.listing
import agent.tools.files.paths
import agent.tools.gate
import agent.tools.mcp.curation
import agent.tools.mcp.forms
import agent.tools.mcp.offers
import agent.tools.mcp.results
import agent.tools.mcp.wire
import agent.tools.shell.denied
import agent.tools.shell.judging
import agent.tools.shell.looking
import agent.tools.shell.reading
import agent.tools.shell.shell
import agent.tools.web.html_tokens
import agent.tools.web.pages
import agent.tools.web.search
import agent.tools.web.targets
import gateway.channels.plain_text
import gateway.delivery.composing
import gateway.delivery.egress
import gateway.delivery.grapheme_breaks
import gateway.delivery.growing
import gateway.delivery.literal
import gateway.delivery.markdown
import gateway.delivery.spans
import gateway.delivery.splitting
import gateway.router.attachments
import gateway.scheduler.clock_times
import gateway.scheduler.cron
import gateway.scheduler.day_names
import gateway.scheduler.quiet
import gateway.scheduler.spans
import gateway.scheduler.when
import gateway.scheduler.wording
import gateway.scheduler.zones
import gateway.telemetry.redaction
from adapters.slack.account import Account as SlackAccount
from adapters.telegram.wording import Me
from adapters.web.channel import TEXT_LIMIT as WEB_ANSWER
from adapters.web.parse import TEXT_LIMIT as WEB_MESSAGE
from adapters.web.shown import Shown
from agent.core.ids import CallId, ConversationId
from agent.core.messages import Message, TextPart, ToolResult, ToolUse
from agent.core.outbox import OutgoingMessage
from agent.core.phrases import english
from agent.goals.lifecycle import SessionGoal, completion_pattern
from agent.plans.graph import Task
from agent.providers.think_tags import Tagged
from agent.tools.mcp.results import LONGEST as MCP_RESULT
from agent.tools.mcp.results import Result
from agent.tools.overflow import LONGEST_SHOWN
from agent.tools.reach import WebSettings
from gateway.channels.adapter import SignedIn
from gateway.channels.channel import Capabilities
from gateway.channels.document import CodeBlock, Document, Paragraph, Plain, Table
from gateway.channels.document import Text as Letters
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound
from gateway.delivery.egress import Guard
from gateway.delivery.markdown import LONG_TEXT
from gateway.delivery.rows import Claimed
from gateway.scheduler.words import Words
from gateway.telemetry.redaction import Redactor

Work = Callable[[str], object]

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "adapters", "agent/compaction", "agent/core", "agent/goals", "agent/memory", "agent/plans", "agent/providers",
    "agent/sessions", "agent/skills", "agent/style", "agent/tools", "gateway/channels", "gateway/delivery",
    "gateway/router", "gateway/scheduler", "gateway/telemetry",
)  # fmt: skip
LIBRARIES = frozenset({"ast", "difflib", "html", "json", "markdown_it", "re", "regex", "unicodedata"})
NAMES = frozenset({"parse", "parsing", "render", "results", "sse"})

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")
ANSWER = 64_000  # characters of what a model says at once
TELEGRAM, DISCORD, SLACK = 4_096, 4_000, 40_000  # characters of a message
PAGE = 5_000_000  # characters: `max_mb` of web_fetch
ON_THE_LOOP, IN_A_THREAD = False, True


@dataclass(frozen=True, slots=True)
class Case:
    """A function of one text, which the product calls in a thread or on the loop, with at most so many characters."""

    work: Work
    longest: int
    threaded: bool = ON_THE_LOOP


REDACTOR = Redactor(["a secret of the house", "another:one/of them"])
GUARD = Guard(REDACTOR.found, REDACTOR.begun)
DONE = completion_pattern(("done", "all tasks are finished", "goal reached"))


def _document(text: str) -> Document:
    """Text as it stands, in every kind of block that is cheap to make."""
    letters = (Letters(text),)
    return (Plain(text), Paragraph(letters), CodeBlock(text, text[:20]), Table((letters,), ((letters,),), ("none",)))


def _telegram(text: str) -> object:
    entities = [{"type": "mention", "offset": at, "length": 5} for at in range(0, 200, 2)]
    message = {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}, "from": {"id": 7, "first_name": text},
               "text": text, "entities": entities, "quote": {"text": text}}  # fmt: skip
    me = adapters.telegram.parse.Context(channel_type="telegram", me=Me(id=1, username="bot"), received_at=NOW)
    return adapters.telegram.parse.parse({"update_id": 1, "message": message}, me)


def _discord(text: str) -> object:
    message = {"id": "1456275480064000000", "author": {"id": "5", "username": text}, "content": text,
               "referenced_message": {"id": "1", "content": text, "author": {"id": "6"}}}  # fmt: skip
    where = adapters.discord.parse.Where(channel_id="3", place="3", guild_id="2", own_roles=frozenset({"8"}))
    account = adapters.discord.parse.Account(channel_type="discord", user_id="1")
    return adapters.discord.parse.said(message, where, account, received_at=NOW)


def _slack(text: str) -> object:
    event = {"type": "message", "user": "U1", "text": f"<@U2> {text}", "ts": "1700000000.000100", "channel": "C1"}
    return adapters.slack.parse.parse_event(
        event, SlackAccount(channel_type="slack", team="T1", bot_user="U2"), received_at=NOW
    )


def _mcp_schema(text: str) -> object:
    properties = {name: {"type": "string", "description": text} for name in ("a", "b", "c")}
    return agent.tools.mcp.offers.clean_schema({"type": "object", "properties": properties})


def _skill(text: str) -> object:
    one = agent.skills.parsing.parsed(
        f"---\nname: a\ndescription: {text[:500]}\n---\n{text}", folder=ROOT, origin="operator"
    )
    return agent.skills.scanning.findings_in(one.skill)


_TEA = "---\nname: green-tea\ndescription: brew green tea of leaves\ntriggers: brew tea, leaves\n---\n# Water\n"
_SKILLS = agent.skills.matching.Index([agent.skills.parsing.parsed(_TEA, folder=ROOT, origin="operator").skill])
_SKILLS.warm()


_LOOKED_AT = agent.skills.matching.BEGINNING + agent.skills.matching.END  # characters of a message


def _scores(text: str) -> object:
    return _SKILLS.scores(text)


def _events(text: str) -> object:
    reader = agent.providers.sse.EventReader()
    body = f"data: {text}\n\n".encode("utf-8", "replace")
    return [reader.feed(body[at : at + 16_384]) for at in range(0, len(body), 16_384)]


def _arguments(text: str) -> object:
    return agent.providers.replies.parsed_arguments(json.dumps({"a": text, text[:50]: [text[:500]]}))


def _mistakes(text: str) -> object:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 10}}, "additionalProperties": False}
    return agent.tools.arguments.mistakes_in({"a": text}, schema)


def _read_clock(text: str) -> object:
    return gateway.scheduler.clock_times.read_clocks(Words(text), loose=True)


def _amount(text: str) -> object:
    return gateway.scheduler.spans.read_amount(Words(text))


def _days(text: str) -> object:
    return gateway.scheduler.day_names.read_day(Words(text), NOW.date())


def _words_of_a_block(text: str) -> object:
    shown = Shown(id="m1", order=1, who="bot", at="", text=text, blocks=(text,))
    return adapters.web.names.words_of(text, [shown])


def _web_said(text: str) -> object:
    posted = adapters.web.parse.Posted.model_validate_json(json.dumps({"id": "12345678", "text": text}))
    key, person = ConversationKey("web", "a"), SignedIn(id=UserId("a"), display=text)
    return adapters.web.parse.said(key, posted, (), person=person, languages=text, at=NOW)


def _composed(text: str) -> object:
    row = Claimed(
        id=1, inbox_id=None, conversation=ConversationId("web:a"), say=OutgoingMessage(text=text), cut_off=False,
        sent_refs=(), repeated=None, created_at=0,
    )  # fmt: skip
    capabilities = Capabilities(measure=adapters.discord.render.measure, text_limit=2_000)
    return gateway.delivery.composing.compose(row, capabilities, ROOT, english, "en", GUARD)


def _subagent_task(text: str) -> object:
    tasks = (Task(id=1, title=text[:100], text=text, state="completed", result=text),)
    return agent.plans.task_prompts.as_they_are(tasks), agent.plans.task_prompts.results_for(text, tasks)


def _chat_completions(text: str) -> object:
    delta = {
        "content": text,
        "tool_calls": [{"index": 0, "id": text[:50], "function": {"name": "a", "arguments": text}}],
    }
    body = json.dumps({"choices": [{"delta": delta}]}).encode("utf-8", "replace")
    return list(agent.providers.openai_stream.Reading("a").events([body]))


def _told_window(text: str) -> object:
    body = {"data": [{"id": text, "max_model_len": text, "meta": {text[:100]: text}}]}
    return agent.providers.window_discovery.in_list(body, "model", "/v1/models")


def _messages(text: str) -> object:
    body = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return agent.providers.anthropic_stream.Reading("a").event(json.dumps(body).encode("utf-8", "replace"))


def _demo(text: str) -> object:
    said = agent.providers.demo_replies.Conversation(
        messages=(Message(role="user", parts=(TextPart(text=text),)),), tools={}
    )
    return agent.providers.demo_replies.reply_to(said)


def _excerpt(text: str) -> object:
    use = ToolUse(id=CallId("a"), name="a", input={"a": text})
    parts = (TextPart(text=text), use, ToolResult(tool_use_id=CallId("a"), content=text))
    messages = (Message(role="user", parts=parts),)
    return (
        agent.compaction.excerpts.digest(messages, most_chars=20_000),
        agent.compaction.excerpts.Excerpt(messages).text,
        agent.compaction.excerpts.last_resort(messages),
    )


def _probed(text: str) -> object:
    half = text[: len(text) // 2]
    use = ToolUse(id=CallId("a"), name="a", input={"a": text[:60], "b": [text[:9]] * 9})
    messages = (Message(role="user", parts=(ToolResult(tool_use_id=CallId("a"), content=text),)),) * 9
    asked = (
        *agent.compaction.probe.questions_in(f"a => {half[:99]}\n{half}\n" + f"=> {half[:9]}\n" * 99, text),
        *agent.compaction.probe.questions_of((*messages, Message(role="assistant", parts=(use,)))),
    )
    return agent.compaction.probe.probed(half, asked, len(text))


def _looked_up(text: str) -> object:
    use = ToolUse(id=CallId("a"), name="recall_transcript", input={"query": text[:500]})
    known = agent.compaction.guidelines.Guidelines(left=0)
    missed = known.missed(use, ToolResult(tool_use_id=CallId("a"), content=f"[message {text}"))
    agent.compaction.guidelines.call_of(ToolUse(id=CallId("a"), name="read", input={"a": text}))
    return missed, agent.compaction.guidelines.read(text)


def _rendered(render: Callable[[Document], object], text: str) -> object:
    return render((*gateway.delivery.markdown.parse(text[:200]), *_document(text)))


def _filled_in(text: str) -> object:
    properties = {name: {"type": "string", "title": name} for name in ("a", "b", "c")}
    fields = agent.tools.mcp.forms.fields_of(text[:1_000], {"type": "object", "properties": properties})
    return agent.tools.mcp.forms.in_one_message(fields, text)


def _of(render: Callable[[Document], object], longest: int) -> Case:
    """A renderer, which gets documents of at most so many characters: a fifth of them in each block."""
    return Case(partial(_rendered, render), longest // 5)


def _frame(measure: Callable[[Document], int], limit: int, text: str) -> object:
    return gateway.delivery.growing.Growing(limit, measure, GUARD).frame(text)


def _cut(text: str) -> object:
    return [gateway.delivery.grapheme_breaks.last_grapheme_break(text, len(text) // part) for part in range(1, 20)]


def _split(text: str) -> object:
    return gateway.delivery.splitting.split(_document(text), 4_000, lambda document: len(_plain(document)))


def _plain(document: Document) -> str:
    return gateway.channels.plain_text.as_text(document)


def _spans(text: str) -> object:
    children = (Letters(text),)
    return gateway.delivery.spans.parted(children, range(0, len(text), 3)), gateway.delivery.spans.bare(children)


FRAMES = tuple(
    (partial(_frame, measure, limit))
    for measure, limit in (
        (adapters.telegram.render.measure, adapters.telegram.render.TEXT_LIMIT),
        (adapters.discord.render.measure, 2_000),
        (adapters.slack.render.measure, 4_000),
        (adapters.web.render.text_length, WEB_ANSWER),
    )
)

PLACES: Mapping[str, tuple[Case, ...]] = {
    "adapters.discord.escape": (
        Case(adapters.discord.escape.escaped, 2_000),
        Case(adapters.discord.escape.literal, 2_000),
        Case(adapters.discord.escape.escaped_line_starts, 2_000),
    ),
    "adapters.discord.parse": (Case(_discord, DISCORD),),
    "adapters.discord.render": (_of(adapters.discord.render.render, 2_000),),
    "adapters.discord.tables": (
        Case(adapters.discord.tables.display_width, 2_000),
        _of(adapters.discord.render.render, 2_000),
    ),
    "adapters.slack.address": (Case(adapters.slack.address.is_ts, SLACK),),
    "adapters.slack.emoji": (Case(adapters.slack.emoji.emoji_name, 1_000),),
    "adapters.slack.inlines": (Case(lambda text: adapters.slack.inlines.inline((Letters(text),)), 4_000),),
    "adapters.slack.markdown": (_of(adapters.slack.markdown.markdown, 4_000),),
    "adapters.slack.mrkdwn": (_of(adapters.slack.mrkdwn.mrkdwn, 4_000),),
    "adapters.slack.parse": (Case(_slack, SLACK),),
    "adapters.slack.render": (_of(lambda document: adapters.slack.render.rich(Outbound(document=document)), 4_000),),
    "adapters.slack.settled": (_of(adapters.slack.settled.settled, 4_000),),
    "adapters.slack.text": (
        Case(adapters.slack.text.readable, SLACK),
        Case(lambda text: adapters.slack.text.without_mention(f"{text}<@U2>", "U2"), SLACK),
    ),
    "adapters.telegram.parse": (Case(_telegram, TELEGRAM),),
    "adapters.telegram.render": (_of(adapters.telegram.render.render, 4_096),),
    "adapters.telegram.rich": (
        _of(adapters.telegram.rich.html, 4_096),
        _of(adapters.telegram.rich.fits, 4_096),
    ),
    "adapters.telegram.tables": (Case(adapters.telegram.tables.display_width, 4_096),),
    "adapters.web.names": (Case(_words_of_a_block, WEB_ANSWER),),
    "adapters.web.parse": (
        Case(_web_said, WEB_MESSAGE),
        Case(adapters.web.parse.first_language, 8_000),
    ),
    "adapters.web.code_colours": (Case(lambda text: adapters.web.code_colours.coloured(text, "python"), 20_000),),
    "adapters.web.render": (_of(adapters.web.render.blocks_as_html, WEB_ANSWER),),
    "adapters.web.chat_sessions": (Case(adapters.web.chat_sessions.split, 8_000),),
    "adapters.web.attachment_store": (Case(adapters.web.attachment_store.safe_name, 8_000),),
    "agent.compaction.excerpts": (Case(_excerpt, WEB_MESSAGE),),
    "agent.compaction.guidelines": (Case(_looked_up, WEB_MESSAGE),),
    "agent.compaction.pinning": (Case(agent.compaction.pinning.states_rule, WEB_MESSAGE),),
    "agent.compaction.probe": (Case(_probed, ANSWER),),
    "agent.compaction.relevance": (Case(agent.compaction.relevance.frequencies, WEB_MESSAGE, IN_A_THREAD),),
    "agent.compaction.scrubbing": (Case(agent.compaction.scrubbing.scrubbed, ANSWER),),
    "agent.compaction.sidequest": (Case(lambda text: agent.compaction.sidequest.named_in(text, 9, 0.5), ANSWER),),
    "agent.compaction.summaries": (Case(agent.compaction.summaries.read_summary, ANSWER),),
    "agent.core.framing": (
        Case(agent.core.framing.harmless, WEB_MESSAGE),
        Case(agent.core.framing.defused, LONGEST_SHOWN),
    ),
    "agent.core.whole_text": (Case(agent.core.whole_text.whole, MCP_RESULT),),
    "agent.goals.claims": (Case(lambda text: agent.goals.claims.claims(f"{text} done {text}", DONE), ANSWER // 2),),
    "agent.goals.lifecycle": (
        Case(agent.goals.lifecycle.is_request, WEB_MESSAGE),
        Case(partial(agent.goals.lifecycle.after_message, SessionGoal(state="active", text="a b")), WEB_MESSAGE),
    ),
    "agent.goals.prompts": (
        Case(agent.goals.prompts.tamed, WEB_MESSAGE),
        Case(agent.goals.prompts.smuggles, WEB_MESSAGE),
    ),
    "agent.goals.stuck": (Case(lambda text: agent.goals.stuck.digest_of(text, ("a",)), ANSWER),),
    "agent.goals.verdicts": (Case(agent.goals.verdicts.read_verdict, ANSWER),),
    "agent.memory.extraction": (Case(lambda text: list(agent.memory.extraction.parsed(text, 30)), ANSWER),),
    "agent.memory.lexicon": (
        Case(agent.memory.lexicon.Lexicon().words, WEB_MESSAGE, IN_A_THREAD),
        Case(lambda text: agent.memory.lexicon.Lexicon().terms(text[:2_000]), 2_000, IN_A_THREAD),
    ),
    "agent.memory.routing": (Case(agent.memory.routing.route, WEB_MESSAGE),),
    "agent.memory.words": (
        Case(agent.memory.words.telling, WEB_MESSAGE),
        Case(agent.memory.words.is_about_something, WEB_MESSAGE),
        Case(agent.memory.words.code_in, ANSWER),
        Case(agent.memory.words.without_code, ANSWER),
        Case(lambda text: agent.memory.words.text_pieces(text, 1_000), ANSWER),
        Case(lambda text: agent.memory.words.coverage(("tea", "cups"), text), ANSWER),
        Case(agent.memory.words.signed_words_of, ANSWER),
    ),
    "agent.plans.admission": (
        Case(agent.plans.admission.without_people, agent.plans.admission.MOST_BYTES),
        Case(lambda text: agent.plans.admission.admit(text, REDACTOR), agent.plans.admission.MOST_BYTES),
    ),
    "agent.plans.task_prompts": (Case(_subagent_task, ANSWER),),
    "agent.plans.likely": (Case(agent.plans.likely.judged, WEB_MESSAGE),),
    "agent.plans.planner": (Case(agent.plans.planner.tasks_in, ANSWER),),
    "agent.providers.demo_replies": (Case(_demo, WEB_MESSAGE),),
    "agent.providers.failures": (Case(lambda text: agent.providers.failures.clean(text, ("abcdefgh",)), ANSWER),),
    "agent.providers.json_bytes": (Case(lambda text: agent.providers.json_bytes.dumps({"a": text}), MCP_RESULT),),
    "agent.providers.anthropic_stream": (Case(_messages, MCP_RESULT),),
    "agent.providers.openai_stream": (Case(_chat_completions, MCP_RESULT),),
    "agent.providers.replies": (Case(_arguments, MCP_RESULT),),
    "agent.providers.sse": (Case(_events, MCP_RESULT),),
    "agent.providers.think_tags": (Case(lambda text: list(Tagged().taken(text)), ANSWER),),
    "agent.providers.tool_ids": (
        Case(agent.providers.tool_ids.wire_id, ANSWER),
        Case(agent.providers.tool_ids.wire_name, ANSWER),
    ),
    "agent.sessions.passages": (
        Case(agent.sessions.passages.pieces, WEB_MESSAGE, IN_A_THREAD),
        Case(partial(agent.sessions.passages.query_for, "sqlite"), 500),
    ),
    "agent.skills.feedback": (
        Case(agent.skills.feedback.signals_in, WEB_MESSAGE),
        Case(agent.skills.feedback.kept_as, WEB_MESSAGE),
        Case(agent.skills.feedback.pleased, WEB_MESSAGE),
    ),
    "agent.providers.window_discovery": (Case(_told_window, MCP_RESULT),),
    "agent.skills.matching": (
        Case(agent.skills.matching.called_in, WEB_MESSAGE),
        Case(agent.skills.matching.without_call, WEB_MESSAGE),
        Case(_scores, WEB_MESSAGE),
    ),
    "agent.skills.parsing": (Case(_skill, ANSWER, IN_A_THREAD),),
    "agent.skills.scanning": (Case(_skill, ANSWER, IN_A_THREAD),),
    "agent.skills.sentences": (Case(lambda text: list(agent.skills.sentences.sentences(text, "en")), _LOOKED_AT),),
    "agent.skills.signatures": (
        Case(agent.skills.signatures.signature_of, WEB_MESSAGE),
        Case(agent.skills.signatures.name_of, agent.skills.signatures.LONGEST_SIGNATURE),
    ),
    "agent.style.detector": (Case(agent.style.detector.signals_of, WEB_MESSAGE),),
    "agent.tools.arguments": (Case(_mistakes, MCP_RESULT),),
    "agent.tools.calculate": (Case(agent.tools.calculate.calculated, agent.tools.calculate.LONGEST),),
    "agent.tools.patterns": (Case(agent.tools.patterns.compiled, 1_000, IN_A_THREAD),),
    "agent.tools.files.listing": (
        Case(agent.tools.files.listing.parts_of, 500),
        Case(agent.tools.files.listing.printable, 4_096),
    ),
    "agent.tools.files.paths": (Case(lambda text: agent.tools.files.paths.grounded(text, (), ROOT), MCP_RESULT),),
    "agent.tools.gate": (Case(lambda text: agent.tools.gate.canonical({"a": text}), MCP_RESULT),),
    "agent.tools.mcp.curation": (Case(agent.tools.mcp.curation.words_of, WEB_MESSAGE),),
    "agent.tools.mcp.forms": (Case(_filled_in, WEB_MESSAGE),),
    "agent.tools.mcp.offers": (
        Case(lambda text: agent.tools.mcp.offers.clean(text, 1_000), ANSWER),
        Case(_mcp_schema, 6_000),
    ),
    "agent.tools.mcp.results": (
        Case(lambda text: agent.tools.mcp.results.text_of(Result(structured={"a": text})), MCP_RESULT),
    ),
    "agent.tools.mcp.wire": (Case(lambda text: agent.tools.mcp.wire.why(RuntimeError(text)), ANSWER),),
    "agent.tools.shell.denied": (Case(agent.tools.shell.denied.denied, 8_000, IN_A_THREAD),),
    "agent.tools.shell.judging": (
        Case(lambda text: agent.tools.shell.judging.judged(text, sandboxed=True), 8_000, IN_A_THREAD),
    ),
    "agent.tools.shell.looking": (
        Case(lambda text: agent.tools.shell.judging.judged(f"find . -name {text}", sandboxed=True), 8_000, IN_A_THREAD),
    ),
    "agent.tools.shell.shell": (Case(partial(agent.tools.shell.shell.with_real_folders, skills={"tea": ROOT}), 8_000),),
    "agent.tools.shell.reading": (Case(agent.tools.shell.reading.read, 8_000, IN_A_THREAD),),
    "agent.tools.web.html_tokens": (
        Case(lambda text: sum(1 for _ in agent.tools.web.html_tokens.tokens_of(text)), 500_000, IN_A_THREAD),
    ),
    "agent.tools.web.pages": (
        Case(lambda text: agent.tools.web.pages.page_of(text, "https://a.b/", whole=True), PAGE, IN_A_THREAD),
        Case(agent.tools.web.pages.tidy, 500_000, IN_A_THREAD),
        Case(
            lambda text: agent.tools.web.pages.text_of(text.encode("utf-8", "replace"), "gb18030"), PAGE // 4,
            IN_A_THREAD,
        ),
    ),
    "agent.tools.web.search": (
        Case(
            lambda text: agent.tools.web.search.told(
                agent.tools.web.search.found_in({"results": [{"title": text, "url": text, "content": text}]}, "searxng")
            ),
            MCP_RESULT,
        ),
    ),
    "agent.tools.web.targets": (
        Case(lambda text: agent.tools.web.targets.target_of(f"https://{text}", WebSettings()), 2_000),
    ),
    "gateway.channels.plain_text": (_of(gateway.channels.plain_text.as_text, WEB_ANSWER),),
    "gateway.delivery.composing": (Case(_composed, LONG_TEXT),),
    "gateway.delivery.growing": (
        *(Case(frame, LONG_TEXT) for frame in FRAMES),
        Case(FRAMES[1], 4 * LONG_TEXT, IN_A_THREAD),
    ),
    "gateway.delivery.egress": (
        Case(GUARD.text, WEB_ANSWER),
        Case(lambda text: GUARD.document(_document(text)), WEB_ANSWER // 5),
        Case(GUARD.growing, ANSWER),
        Case(gateway.delivery.egress.untracked, 8_000),
    ),
    "gateway.delivery.grapheme_breaks": (Case(_cut, ANSWER, IN_A_THREAD),),
    "gateway.delivery.literal": (Case(gateway.delivery.literal.literal_spans, ANSWER // 4, IN_A_THREAD),),
    "gateway.delivery.markdown": (
        Case(gateway.delivery.markdown.parse, LONG_TEXT),
        Case(gateway.delivery.markdown.parse, ANSWER // 4, IN_A_THREAD),
    ),
    "gateway.delivery.spans": (Case(_spans, ANSWER, IN_A_THREAD),),
    "gateway.delivery.splitting": (Case(_split, ANSWER // 4, IN_A_THREAD),),
    "gateway.router.attachments": (Case(gateway.router.attachments.safe_name, 8_000),),
    "gateway.scheduler.clock_times": (Case(_read_clock, WEB_MESSAGE, IN_A_THREAD),),
    "gateway.scheduler.cron": (Case(gateway.scheduler.cron.parse_cron, WEB_MESSAGE),),
    "gateway.scheduler.day_names": (Case(_days, WEB_MESSAGE, IN_A_THREAD),),
    "gateway.scheduler.quiet": (
        Case(lambda text: gateway.scheduler.quiet.read_quiet(text, "UTC"), WEB_MESSAGE),
    ),
    "gateway.scheduler.spans": (Case(_amount, WEB_MESSAGE, IN_A_THREAD),),
    "gateway.scheduler.when": (
        Case(lambda text: gateway.scheduler.when.read_when(text, now=NOW, zone=ZONE), WEB_MESSAGE, IN_A_THREAD),
        Case(lambda text: gateway.scheduler.when.read_moment(text, now=NOW, zone=ZONE), 64),
    ),
    "gateway.scheduler.wording": (Case(gateway.scheduler.wording.cleaned, WEB_MESSAGE),),
    "gateway.scheduler.words": (Case(Words, WEB_MESSAGE, IN_A_THREAD),),
    "gateway.scheduler.zones": (Case(gateway.scheduler.zones.find_zone, WEB_MESSAGE),),
    "gateway.telemetry.redaction": (
        Case(REDACTOR, MCP_RESULT, IN_A_THREAD),
        Case(REDACTOR.found, ANSWER),
        Case(REDACTOR.begun, ANSWER),
    ),
}  # fmt: skip


_OURS = "reads what the house itself has written down, bounded where it came in"
_ANSWERS = "reads answers of a platform or a provider that are bounded before, with names and numbers in them"
_OPERATOR = "reads what the operator has written"
_TURN = "works on whole messages of a turn; the turns with every tool go through it"

ELSEWHERE: Mapping[str, str] = {
    "agent.tools.approvals": "compares a word with the few that a question offers",
    "agent.tools.mcp.asking": "asks with words that agent.tools.mcp.forms has read",
    "agent.tools.rule_names": _OPERATOR,
    "gateway.delivery.markdown_notes": "rules of the parser of gateway.delivery.markdown, which is tried with them",
    "adapters.console_screen": "the operator's own terminal",
    "adapters.discord.commands": _OURS,
    "adapters.discord.endpoint": _ANSWERS,
    "adapters.discord.errors": _ANSWERS,
    "adapters.discord.rest": _ANSWERS,
    "adapters.slack.files": _ANSWERS,
    "adapters.slack.socket_mode": _ANSWERS,
    "adapters.slack.webhook": _ANSWERS,
    "adapters.telegram.publishing": _OURS,
    "adapters.telegram.request": _ANSWERS,
    "adapters.telegram.settings": _OPERATOR,
    "adapters.telegram.webhook": _ANSWERS,
    "adapters.web.routes": "reads a post of 200,000 characters, as adapters.web.parse does",
    "agent.compaction.deferred": _TURN,
    "agent.compaction.dumps": _OURS,
    "agent.compaction.microcompact": _TURN,
    "agent.compaction.window": _TURN,
    "agent.compaction.writing": _TURN,
    "agent.core.program": _OURS,
    "agent.core.tree": _TURN,
    "agent.memory.gathering": _OURS,
    "agent.memory.index": _OURS,
    "agent.memory.traces": _OURS,
    "agent.providers.alternating": _OPERATOR,
    "agent.providers.anthropic": _ANSWERS,
    "agent.providers.anthropic_requests": _TURN,
    "agent.providers.demo": "a model of the house, for trying out",
    "agent.providers.litellm_provider": _ANSWERS,
    "agent.providers.openai": _ANSWERS,
    "agent.providers.openai_embeddings": _ANSWERS,
    "agent.providers.openai_fields": _ANSWERS,
    "agent.providers.openai_requests": _TURN,
    "agent.providers.openai_transcription": _ANSWERS,
    "agent.providers.prices": _OURS,
    "agent.providers.settings": _OPERATOR,
    "agent.sessions.export": _OURS,
    "agent.sessions.reading": _OURS,
    "agent.sessions.runs": _OURS,
    "agent.sessions.store": _OURS,
    "agent.skills.drafting": _OURS,
    "agent.style.user_model": _OURS,
    "agent.tools.current_time": _TURN,
    "agent.tools.deferring": _TURN,
    "agent.tools.hooks": "hands a program of the operator the words of a call that agent.tools.gate has gone through",
    "agent.tools.files.grep": "its expressions are those of agent.tools.patterns; turns with every tool go through it",
    "agent.tools.mcp.settings": _OPERATOR,
    "agent.tools.toolbox": _TURN,
    "gateway.delivery.markdown_rules": "rules of the parser that gateway.delivery.markdown runs",
    "gateway.delivery.plan_prompts": _OURS,
    "gateway.delivery.prompts": _OURS,
    "gateway.delivery.rows": _OURS,
    "gateway.telemetry.logging": _OURS,
    "gateway.telemetry.event_log": _OURS,
}


def modules() -> Iterator[str]:
    """Every module of these packages that works on texts: by the libraries it loads, or by what it is called."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if file.stem in NAMES or _loads(file):
                yield ".".join(file.relative_to(ROOT).with_suffix("").parts)


def _loads(file: Path) -> bool:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import) and LIBRARIES & {alias.name.partition(".")[0] for alias in node.names}:
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in LIBRARIES:
            return True
    return False


def reached(work: Work, text: str) -> Collection[str]:
    """The modules whose functions run for the text."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        with suppress(Exception):  # what a function makes of such a text is its own tests' affair
            work(text)
    finally:
        sys.setprofile(None)
    return found
