"""Shortens a tool's long output by a model before it enters the conversation; the raw one is kept (SPEC §11)."""

from dataclasses import replace

from agent.compaction.taco import compressed, is_eligible
from agent.core.events import ToolOutputCompressed
from agent.core.messages import TacoCompressed, ToolResult
from agent.turn.run import Run
from agent.turn.side_calls import SideCalls
from agent.turn.states import States, announce

NOTICE = '\n[shortened from {tokens} tokens; read_output has all of it: output "{name}"]'


async def shortened(result: ToolResult, tool: str, run: Run, states: States, *, confirmed: bool) -> ToolResult:
    """The result as it is stored: shorter where that was asked for and worked, else the very same (Z-98, Z-106)."""
    settings, executor = run.settings.tools.taco, states.tool.executor
    found = executor.toolbox.get(tool)
    if not settings.enabled or found is None:
        return result
    tokens = states.metrics.estimator.text(result.content)
    category = found.spec.category
    if not is_eligible(tokens, tool, category, settings, confirmed=confirmed, is_error=result.is_error):
        return result
    text = None
    with run.interrupts.scope():
        text = await compressed(result.content, settings, SideCalls(states))
    if text is None:
        return result
    conversation = states.session.conversation
    name = await executor.outputs.keep(conversation, result.content)
    if name is not None:
        text += NOTICE.format(tokens=tokens, name=name)
    taco = TacoCompressed(tool_name=tool, original_tokens=tokens, compressed_tokens=states.metrics.estimator.text(text))
    if taco.compressed_tokens >= tokens:
        return result
    announce(
        states,
        ToolOutputCompressed(
            conversation=conversation,
            run=run.id,
            tool_name=tool,
            tool_call_id=result.tool_use_id,
            original_tokens=tokens,
            compressed_tokens=taco.compressed_tokens,
            raw_output=name or "",
        ),
    )
    return replace(result, content=text, taco=taco)
