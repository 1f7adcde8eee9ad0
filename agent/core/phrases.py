"""The sentences an agent itself says to people: keys and English words; other languages come from above.

Never holds what a model or a provider said: those may carry secrets or untrusted text.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
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
        "provider_refused": "The model service “{provider}” refused the request; trying again will not help.",
        "with_ref": "{text} Reference {ref}.",
        "model_filtered": "A content filter of the model service “{provider}” kept this request back. "
        "Other words may pass.",
        "voice_unheard": "I cannot hear voice messages and sound files here: I only see that there is one. "
        "Please write.",
        "model_without_tools": "The model {model} takes no tools: it can talk, and do nothing else.",
        "history_set_aside": "The model service no longer took {count} earlier messages of this conversation. "
        "I have set them aside and go on without them.",
        "no_providers": "No model service is available at the moment. Please try again shortly.",
        "no_providers_refused": "No model service can answer, and trying again will not help: the operator must look "
        "at their keys and accounts.",
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
        "reading_files": "Reading…",
        "document_encrypted": "I could not read “{name}”: it is protected by a password.",
        "document_broken": "I could not read “{name}”: it is damaged, or is not what its name says.",
        "document_too_large": "I could not read “{name}”: it takes more time or memory than I may use.",
        "document_old_format": "I could not read “{name}”: I cannot read this older format. "
        "Please save it as .docx, .xlsx, .pptx or .pdf.",
        "document_needs_extra": "I could not read “{name}”: reading PDF files is not installed here. "
        "The operator can add it.",
        "document_empty": "I found no text in “{name}”.",
        "document_unseen": "Pages of “{name}” are pictures, and the model here does not see pictures.",
        "stopped": "Stopped.",
        "hook_blocked": "A rule of the gateway stopped me here.",
        "approval_asked": "May I do this? ({tool})",
        "approval_terms": "Press a button, or write yes or no (or /approve, /deny). Expires in {minutes} min.",
        "approval_terms_group": "Press a button, or reply to this message with yes or no (or /approve, /deny). "
        "Expires in {minutes} min.",
        "approval_covers": "“Always” allows from then on: {tool} for {covers}.",
        "approval_who": "{who} or an approver decides.",
        "approval_who_place": "To decide: {who}.",
        "approval_admin_here": "an admin of this group",
        "approval_or": ", or {role}",
        "approval_nobody_known": "Nobody is known here who may decide this. Until somebody is, it is not done.",
        "approval_by_text": "Answer with /approve {id} or /deny {id}.",
        "answer_by_text": "Answer with {choices}.",
        "answer_in_words": "Write your answer, or one of: {choices}.",
        "mcp_asks": "The MCP server {server} asks: {message}",
        "mcp_asks_on": "The MCP server {server} asks:",
        "mcp_address": "The MCP server {server} asks you to open an address: {message}\n\n{url}\n\nIt leads to "
        "{host}. Open it yourself if you trust both; nothing is opened for you.",
        "mcp_address_first": "Before it goes on, the MCP server {server} wants you to open an address: {message}\n\n"
        "{url}\n\nIt leads to {host}. Open it yourself if you trust both, and press the button when you are done.",
        "mcp_open": "I open it",
        "mcp_opened": "I am done there",
        "form_terms": "Without an answer within {minutes} min it counts as declined.",
        "form_skip": "Skip",
        "form_decline": "Decline",
        "form_cancel": "Cancel",
        "form_several": "It wants {count} answers, one after another, or all in one message with a line for each "
        "(“Name: …”):",
        "form_number_of": "{number} of {count}: {label}",
        "form_in_group": "Reply to this message with your answer.",
        "form_default": "“Skip” leaves {value}.",
        "form_choose_several": "One or more of these, with commas between them.",
        "form_unfit": "That does not fit {label}: {why}",
        "form_whole_number": "A whole number, in digits.",
        "form_number": "A number, in digits.",
        "form_yes_no": "Yes or no.",
        "form_choice": "“{words}” is none of the choices.",
        "form_count": "From {least} to {most} of the choices.",
        "form_length": "From {least} to {most} characters; these are {length}.",
        "form_least": "At least {least}.",
        "form_most": "At most {most}.",
        "form_email": "An email address, such as name@example.org.",
        "form_uri": "An address, such as https://example.org.",
        "form_date": "A date, such as 2026-01-31.",
        "form_date_time": "A date with a time, such as 2026-01-31T09:30:00.",
        "form_pattern": "It does not have the form that the server wants.",
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
        "budget_tool_time": "The tools of this task have run for {limit} seconds together, so I stopped. That is the "
        "limit of [budget] max_tool_runtime_secs.",
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
        "over_budget_gateway_out": "The limit of {limit} for everything together is used up; it resets at {until}.",
        "over_budget_provider_out": "The limit of {limit} for {name} is used up; it resets at {until}. "
        "/provider chooses another.",
        "over_budget_channel_out": "This chat's limit of {limit} is used up; it resets at {until}.",
        "over_budget_person_out": "Your limit of {limit} is used up; it resets at {until}.",
        "over_budget_job_out": "This schedule's limit of {limit} is used up; it resets at {until}.",
        "over_budget_goal_out": "This goal's limit of {limit} is used up; it resets at {until}.",
        "no_model_allowed": "No model that is configured may answer here. Allowed in this place: {models}. "
        "An admin of the chat or the operator can change that.",
        "unpriced": "Spending is limited here, and nobody told me what {model} costs, so I did not ask it.",
        "empty_answer": "The model gave an empty answer. Please try again or put it differently.",
        "model_declined": "The model declined to answer that.",
        "answer_cut": "The answer was cut at the model's limit of length. Say “go on” for the rest.",
        "defect": "Something went wrong on my side.",
        "unsaved": "I could not save this conversation just now; your message is kept and will be tried again.",
        "command_failed": "That command failed.",
        "goal_reached": "🎯 Goal reached: {goal}",
        "goal_live": "🎯 Working on: {goal}",
        "goal_progress": "Turns: {turns} · tokens: {tokens}{cost}",
        "goal_cost": " · cost: {money}",
        "goal_live_checking": "Checking whether it is reached …",
        "goal_live_waiting": "Waiting for your answer.",
        "goal_live_verdict": "Checked after turn {turn}, not reached: {reason}",
        "goal_over_reached": "🎯 Goal {id} is reached: {goal}",
        "goal_over_paused": "⏸ Goal {id} is paused: {goal}",
        "goal_why_one_turn": "The limit of 1 turn is reached.",
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
        "goal_why_login": "The platform refused my login while I worked on it: nobody could read what I did.",
        "goal_why_blocked": "Who set it may not talk to me any more.",
        "goal_why_restart": "The gateway was restarted while I worked on it. Nothing goes on by itself.",
        "goal_why_person": "Paused by a person.",
        "goal_why_replaced": "Another goal took its place.",
        "plan_making": "Making a plan …",
        "plan_together": "Putting the results together …",
        "plan_proposed": "📋 Plan {id}: {goal}",
        "plan_offered": "📋 This sounds like work in several steps. I could do it by plan {id}: {goal}",
        "plan_redacted": "Personal data and secrets were taken out of the goal.",
        "plan_estimate": "It may take about {calls} calls of the model and {tokens} tokens{money}. "
        "Nothing is done before you confirm it.",
        "plan_money": ", about {usd}",
        "plan_who": "{who} or an admin decides.",
        "plan_by_text": "Answer with /plan confirm {id} or /plan cancel {id}.",
        "plan_after": "(after {tasks})",
        "plan_attempt": "· attempt {count}",
        "plan_cut_off": "· cut off for your message, runs again",
        "plan_is_drafting": "📋 Plan {id} is being made: {goal}",
        "plan_is_proposed": "📋 Plan {id} waits for confirmation: {goal}",
        "plan_is_running": "📋 Plan {id}, {done} of {count} done: {goal}",
        "plan_is_waiting": "❓ Plan {id} waits for your word, {done} of {count} done: {goal}",
        "plan_is_interrupted": "⏸ Plan {id} rests, {done} of {count} done: {goal}",
        "plan_is_completed": "✅ Plan {id}, {done} of {count} done: {goal}",
        "plan_is_failed": "✗ Plan {id} failed, {done} of {count} done: {goal}",
        "plan_is_cancelled": "Plan {id} was cancelled, {done} of {count} done: {goal}",
        "plan_go_on_by_text": "/plan resume {id} goes on, without what failed; /plan retry {id} tries that again; "
        "/plan cancel {id} ends it.",
        "plan_retry_by_text": "/plan retry {id} tries again what is not done.",
        "plan_done": "✅ Plan {id}: {done} of {count} tasks{money}.",
        "plan_begins": "Plan {id} is confirmed. I carry it out now and give you the results here.",
        "plan_why_empty": "The plan had no tasks.",
        "plan_why_many": "The plan had {count} tasks; {limit} are allowed.",
        "plan_why_twice": "Two tasks of the plan had one number.",
        "plan_why_need": "Task {task} of the plan needs a task that is not there.",
        "plan_why_circle": "Tasks of the plan wait for each other in a circle: {tasks}.",
        "plan_why_unreadable": "The planner's answer could not be read. Ask again, or in other words.",
        "plan_why_no_planner": "The planner could not be asked.",
        "plan_why_asks": "Failed: {tasks}. Go on without it, or try it again?",
        "plan_why_failed": "Failed: {tasks}. So what was left was not done.",
        "plan_why_off": "Plans were switched off by the operator.",
        "plan_why_retired": "The agent serves here no longer.",
        "plan_why_refused": "No turn could be begun for it here. /new begins anew; then it can go on.",
        "plan_why_blocked": "Who asked for it may not talk to me any more.",
        "plan_why_broken": "Something went wrong while I worked on it.",
        "plan_why_cut": "It was stopped while it was made.",
        "plan_why_restart": "The gateway was restarted while I worked on it. What ran then was cut off (⚠) and may be "
        "half done; nothing goes on by itself.",
        "plan_why_stopped": "Stopped by {who}. What ran then was cut off (⚠) and may be half done.",
        "plan_why_cancelled": "Cancelled by {who}.",
        "plan_why_expired": "Nobody confirmed it in time.",
        "plan_why_replaced": "Another plan took its place.",
    }
)


class Phrases(Protocol):
    """Gives the sentence for a key in a language (a BCP 47 tag such as "de"); English where it has no other."""

    def __call__(self, key: str, language: str, **values: object) -> str: ...


def english(key: str, language: str, **values: object) -> str:
    """The English sentence, whatever the language. Raises KeyError for a key that is not in `ENGLISH`."""
    return ENGLISH[key].format(**values)


def in_english(key: str, **values: object) -> str:
    """The same where no language is known."""
    return english(key, "en", **values)


# Numbers as people read them.


def counted(count: int, what: str) -> str:
    """The number with its English word: "1 file", "1,200 files"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


