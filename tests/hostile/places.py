"""Places that read or write texts of strangers, module by module, with the longest text that gets there.

`PLACES` has a function of each module that goes through such a text. `ELSEWHERE` says of the other modules that work on
texts why no stranger's text of any length comes there; the watchdog fails on a module that stands in neither.
"""

import ast
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import adapters.discord.parse
import adapters.discord.render
import adapters.slack.account
import adapters.slack.markdown
import adapters.slack.parse
import adapters.slack.presence
import adapters.slack.render
import adapters.slack.streams
import adapters.telegram.parse
import adapters.telegram.render
import adapters.telegram.rich
import adapters.web.chat_sessions
import adapters.web.code_colours
import adapters.web.parse
import adapters.web.render
import agent.compaction.excerpts
import agent.compaction.guidelines
import agent.compaction.llm_stages
import agent.compaction.optional_stages
import agent.compaction.probe
import agent.compaction.scoring
import agent.core.function_tools
import agent.core.untrusted_text
import agent.goals.driver
import agent.goals.goal
import agent.memory.graph
import agent.memory.lexicon
import agent.memory.ranking
import agent.plans.admission
import agent.plans.planner
import agent.providers.anthropic.stream
import agent.providers.demo.replies
import agent.providers.encoding
import agent.providers.failures
import agent.providers.model_lists
import agent.providers.openai.stream
import agent.providers.replies
import agent.providers.window_discovery
import agent.sessions.transcript_search
import agent.skills.matching
import agent.skills.signals
import agent.skills.skill
import agent.skills.trust
import agent.style.detector
import agent.tools.approvals
import agent.tools.arguments
import agent.tools.calculate
import agent.tools.files.paths
import agent.tools.files.search
import agent.tools.mcp.forms
import agent.tools.mcp.offers
import agent.tools.mcp.wire
import agent.tools.shell.parser
import agent.tools.shell.policy
import agent.tools.shell.shell
import agent.tools.web.addresses
import agent.tools.web.pages
import agent.tools.web.tools
import gateway.channels.kit.dialect
import gateway.channels.kit.tables
import gateway.channels.media
import gateway.channels.plain_text
import gateway.delivery.egress
import gateway.delivery.rendering.compose
import gateway.delivery.rendering.emphasis
import gateway.delivery.rendering.growing
import gateway.delivery.rendering.markdown
import gateway.delivery.rendering.splitting
import gateway.router.attachments
import gateway.scheduler.phrases.clock_times
import gateway.scheduler.phrases.day_names
import gateway.scheduler.phrases.durations
import gateway.scheduler.phrases.when
import gateway.scheduler.phrases.wording
import gateway.scheduler.triggers.cron
import gateway.scheduler.triggers.misfires
import gateway.scheduler.triggers.zones
import gateway.telemetry.redaction
from adapters.slack.account import Account as SlackAccount
from adapters.telegram.parse import Me
from adapters.web.channel import TEXT_LIMIT as WEB_ANSWER
from adapters.web.messages import Shown
from adapters.web.parse import TEXT_LIMIT as WEB_MESSAGE
from agent.core.ids import CallId, ConversationId
from agent.core.messages import Message, TextPart, ToolResult, ToolUse
from agent.core.outbox import OutgoingMessage
from agent.core.phrases import english
from agent.goals.goal import SessionGoal, completion_pattern
from agent.plans.plan import Task
from agent.providers.openai.stream import Tagged
from agent.tools.mcp.offers import LONGEST as MCP_RESULT
from agent.tools.mcp.offers import Result
from agent.tools.output_files import LONGEST_SHOWN
from agent.tools.settings import WebSettings
from gateway.channels.adapter import SignedIn
from gateway.channels.channel import Capabilities
from gateway.channels.document import CodeBlock, Document, Paragraph, Plain, Table
from gateway.channels.document import Text as Letters
from gateway.channels.entry_points import installed, token_forms
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound
from gateway.delivery.egress import Guard
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.rendering.markdown import LONG_TEXT
from gateway.scheduler.phrases.durations import Words
from gateway.telemetry.redaction import Redactor
from tests.fakes.calls import mistakes

