"""What carrying out a plan may take, told before a person confirms it. Pure; a guess, and called one."""

from collections.abc import Sequence

from agent.plans.graph import Task
from agent.plans.stored import Estimate
from agent.providers.costs import cost_of
from agent.providers.provider import Prices, Usage

# Our guess: a worker asks the model a few times, and each time the request has grown by a result.
CALLS_PER_TASK = 4
PROMPT_PER_CALL = 5_000  # tokens: instructions, tools, the task, what it has seen so far
OUTPUT_PER_CALL = 400
PROMPT_PER_RESULT = 600  # of the last call, which puts the results together
OUTPUT_AT_THE_END = 1_000


def estimated(tasks: Sequence[Task], prices: Prices | None) -> Estimate:
    """Calls, tokens and USD for these tasks and the call that puts their results together."""
    calls = CALLS_PER_TASK * len(tasks)
    prompt = calls * PROMPT_PER_CALL + len(tasks) * PROMPT_PER_RESULT
    output = calls * OUTPUT_PER_CALL + OUTPUT_AT_THE_END
    usage = Usage(prompt=prompt, output=output)
    return Estimate(calls=calls + 1, tokens=prompt + output, usd=cost_of(usage, prices))