# Money as people read it, the same everywhere. An unknown amount is not guessed.


def money(usd: float | None, *, unpriced: bool = False) -> str:
    """`1.20 USD`; cents are not enough where calls cost less. "" where nothing is known.

    `unpriced`: calls of unknown price came to it, so it is the least that was spent.
    """
    if usd is None or (unpriced and not usd):
        return ""
    shown = f"{usd:.2f}" if usd >= 0.1 or not usd else f"{usd:.4f}"
    return f"≥ {shown} USD" if unpriced else f"{shown} USD"


# The program's commands as the reader can type them: `tieline` alone works only where it is on the PATH.

NAME = "tieline"
DEFAULT_HOME = "~/.tieline"

# In backticks or, where Markdown is not read, in quotation marks any command of ours; at the beginning of a line those
# that are told so.
_COMMAND = re.compile(
    r"(?m)(?:(?P<quote>[`“„])tieline (?=[a-z])"
    r"|^tieline (?=(?:run|console|sign-in|init|doctor|restore|pair|inbox|outbox|dead)\b))"
    r"(?P<rest>[^`“”\n]*)"
)


def program_as_typed(*, to_unpaired: bool = False) -> str:
    """Its name, its path from the working directory, or all of its path; strangers are not told where it lies."""
    script = Path(sys.executable).with_name(NAME)
    return spelled(script, found=shutil.which(NAME), here=Path.cwd(), to_unpaired=to_unpaired)