Work = Callable[[str], object]

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "adapters", "agent/compaction", "agent/core", "agent/features", "agent/goals", "agent/memory", "agent/plans",
    "agent/providers", "agent/sessions", "agent/skills", "agent/style", "agent/tools", "gateway/channels",
    "gateway/delivery", "gateway/router", "gateway/scheduler", "gateway/telemetry",
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


REDACTOR = Redactor(["a secret of the house", "another:one/of them"], token_forms(installed()))
CALLED_BY_NAME = replace(gateway.channels.kit.dialect.MARKDOWN, calls=re.compile(r"@(?=\w)"))
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
    one = agent.skills.skill.parsed(
        f"---\nname: a\ndescription: {text[:500]}\n---\n{text}", folder=ROOT, origin="operator"
    )
    return agent.skills.trust.findings_in(one.skill)


_TEA = "---\nname: green-tea\ndescription: brew green tea of leaves\ntriggers: brew tea, leaves\n---\n# Water\n"
_SKILLS = agent.skills.matching.Index([agent.skills.skill.parsed(_TEA, folder=ROOT, origin="operator").skill])
_SKILLS.warm()


_LOOKED_AT = agent.skills.matching.BEGINNING + agent.skills.matching.END  # characters of a message


def _scores(text: str) -> object:
    return _SKILLS.scores(text)


def _events(text: str) -> object:
    reader = agent.providers.openai.stream.EventReader()
    body = f"data: {text}\n\n".encode("utf-8", "replace")
    return [reader.feed(body[at : at + 16_384]) for at in range(0, len(body), 16_384)]


def _arguments(text: str) -> object:
    return agent.providers.replies.parsed_arguments(json.dumps({"a": text, text[:50]: [text[:500]]}))


def _mistakes(text: str) -> object:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 10}}, "additionalProperties": False}
    return agent.tools.arguments.mistakes_in({"a": text}, schema)


def _read_clock(text: str) -> object:
    return gateway.scheduler.phrases.clock_times.read_clocks(Words(text), loose=True)


def _amount(text: str) -> object:
    return gateway.scheduler.phrases.durations.read_amount(Words(text))


def _days(text: str) -> object:
    return gateway.scheduler.phrases.day_names.read_day(Words(text), NOW.date())


def _words_of_a_block(text: str) -> object:
    shown = Shown(id="m1", order=1, who="bot", at="", text=text, blocks=(text,))
    return adapters.web.chat_sessions.words_of(text, [shown])


def _web_said(text: str) -> object:
    posted = adapters.web.parse.Posted.model_validate_json(json.dumps({"id": "12345678", "text": text}))
    key, person = ConversationKey("web", "a"), SignedIn(id=UserId("a"), display=text)
    return adapters.web.parse.said(key, posted, (), person=person, languages=text, at=NOW)


def _composed(text: str) -> object:
    row = Claimed(
        id=1, inbox_id=None, conversation=ConversationId("web:a"), say=OutgoingMessage(text=text, kind="reply"),
        cut_off=False, sent_refs=(), repeated=None, created_at=0,
    )  # fmt: skip
    capabilities = Capabilities(measure=adapters.discord.render.measure, text_limit=2_000)
    return gateway.delivery.rendering.compose.compose(row, capabilities, ROOT, english, "en", GUARD)


def _subagent_task(text: str) -> object:
    tasks = (Task(id=1, title=text[:100], text=text, state="completed", result=text),)
    return agent.plans.planner.as_they_are(tasks), agent.plans.planner.results_for(text, tasks)


def _chat_completions(text: str) -> object:
    delta = {
        "content": text,
        "tool_calls": [{"index": 0, "id": text[:50], "function": {"name": "a", "arguments": text}}],
    }
    body = json.dumps({"choices": [{"delta": delta}]}).encode("utf-8", "replace")
    return list(agent.providers.openai.stream.Reading("a").events([body]))


def _told_window(text: str) -> object:
    body = {"data": [{"id": text, "max_model_len": text, "meta": {text[:100]: text}}]}
    return agent.providers.window_discovery.in_list(body, "model", "/v1/models")


