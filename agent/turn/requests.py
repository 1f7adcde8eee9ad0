"""Builds one request: prompt, the messages that fit, tools, hints (steps 14 and 15 of SPEC §2.4). No I/O."""

from dataclasses import dataclass

from agent.core.messages import FilePart, Message
from agent.providers.provider import Provider, Request, SystemPrompt, ToolSchema
from agent.turn.decision import PSEUDO_TOOLS
from agent.turn.fitting import ROOM_AFTER_TRIM, ceiling, start_that_fits
from agent.turn.goal_text import goal_text
from agent.turn.hints import cache_tier_for, code_ratio_of, routing_hint_for
from agent.turn.pairs import repaired
from agent.turn.prompt import stable_prompt, volatile_prompt, words_of
from agent.turn.run import Notice, Run
from agent.turn.settings import DEFAULT_WINDOW
from agent.turn.states import States


class DoesNotFit(Exception):
    """Not even the newest exchange fits; `notice` tells the person what helps (B-26)."""

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
    goal = goal_text(run, states)
    volatile = volatile_prompt(model=provider.model, chat_type=run.work.incoming.chat_type, notes=notes, goal=goal)
    return SystemPrompt(stable=state.stable, volatile=volatile)


def estimate_of(run: Run, states: States, notes: str) -> int:
    """Scaled tokens of system, tools, history and message, as the context stage reports them (B-18)."""
    provider = states.provider.slot.current()
    tools = schema_of(run, states)
    fixed = _fixed(run, states, system_of(run, states, provider, notes, tools), tools, run.messages)
    return states.metrics.estimator.scaled(fixed + states.message.view_tokens)


def build_request(run: Run, states: States, provider: Provider, notes: str) -> Built:
    """The request for the next call, with as much of the history as fits. Raises DoesNotFit."""
    _follow(provider, states)
    estimator = states.metrics.estimator
    tools = schema_of(run, states)
    system = system_of(run, states, provider, notes, tools)
    own = repaired(run.messages)
    fixed = _fixed(run, states, system, tools, own)
    room = int(ceiling(provider.context_window, run.settings.context) / estimator.scale)
    if fixed > room:
        raise DoesNotFit(_too_large(run, states, provider, fixed, room, own))
    if fixed + states.message.view_tokens > room:
        trim_view(states, room - fixed)
    raw = fixed + states.message.view_tokens
    history = states.message.history
    tokens = estimator.scaled(raw)
    states.metrics.context_tokens = tokens
    newest = run.messages[0] if run.messages else None
    request = Request(
        system=system,
        messages=(*history[states.message.view_start :], *own),
        tools=tools,
        reminder=run.reminder,
        max_tokens=run.definition.max_tokens,
        cache_tier=cache_tier_for(tokens),
        routing_hint=routing_hint_for(
            tokens,
            tool_calls=sum(len(step.tool_calls) for step in run.steps),
            code_ratio=code_ratio_of(words_of(newest)) if newest is not None else 0.0,
            vision=any(_is_image(part) for message in own for part in message.parts),
        ),
    )
    return Built(request, raw)


def trim_view(states: States, room: int) -> bool:
    """Leave out the oldest exchanges until the rest fits `room` raw tokens; False when nothing could be left out.

    The transcript keeps them. More than needed goes at once, so that the next turns need not trim again.
    """
    state = states.message
    counts = [states.metrics.estimator.message(message) for message in state.history]
    start = start_that_fits(state.history, counts, state.view_start, int(room * ROOM_AFTER_TRIM))
    if start == len(state.history):
        start = start_that_fits(state.history, counts, state.view_start, room)
    trimmed = start > state.view_start
    state.view_start = start
    state.view_tokens = sum(counts[start:])
    return trimmed


def grow_view(states: States, messages: list[Message]) -> None:
    """A finished run's messages join the history."""
    state = states.message
    state.history += messages
    state.view_tokens += states.metrics.estimator.messages(messages)


def _fixed(run: Run, states: States, system: SystemPrompt, tools: ToolSchema, own: list[Message]) -> int:
    estimator = states.metrics.estimator
    prompt = estimator.text(system.stable) + estimator.text(system.volatile) + estimator.text(run.reminder)
    return prompt + estimator.tools(tools) + estimator.messages(own)


def _too_large(run: Run, states: States, provider: Provider, fixed: int, room: int, own: list[Message]) -> Notice:
    if fixed - states.metrics.estimator.messages(own) > room:
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
