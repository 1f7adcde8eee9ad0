"""Builds one request: prompt, the conversation's window, tools, hints (steps 14 and 15 of SPEC §2.4). No I/O."""

from dataclasses import dataclass

from agent.compaction.integrity import orphans_in
from agent.compaction.pairs import repaired, with_orphaned_uses_answered
from agent.compaction.window import Window
from agent.core.messages import FilePart, Message
from agent.providers.provider import Provider, Request, SystemPrompt, ToolSchema
from agent.tools.focus import FOCUS_TOOLS
from agent.turn.decision import PSEUDO_TOOLS
from agent.turn.fitting import ceiling
from agent.turn.hints import cache_tier_for, code_ratio_of, routing_hint_for
from agent.turn.prompt import stable_prompt, volatile_prompt, words_of
from agent.turn.run import Notice, Run
from agent.turn.settings import DEFAULT_WINDOW
from agent.turn.states import States


class DoesNotFit(Exception):
    """The request does not fit and may not be made to; `notice` tells the person what helps (B-26)."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice.phrase)
        self.notice = notice


@dataclass(frozen=True, slots=True)
class Built:
    """A request and its raw (unscaled) estimate, for the calibration."""

    request: Request
    raw_tokens: int


def scope_of(run: Run, states: States) -> frozenset[str]:
    """The tools this run may call (B-31)."""
    names = states.tool.executor.toolbox.names
    if not run.settings.memory.focus.enabled:
        names -= FOCUS_TOOLS
    allowed = run.definition.tools
    return names if allowed is None else names & allowed


def schema_of(run: Run, states: States) -> ToolSchema:
    """What the model sees of them: the same object from turn to turn."""
    scope = scope_of(run, states)
    listed = run.definition.tools or frozenset()
    pseudo = [spec for name, spec in PSEUDO_TOOLS.items() if name in listed]
    return states.tool.executor.toolbox.schema(scope | {spec.name for spec in pseudo}, pseudo)


def system_of(run: Run, states: States, provider: Provider, notes: str, tools: ToolSchema) -> SystemPrompt:
    """The system prompt; its stable part is made anew only when the definition or the tools changed."""
    state = states.instruction
    made_for = state.stable_for
    if made_for is None or made_for[0] is not run.definition or made_for[1] is not tools:
        state.stable = stable_prompt(run.definition, tools)
        state.stable_for = (run.definition, tools)
    volatile = volatile_prompt(model=provider.model, chat_type=run.work.incoming.chat_type, notes=notes)
    return SystemPrompt(stable=state.stable, volatile=volatile)


def estimate_of(run: Run, states: States, notes: str) -> int:
    """Scaled tokens of system, tools, history and message, as the context stage reports them (B-18)."""
    provider = states.provider.slot.current()
    tools = schema_of(run, states)
    fixed = _fixed(run, states, system_of(run, states, provider, notes, tools), tools)
    return states.metrics.estimator.scaled(fixed + states.message.window.tokens)


def fixed_of(run: Run, states: States, provider: Provider, notes: str) -> int:
    """Raw tokens of a request without its messages."""
    _follow(provider, states)
    tools = schema_of(run, states)
    return _fixed(run, states, system_of(run, states, provider, notes, tools), tools)


def build_request(run: Run, states: States, provider: Provider, notes: str) -> Built:
    """The request for the next call, out of the window as it is. Raises DoesNotFit."""
    _follow(provider, states)
    estimator, window = states.metrics.estimator, states.message.window
    tools = schema_of(run, states)
    system = system_of(run, states, provider, notes, tools)
    fixed = _fixed(run, states, system, tools)
    room = int(ceiling(provider.context_window, run.settings.context) / estimator.scale)
    raw = fixed + window.tokens
    if raw > room:
        raise DoesNotFit(_too_large(provider, fixed, room))
    tokens = estimator.scaled(raw)
    states.metrics.context_tokens = tokens
    newest = run.messages[0] if run.messages else None
    request = Request(
        system=system,
        messages=sound(window),
        tools=tools,
        reminder=run.reminder,
        max_tokens=run.definition.max_tokens,
        cache_tier=cache_tier_for(tokens),
        routing_hint=routing_hint_for(
            tokens,
            tool_calls=sum(len(step.tool_calls) for step in run.steps),
            code_ratio=code_ratio_of(words_of(newest)) if newest is not None else 0.0,
            vision=any(_is_image(part) for message in run.messages for part in message.parts),
        ),
    )
    return Built(request, raw)


def sound(window: Window) -> list[Message]:
    """The window's messages with every call answered and no answer to nothing: the last guard (SPEC §9, Z-82)."""
    messages = window.messages
    if orphans_in(window):
        return repaired(messages)
    newest = messages[-2:]
    return [*messages[:-2], *with_orphaned_uses_answered(newest)]


def _fixed(run: Run, states: States, system: SystemPrompt, tools: ToolSchema) -> int:
    estimator = states.metrics.estimator
    prompt = estimator.text(system.stable) + estimator.text(system.volatile) + estimator.text(run.reminder)
    return prompt + estimator.tools(tools)


def _too_large(provider: Provider, fixed: int, room: int) -> Notice:
    if fixed > room:
        return Notice("tools_too_large", {"window": provider.context_window or DEFAULT_WINDOW})
    return Notice("context_too_long")


def _follow(provider: Provider, states: States) -> None:
    """Another model counts differently: what was learnt from the one before says nothing about it."""
    uses = (provider.name, provider.model)
    if states.provider.calibrated_for != uses:
        if states.provider.calibrated_for is not None:
            states.metrics.estimator.forget_samples()
        states.provider.calibrated_for = uses
    states.metrics.context_max_tokens = provider.context_window or DEFAULT_WINDOW


def _is_image(part: object) -> bool:
    return isinstance(part, FilePart) and part.mime_type.startswith("image/")