def _listed_models(text: str) -> object:
    return agent.providers.model_lists.offers_in(
        {"data": [{"id": text, "name": text, "architecture": {text[:100]: text}}]}
    )


def _messages(text: str) -> object:
    body = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return agent.providers.anthropic.stream.Reading("a").event(json.dumps(body).encode("utf-8", "replace"))


def _demo(text: str) -> object:
    said = agent.providers.demo.replies.Conversation(
        messages=(Message(role="user", parts=(TextPart(text=text),)),), tools={}
    )
    return agent.providers.demo.replies.reply_to(said)


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
    return render((*gateway.delivery.rendering.markdown.parse(text[:200]), *_document(text)))


def _filled_in(text: str) -> object:
    properties = {name: {"type": "string", "title": name} for name in ("a", "b", "c")}
    fields = agent.tools.mcp.forms.fields_of(text[:1_000], {"type": "object", "properties": properties})
    return agent.tools.mcp.forms.in_one_message(fields, text)


def _of(render: Callable[[Document], object], longest: int) -> Case:
    """A renderer, which gets documents of at most so many characters: a fifth of them in each block."""
    return Case(partial(_rendered, render), longest // 5)


def _frame(measure: Callable[[Document], int], limit: int, text: str) -> object:
    return gateway.delivery.rendering.growing.Growing(limit, measure, GUARD).frame(text)


def _cut(text: str) -> object:
    return [gateway.delivery.rendering.splitting.last_grapheme_break(text, len(text) // part) for part in range(1, 20)]


def _split(text: str) -> object:
    return gateway.delivery.rendering.splitting.split(_document(text), 4_000, lambda document: len(_plain(document)))


def _plain(document: Document) -> str:
    return gateway.channels.plain_text.as_text(document)


def _spans(text: str) -> object:
    children = (Letters(text),)
    return gateway.delivery.rendering.splitting.parted(
        children, range(0, len(text), 3)
    ), gateway.delivery.rendering.splitting.bare(children)


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
    "adapters.discord.render": (
        Case(adapters.discord.render.escaped, 2_000),
        Case(adapters.discord.render.literal, 2_000),
        Case(adapters.discord.render.escaped_line_starts, 2_000),
        _of(adapters.discord.render.render, 2_000),
    ),
    "adapters.discord.parse": (Case(_discord, DISCORD),),
    "adapters.slack.account": (Case(adapters.slack.account.is_ts, SLACK),),
    "adapters.slack.presence": (Case(adapters.slack.presence.emoji_name, 1_000),),
    "adapters.slack.markdown": (
        Case(lambda text: adapters.slack.markdown.inline((Letters(text),)), 4_000),
        _of(adapters.slack.markdown.markdown, 4_000),
        _of(adapters.slack.markdown.mrkdwn, 4_000),
    ),
    "adapters.slack.parse": (
        Case(_slack, SLACK),
        Case(adapters.slack.parse.readable, SLACK),
        Case(lambda text: adapters.slack.parse.without_mention(f"{text}<@U2>", "U2"), SLACK),
    ),
    "adapters.slack.render": (_of(lambda document: adapters.slack.render.rich(Outbound(document=document)), 4_000),),
    "adapters.slack.streams": (_of(adapters.slack.streams.settled, 4_000),),
    "adapters.telegram.parse": (Case(_telegram, TELEGRAM),),
    "adapters.telegram.render": (_of(adapters.telegram.render.render, 4_096),),
    "adapters.telegram.rich": (
        _of(adapters.telegram.rich.html, 4_096),
        _of(adapters.telegram.rich.fits, 4_096),
    ),
    "adapters.web.chat_sessions": (
        Case(_words_of_a_block, WEB_ANSWER),
        Case(adapters.web.chat_sessions.split, 8_000),
    ),
    "adapters.web.parse": (
        Case(_web_said, WEB_MESSAGE),
        Case(adapters.web.parse.first_language, 8_000),
    ),
    "adapters.web.code_colours": (Case(lambda text: adapters.web.code_colours.coloured(text, "python"), 20_000),),
    "adapters.web.render": (_of(adapters.web.render.blocks_as_html, WEB_ANSWER),),
    "gateway.channels.media": (Case(gateway.channels.media.safe_name, 8_000),),
    "agent.compaction.excerpts": (
        Case(_excerpt, WEB_MESSAGE),
        Case(agent.compaction.excerpts.states_rule, WEB_MESSAGE),
        Case(agent.compaction.excerpts.scrubbed, ANSWER),
    ),
    "agent.compaction.guidelines": (Case(_looked_up, WEB_MESSAGE),),
    "agent.compaction.probe": (Case(_probed, ANSWER),),
    "agent.compaction.scoring": (Case(agent.compaction.scoring.frequencies, WEB_MESSAGE, IN_A_THREAD),),
    "agent.compaction.optional_stages": (
        Case(lambda text: agent.compaction.optional_stages.named_in(text, 9, 0.5), ANSWER),
    ),
    "agent.compaction.llm_stages": (Case(agent.compaction.llm_stages.read_summary, ANSWER),),
    "agent.core.untrusted_text": (
        Case(agent.core.untrusted_text.harmless, WEB_MESSAGE),
        Case(agent.core.untrusted_text.defused, LONGEST_SHOWN),
        Case(agent.core.untrusted_text.whole, MCP_RESULT),
    ),
    "agent.goals.goal": (
        Case(lambda text: agent.goals.goal.claims(f"{text} done {text}", DONE), ANSWER // 2),
        Case(agent.goals.goal.is_request, WEB_MESSAGE),
        Case(partial(agent.goals.goal.after_message, SessionGoal(state="active", text="a b")), WEB_MESSAGE),
    ),
    "agent.goals.driver": (
        Case(agent.goals.driver.tamed, WEB_MESSAGE),
        Case(agent.goals.driver.smuggles, WEB_MESSAGE),
        Case(lambda text: agent.goals.driver.digest_of(text, ("a",)), ANSWER),
        Case(agent.goals.driver.read_verdict, ANSWER),
    ),
    "agent.memory.graph": (Case(lambda text: list(agent.memory.graph.parsed(text, 30)), ANSWER),),
    "agent.memory.lexicon": (
        Case(agent.memory.lexicon.Lexicon().words, WEB_MESSAGE, IN_A_THREAD),
        Case(lambda text: agent.memory.lexicon.Lexicon().terms(text[:2_000]), 2_000, IN_A_THREAD),
        Case(agent.memory.lexicon.telling, WEB_MESSAGE),
        Case(agent.memory.lexicon.is_about_something, WEB_MESSAGE),
        Case(agent.memory.lexicon.code_in, ANSWER),
        Case(agent.memory.lexicon.without_code, ANSWER),
        Case(lambda text: agent.memory.lexicon.text_pieces(text, 1_000), ANSWER),
        Case(lambda text: agent.memory.lexicon.coverage(("tea", "cups"), text), ANSWER),
        Case(agent.memory.lexicon.signed_words_of, ANSWER),
    ),
    "agent.memory.ranking": (Case(agent.memory.ranking.route, WEB_MESSAGE),),
    "agent.plans.admission": (
        Case(agent.plans.admission.without_people, agent.plans.admission.MOST_BYTES),
        Case(lambda text: agent.plans.admission.admit(text, REDACTOR), agent.plans.admission.MOST_BYTES),
        Case(agent.plans.admission.judged, WEB_MESSAGE),
    ),
    "agent.plans.planner": (
        Case(_subagent_task, ANSWER),
        Case(agent.plans.planner.tasks_in, ANSWER),
    ),
    "agent.providers.demo.replies": (Case(_demo, WEB_MESSAGE),),
    "agent.providers.failures": (Case(lambda text: agent.providers.failures.clean(text, ("abcdefgh",)), ANSWER),),
    "agent.providers.encoding": (
        Case(lambda text: agent.providers.encoding.dumps({"a": text}), MCP_RESULT),
        Case(agent.providers.encoding.wire_id, ANSWER),
        Case(agent.providers.encoding.wire_name, ANSWER),
    ),
    "agent.providers.anthropic.stream": (Case(_messages, MCP_RESULT),),
    "agent.providers.openai.stream": (
        Case(_chat_completions, MCP_RESULT),
        Case(_events, MCP_RESULT),
        Case(lambda text: list(Tagged().taken(text)), ANSWER),
    ),
    "agent.providers.replies": (Case(_arguments, MCP_RESULT),),
    "agent.sessions.transcript_search": (
        Case(agent.sessions.transcript_search.pieces, WEB_MESSAGE, IN_A_THREAD),
        Case(partial(agent.sessions.transcript_search.query_for, "sqlite"), 500),
    ),
    "agent.skills.signals": (
        Case(agent.skills.signals.signals_in, WEB_MESSAGE),
        Case(agent.skills.signals.kept_as, WEB_MESSAGE),
        Case(agent.skills.signals.pleased, WEB_MESSAGE),
        Case(agent.skills.signals.signature_of, WEB_MESSAGE),
        Case(agent.skills.signals.name_of, agent.skills.signals.LONGEST_SIGNATURE),
    ),
    "agent.providers.model_lists": (Case(_listed_models, MCP_RESULT),),
    "agent.providers.window_discovery": (Case(_told_window, MCP_RESULT),),
    "agent.skills.matching": (
        Case(agent.skills.matching.called_in, WEB_MESSAGE),
        Case(agent.skills.matching.without_call, WEB_MESSAGE),
        Case(_scores, WEB_MESSAGE),
        Case(lambda text: list(agent.skills.matching.sentences(text, "en")), _LOOKED_AT),
    ),
    "agent.skills.skill": (Case(_skill, ANSWER, IN_A_THREAD),),
    "agent.skills.trust": (Case(_skill, ANSWER, IN_A_THREAD),),
    "agent.style.detector": (Case(agent.style.detector.signals_of, WEB_MESSAGE),),
    "agent.core.function_tools": (
        Case(lambda text: agent.core.function_tools.unknown((), text, ("path", "text")), MCP_RESULT),
        Case(lambda text: agent.core.function_tools.mistake(("a",), "enum", "'b'", text), MCP_RESULT),
        Case(lambda text: mistakes(agent.tools.calculate.calculate, {text: text, "expression": text}), MCP_RESULT),
    ),
    "agent.tools.arguments": (
        Case(_mistakes, MCP_RESULT),
        Case(agent.tools.arguments.compiled, 1_000, IN_A_THREAD),
    ),
    "agent.tools.calculate": (Case(agent.tools.calculate.calculated, agent.tools.calculate.LONGEST),),
    "agent.tools.files.search": (
        Case(agent.tools.files.search.parts_of, 500),
        Case(agent.tools.files.search.printable, 4_096),
    ),
    "agent.tools.files.paths": (Case(lambda text: agent.tools.files.paths.grounded(text, (), ROOT), MCP_RESULT),),
    "agent.tools.approvals": (Case(lambda text: agent.tools.approvals.canonical({"a": text}), MCP_RESULT),),
    "agent.tools.mcp.offers": (
        Case(agent.tools.mcp.offers.words_of, WEB_MESSAGE),
        Case(lambda text: agent.tools.mcp.offers.clean(text, 1_000), ANSWER),
        Case(_mcp_schema, 6_000),
        Case(lambda text: agent.tools.mcp.offers.text_of(Result(structured={"a": text})), MCP_RESULT),
    ),
    "agent.tools.mcp.forms": (Case(_filled_in, WEB_MESSAGE),),
    "agent.tools.mcp.wire": (Case(lambda text: agent.tools.mcp.wire.why(RuntimeError(text)), ANSWER),),
    "agent.tools.shell.policy": (
        Case(agent.tools.shell.policy.denied, 8_000, IN_A_THREAD),
        Case(lambda text: agent.tools.shell.policy.judged(text, sandboxed=True), 8_000, IN_A_THREAD),
        Case(lambda text: agent.tools.shell.policy.judged(f"find . -name {text}", sandboxed=True), 8_000, IN_A_THREAD),
    ),
    "agent.tools.shell.shell": (Case(partial(agent.tools.shell.shell.with_real_folders, skills={"tea": ROOT}), 8_000),),
    "agent.tools.shell.parser": (Case(agent.tools.shell.parser.read, 8_000, IN_A_THREAD),),
    "agent.tools.web.pages": (
        Case(lambda text: sum(1 for _ in agent.tools.web.pages.tokens_of(text)), 500_000, IN_A_THREAD),
        Case(lambda text: agent.tools.web.pages.page_of(text, "https://a.b/", whole=True), PAGE, IN_A_THREAD),
        Case(agent.tools.web.pages.tidy, 500_000, IN_A_THREAD),
        Case(
            lambda text: agent.tools.web.pages.text_of(text.encode("utf-8", "replace"), "gb18030"), PAGE // 4,
            IN_A_THREAD,
        ),
    ),
    "agent.tools.web.tools": (
        Case(
            lambda text: agent.tools.web.tools.told(
                agent.tools.web.tools.found_in({"results": [{"title": text, "url": text, "content": text}]}, "searxng")
            ),
            MCP_RESULT,
        ),
    ),
    "agent.tools.web.addresses": (
        Case(lambda text: agent.tools.web.addresses.target_of(f"https://{text}", WebSettings()), 2_000),
    ),
    "gateway.channels.kit.dialect": (
        _of(lambda document: gateway.channels.kit.dialect.render(document, CALLED_BY_NAME), 4_000),
    ),
    "gateway.channels.kit.tables": (Case(gateway.channels.kit.tables.display_width, 4_096),),
    "gateway.channels.plain_text": (_of(gateway.channels.plain_text.as_text, WEB_ANSWER),),
    "gateway.delivery.rendering.compose": (Case(_composed, LONG_TEXT),),
    "gateway.delivery.rendering.growing": (
        *(Case(frame, LONG_TEXT) for frame in FRAMES),
        Case(FRAMES[1], 4 * LONG_TEXT, IN_A_THREAD),
    ),
    "gateway.delivery.egress": (
        Case(GUARD.text, WEB_ANSWER),
        Case(lambda text: GUARD.document(_document(text)), WEB_ANSWER // 5),
        Case(GUARD.growing, ANSWER),
        Case(gateway.delivery.egress.untracked, 8_000),
    ),
    "gateway.delivery.rendering.splitting": (
        Case(_cut, ANSWER, IN_A_THREAD),
        Case(_spans, ANSWER, IN_A_THREAD),
        Case(_split, ANSWER // 4, IN_A_THREAD),
    ),
    "gateway.delivery.rendering.emphasis": (
        Case(gateway.delivery.rendering.emphasis.literal_spans, ANSWER // 4, IN_A_THREAD),
    ),
    "gateway.delivery.rendering.markdown": (
        Case(gateway.delivery.rendering.markdown.parse, LONG_TEXT),
        Case(gateway.delivery.rendering.markdown.parse, ANSWER // 4, IN_A_THREAD),
    ),
    "gateway.router.attachments": (Case(gateway.router.attachments.safe_name, 8_000),),
    "gateway.scheduler.phrases.clock_times": (Case(_read_clock, WEB_MESSAGE, IN_A_THREAD),),
    "gateway.scheduler.triggers.cron": (Case(gateway.scheduler.triggers.cron.parse_cron, WEB_MESSAGE),),
    "gateway.scheduler.phrases.day_names": (Case(_days, WEB_MESSAGE, IN_A_THREAD),),
    "gateway.scheduler.triggers.misfires": (
        Case(lambda text: gateway.scheduler.triggers.misfires.read_quiet(text, "UTC"), WEB_MESSAGE),
    ),
    "gateway.scheduler.phrases.durations": (
        Case(_amount, WEB_MESSAGE, IN_A_THREAD),
        Case(Words, WEB_MESSAGE, IN_A_THREAD),
    ),
    "gateway.scheduler.phrases.when": (
        Case(lambda text: gateway.scheduler.phrases.when.read_when(text, now=NOW, zone=ZONE), WEB_MESSAGE, IN_A_THREAD),
        Case(lambda text: gateway.scheduler.phrases.when.read_moment(text, now=NOW, zone=ZONE), 64),
    ),
    "gateway.scheduler.phrases.wording": (Case(gateway.scheduler.phrases.wording.cleaned, WEB_MESSAGE),),
    "gateway.scheduler.triggers.zones": (Case(gateway.scheduler.triggers.zones.find_zone, WEB_MESSAGE),),
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
    "gateway.delivery.ephemeral.pairing_alerts": "reads the alerts that the gateway wrote itself",
    "agent.tools.mcp.elicitation": "asks with words that agent.tools.mcp.forms has read",
    "agent.skills.folders": "compares two texts of a skill for an operator, 4,000 lines each at most, in a thread",
    "agent.tools.rule_names": _OPERATOR,
    "agent.tools.settings": _OPERATOR,
    "agent.providers.routing": "matches names of models, 200 characters, with patterns of 2,000",
    "gateway.delivery.rendering.markdown_notes": (
        "rules of the parser of gateway.delivery.rendering.markdown, which is tried with them"
    ),
    "adapters.web.attachment_store": "reads its own notes of files; names and first bytes: gateway.channels.media",
    "adapters.web.chat_store": "reads what the chat page has written itself, in files or rows",
    "adapters.console_screen": "the operator's own terminal",
    "adapters.discord.settings": _OPERATOR,
    "adapters.slack.settings": _OPERATOR,
    "agent.features.approvals": "shows calls that agent.tools.executor has looked at, bounded and redacted there",
    "agent.features.hooks": _TURN,
    "gateway.channels.adapter": _OPERATOR,
    "gateway.channels.kit.http": "reads bodies within a limit that it counts",
    "gateway.channels.kit.websocket": "frames within a limit that its library keeps; their fields are the adapter's",
    "adapters.discord.commands": _OURS,
    "adapters.discord.rest": _ANSWERS,
    "adapters.slack.files": _ANSWERS,
    "adapters.slack.socket_mode": _ANSWERS,
    "adapters.slack.webhook": _ANSWERS,
    "adapters.telegram.adapter": _OURS,
    "adapters.telegram.request": _ANSWERS,
    "adapters.telegram.settings": _OPERATOR,
    "adapters.telegram.webhook": _ANSWERS,
    "adapters.web.routes": "reads a post of 200,000 characters, as adapters.web.parse does",
    "agent.compaction.dumps": _OURS,
    "agent.compaction.selection": _TURN,
    "agent.compaction.window": _TURN,
    "agent.compaction.state": _TURN,
    "agent.core.phrases": _OURS,
    "agent.core.files.safe": _TURN,
    "agent.features.goals": _TURN,
    "agent.memory.backlog": _OURS,
    "agent.memory.erasure_rows": _OURS,
    "agent.memory.index": _OURS,
    "agent.providers.openai.requests": _OPERATOR + "; " + _ANSWERS + "; " + _TURN,
    "agent.providers.anthropic.client": _ANSWERS,
    "agent.providers.anthropic.requests": _TURN,
    "agent.providers.demo.provider": "a model of the house, for trying out",
    "agent.providers.litellm.provider": _ANSWERS,
    "agent.providers.openai.client": _ANSWERS,
    "agent.providers.openai.embeddings": _ANSWERS,
    "agent.providers.openai.endpoint": _ANSWERS,
    "agent.providers.openai.images": _ANSWERS,
    "agent.providers.openai.transcription": _ANSWERS,
    "agent.providers.models": _OURS,
    "agent.providers.settings": _OPERATOR,
    "agent.sessions.export": _OURS,
    "agent.sessions.store": _OURS,
    "agent.sessions.runs": _OURS,
    "agent.skills.drafts": _OURS,
    "agent.features.skills": _TURN,
    "agent.style.user_model": _OURS,
    "agent.tools.deferred_tools": _TURN,
    "agent.tools.hooks": "hands a program of the operator the words of a call that agent.tools.approvals has read",
    "agent.tools.mcp.settings": _OPERATOR,
    "agent.tools.toolbox": _TURN,
    "gateway.delivery.ephemeral.prompts": _OURS,
    "gateway.delivery.outbox.rows": _OURS,
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
