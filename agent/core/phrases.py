"""The sentences an agent itself says to people: keys and English words; other languages come from above.

Never holds what a model or a provider said: those may carry secrets or untrusted text.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

ENGLISH: Mapping[str, str] = MappingProxyType(
    {
        "message_empty": "There was nothing in that message that I could read.",
        "message_too_long": "That message is too long: {length} characters, and I take {limit} at most. "
        "Please send it in pieces or as a file.",
        "session_terminated": "This session was closed for good. Send /new to start another.",
        "agent_broken": "My instructions “{agent}” cannot be loaded, so I cannot answer. "
        "The operator finds the mistakes in the log.",
        "agent_retired": "My notes say that I no longer serve this conversation.",
        "provider_busy": "The model service “{provider}” is not answering just now. Please try again in a minute.",
        "provider_refused": "The model service “{provider}” refused the request; trying again will not help. "
        "The operator finds the reason in the log under {ref}.",
        "history_set_aside": "The model service no longer took {count} earlier messages of this conversation. "
        "I have set them aside and go on without them.",
        "no_providers": "No model service is available at the moment. Please try again shortly.",
        "model_slow": "The model took too long to answer.",
        "model_cut": "The connection to the model broke off and could not be restored.",
        "context_too_long": "This conversation no longer fits the model. "
        "Send /compact to shorten it, /new to start afresh, or send a shorter message.",
        "tools_too_large": "The instructions and tools alone do not fit the model's window of {window} tokens. "
        "The operator can raise context_window, choose fewer tools or lower [context] output_reserve.",
        "compacting": "Compacting: {before}→{after} tokens",
        "compacting_now": "Summarising the older part of this conversation…",
        "context_nearly_full": "{percent} % of my window is filled: soon I will summarise the older part of this "
        "conversation. /compact does it now; words after it say what I must keep.",
        "context_exhausted": "Summarising no longer makes room here. I go on with shortened messages; "
        "/new starts afresh.",
        "reply_too_large": "The model's answer grew beyond what I can take, so I stopped it.",
        "listening": "Listening…",
        "stopped": "Stopped.",
        "hook_blocked": "A rule of this house stopped me here.",
        "approval_asked": "May I do this? ({tool})",
        "approval_terms": "The question stands for {minutes} min. Request {id}, fingerprint {digest}.",
        "approval_who": "{who} or an approver decides.",
        "approval_by_text": "Answer with /approve {id} or /deny {id}.",
        "answer_by_text": "Answer with {choices}.",
        "yes": "Yes",
        "no": "No",
        "approve": "Approve",
        "deny": "Deny",
        "approve_always": "Always in this chat",
        "max_tool_iterations": "I stopped after {limit} rounds of tool calls. Say “go on” to let me continue.",
        "max_turns": "I stopped after {limit} calls of the model, the limit set for me. "
        "Say “go on” to let me continue.",
        "step_budget": "I used up the {limit} steps allowed for one task.",
        "recovery_budget": "Too many tool calls failed ({limit}), so I gave up on this.",
        "execution_timeout": "This took longer than {seconds} seconds, so I stopped.",
        "budget_tokens": "This task used up its budget of tokens.",
        "budget_cost": "This task used up its budget of {limit} USD.",
        "over_budget_gateway": "Everything together may spend {limit} until {until}. {left} of it is left and an "
        "answer may take {needed}, so I did not ask the model.",
        "over_budget_provider": "{name} may spend {limit} until {until}. {left} of it is left and an answer may take "
        "{needed}, so I did not ask it. /provider chooses another.",
        "over_budget_channel": "This chat may spend {limit} until {until}. {left} of it is left and an answer may take "
        "{needed}, so I did not ask the model.",
        "over_budget_person": "You may spend {limit} until {until}. {left} of it is left and an answer may take "
        "{needed}, so I did not ask the model.",
        "over_budget_job": "This schedule may spend {limit} until {until}. {left} of it is left and its work may take "
        "{needed}, so I did not ask the model.",
        "over_budget_goal": "This goal may spend {limit} until {until}. {left} of it is left and the next step may "
        "take {needed}, so I did not ask the model.",
        "unpriced": "Spending is limited here, and nobody told me what {model} costs, so I did not ask it. "
        "The operator finds the fix in the log under {ref}.",
        "empty_answer": "The model gave an empty answer. Please try again or put it differently.",
        "model_declined": "The model declined to answer that.",
        "answer_cut": "The answer was cut at the model's limit of length. Say “go on” for the rest.",
        "defect": "Something went wrong on my side. The operator finds it in the log under {ref}.",
        "unsaved": "I could not save this conversation just now; your message is kept and will be tried again.",
        "command_failed": "That command failed. The operator finds it in the log under {ref}.",
        "goal_reached": "🎯 Goal reached: {goal}",
        "goal_live": "🎯 Working on: {goal}",
        "goal_progress": "Turns: {turns} · tokens: {tokens} · cost: {money}",
        "goal_live_checking": "Checking whether it is reached …",
        "goal_live_waiting": "Waiting for your answer.",
        "goal_live_verdict": "Checked after turn {turn}, not reached: {reason}",
        "goal_over_reached": "🎯 Goal {id} is reached: {goal}",
        "goal_over_paused": "⏸ Goal {id} is paused: {goal}",
        "goal_why_turns": "The limit of {limit} turns is reached.",
        "goal_why_tokens": "The limit of {limit} tokens is reached.",
        "goal_why_usd": "The limit of {limit} USD is reached.",
        "goal_why_left": "Its limit of {limit} has {left} left, and the next step may take {needed}.",
        "goal_why_unpriced": "It has a limit in USD, and nobody told me what the model costs.",
        "goal_why_stuck": "No progress in {count} turns in a row.",
        "goal_why_supervisor": "It could not be checked {count} times in a row.",
        "goal_why_budget": "It may not spend more: {reason}.",
        "goal_why_broken": "Its turns failed again and again.",
        "goal_why_gave_up": "The model gave up.",
        "goal_why_off": "Work by itself was switched off by the operator.",
        "goal_why_gone": "I was removed from this chat while I worked on it.",
        "goal_why_blocked": "Who set it may not talk to me any more.",
        "goal_why_restart": "The gateway was restarted while I worked on it. Nothing goes on by itself.",
        "goal_why_person": "Paused by a person.",
        "goal_why_replaced": "Another goal took its place.",
    }
)


class Phrases(Protocol):
    """Gives the sentence for a key in a language (a BCP 47 tag such as "de"); English where it has no other."""

    def __call__(self, key: str, language: str, **values: object) -> str: ...


def english(key: str, language: str, **values: object) -> str:
    """The English sentence, whatever the language. Raises KeyError for a key that is not in `ENGLISH`."""
    return ENGLISH[key].format(**values)