def spelled(script: Path, *, found: str | None, here: Path, to_unpaired: bool = False) -> str:
    """The command for `script` in the directory `here`; a shell takes its bare name for `found` (None: nothing)."""
    if not script.exists() or (found is not None and os.path.samefile(found, script)):
        return NAME
    if script.is_relative_to(here) and here != here.parent:  # a service is started in the root directory
        return str(script.relative_to(here))
    return NAME if to_unpaired else shlex.quote(str(script))


def home_as_typed(home: Path) -> str:
    """The option that names the data directory, with a blank before it; nothing where it is the usual one."""
    return "" if home == Path(DEFAULT_HOME).expanduser() else f" --home {shlex.quote(str(home))}"


def as_typed(text: str, options: str = "", *, to_unpaired: bool = False) -> str:
    """`text`, its commands (in backticks, or at the beginning of a line) as they can be typed here."""
    return with_program(program_as_typed(to_unpaired=to_unpaired), text, options)


def with_program(program: str, text: str, options: str = "") -> str:
    """`text`, its commands beginning with `program` and ending with `options`; one with a data directory keeps it."""

    def typed(found: re.Match[str]) -> str:
        rest = found["rest"]
        return f"{found['quote'] or ''}{program} {rest}{'' if ' --home ' in f'{rest} ' else options}"

    return _COMMAND.sub(typed, text)


def with_home(text: str, home: Path) -> str:
    """`text`, its commands naming that data directory: for whoever reads it in another place than it was written."""
    return with_program(NAME, text, home_as_typed(home))


def needs_extra(who: str, extra: str, *, module: str) -> str:
    """The sentence that an extra is missing, with the command that installs it; empty where its module is there."""
    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # the package around it is not there either
        found = None
    if found is not None:
        return ""
    return f'{who} needs the extra "{extra}", which is not installed; {how_to_install(extra)}'


def how_to_install(extra: str) -> str:
    """The command that installs an extra into the environment that this program runs in."""
    source = Path(__file__).parents[2]
    try:
        release = version(NAME)
    except PackageNotFoundError:
        release = "…"
    return command_for(
        extra,
        clone=source if (source / "pyproject.toml").exists() else None,
        python=sys.executable,
        has_pip=find_spec("pip") is not None,
        release=release,
    )


def command_for(extra: str, *, clone: Path | None, python: str, has_pip: bool, release: str) -> str:
    """The command for a clone, else for a wheel and for the source that this was installed from. Pure.

    It never names the package as a public index would: that name is not ours there.
    """
    if clone is not None:
        return f"`make setup` in {clone} installs it"
    pip = f"{shlex.quote(python)} -m pip install" if has_pip else f"uv pip install --python {shlex.quote(python)}"
    wheel = f"./{NAME}-{release}-py3-none-any.whl"
    return f"install it: {pip} '{wheel}[{extra}]' where the wheel lies, or {pip} '.[{extra}]' in the source"
