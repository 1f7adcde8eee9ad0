"""Settings of a place that have no command of their own, and the policy that an agent reads of all of them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any

from agent.core.ids import ConversationId
from agent.ledger.spending import Limit
from agent.providers.speech import VoiceRule
from agent.run.settings import PlacePolicy
from gateway.access.policy import MentionRule
from gateway.channels.keys import ConversationKey
from gateway.commands.command import Call, Setting, one_of
from gateway.commands.kept.memory import MEMORY_SETTING
from gateway.commands.place.models import LEVELS, REASONING
from gateway.config.places import (
    CONTEXT_RULES,
    LANGUAGE,
    LONGEST_INSTRUCTIONS,
    MENTION_RULES,
    MOST_MERGE_MS,
    MOST_PATTERNS,
    VOICE_RULES,
    ContextRule,
    patterns_of,
)
from gateway.config.settings import Settings
from gateway.conversations.place_settings import PlaceSettings, PlaceView, account_of
from gateway.phrases.catalogue import UsageError

Patterns = tuple[str, ...]
NEAR = 3
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """The names that lists of a place may hold, as they are now."""

    tools: Callable[[], Collection[str]]
    skills: Callable[[], Collection[str]]
    models: Callable[[], Collection[str]]  # `provider/model`


# --- readers of stored texts (`Setting.parse`) and of what people write (`Setting.text_for`) -----------------


def _whole_number(text: str) -> int:
    number = int(text)
    if not 0 <= number <= MOST_MERGE_MS:
        raise ValueError(f"{number} is not 0 to {MOST_MERGE_MS}")
    return number


def _usd(text: str) -> float:
    amount = float(text)
    if not (isfinite(amount) and amount >= 0):
        raise ValueError(f"{text!r} is no amount")
    return amount


def _language(text: str) -> str:
    if text and not LANGUAGE.fullmatch(text):
        raise ValueError(f"{text!r} is no language")
    return text


def _instructions(text: str) -> str:
    if len(text) > LONGEST_INSTRUCTIONS:
        raise ValueError(f"{len(text)} characters are more than {LONGEST_INSTRUCTIONS}")
    return text


def _written(parse: Callable[[str], Any], mistake: str, **values: object) -> Callable[[Call[Any], str], Any]:
    """The text that somebody wrote, if it has a value (`Setting.text_for`)."""

    async def text_for(call: Call[Any], written: str) -> str:
        text = written.strip()
        try:
            parse(text)
        except ValueError:
            raise UsageError(mistake, value=text[:40], **values) from None
        return text

    return text_for


def _names(kind: str) -> Callable[[Call[Any], str], Any]:
    """A list whose plain names must be known; patterns may stand for what comes later."""

    async def text_for(call: Call[Any], written: str) -> str:
        try:
            wanted = patterns_of(written)
        except ValueError:
            raise UsageError("setting_list_unreadable", most=MOST_PATTERNS) from None
        known = {name.casefold(): name for name in getattr(call.deps.names, kind)()}
        for name in wanted:
            if _WILD.isdisjoint(name) and name.casefold() not in known and name != "none":
                near = get_close_matches(name, known.values(), n=NEAR) or sorted(known.values())[:NEAR]
                raise UsageError("setting_name_unknown", value=name[:60], near=", ".join(near) or "–")
        return ", ".join(known.get(name.casefold(), name) for name in wanted)

    return text_for


def _shown_list(value: Patterns) -> str:
    return ", ".join(f"`{name}`" for name in value) or "–"


def _mention_by_default(settings: Settings, place: ConversationKey) -> MentionRule:
    return "replied" if settings.access.require_mention else "always"


def _list_of(key: str, kind: str, *, usage: str) -> Setting[Patterns]:
    """A setting that narrows names of this kind to a list of patterns."""
    return Setting(
        key=key,
        command=f"settings {key}",
        narrows=True,
        default=lambda settings, place: (),
        parse=patterns_of,
        text_for=_names(kind),
        usage=usage,
        show=_shown_list,
    )


def _amount(key: str, *, usage: str) -> Setting[float | None]:
    """A setting that limits what may be spent, in USD."""
    return Setting(
        key=key,
        command=f"settings {key}",
        narrows=True,
        default=lambda settings, place: None,
        parse=_usd,
        text_for=_written(_usd, "setting_no_amount"),
        usage=usage,
        show=lambda value: f"{value:.2f} USD" if value is not None else "–",
    )


# --- the settings ---------------------------------------------------------------------------

MENTION: Setting[MentionRule] = Setting(
    key="mention",
    command="settings mention",
    default=_mention_by_default,
    choices=MENTION_RULES,
    parse=one_of(MENTION_RULES),
)
CONTEXT: Setting[ContextRule] = Setting(
    key="context",
    command="settings context",
    default=lambda settings, place: "off",
    choices=CONTEXT_RULES,
    parse=one_of(CONTEXT_RULES),
)
INSTRUCTIONS: Setting[str] = Setting(
    key="instructions",
    command="settings instructions",
    default=lambda settings, place: "",
    parse=_instructions,
    text_for=_written(_instructions, "setting_text_too_long", most=LONGEST_INSTRUCTIONS),
    usage="a text",
    adds=True,
    takes_text=True,
    show=lambda value: f"“{value}”" if value else "–",
)
MODELS = _list_of("models", "models", usage="main/*, local/llama3")
TOOLS = _list_of("tools", "tools", usage="read, web_*, … | none")
DENIED_TOOLS = _list_of("denied_tools", "tools", usage="shell, mcp__*, …")
SKILLS = _list_of("skills", "skills", usage="name, … | none")
LANGUAGE_SETTING: Setting[str] = Setting(
    key="language",
    command="settings language",
    default=lambda settings, place: "",
    parse=_language,
    text_for=_written(_language, "setting_no_language"),
    usage="de, en, …",
    show=lambda value: value or "–",
)
MERGE_MS: Setting[int] = Setting(
    key="merge_ms",
    command="settings merge_ms",
    default=lambda settings, place: settings.queue.merge_ms,
    parse=_whole_number,
    text_for=_written(_whole_number, "setting_no_number", least=0, most=MOST_MERGE_MS),
    usage="0 … 60000",
)
VOICE: Setting[VoiceRule] = Setting(
    key="voice",
    command="settings voice",
    default=lambda settings, place: "reply" if settings.speech.provider else "off",
    choices=VOICE_RULES,
    parse=one_of(VOICE_RULES),
)
DAILY_USD = _amount("daily_usd", usage="0.50")
MONTHLY_USD = _amount("monthly_usd", usage="10")
OF_PLACES: tuple[Setting[Any], ...] = (
    MENTION,
    CONTEXT,
    INSTRUCTIONS,
    MODELS,
    TOOLS,
    DENIED_TOOLS,
    SKILLS,
    LANGUAGE_SETTING,
    MERGE_MS,
    VOICE,
    DAILY_USD,
    MONTHLY_USD,
)


# --- what an agent and the ledger read -----------------------------------------------------------

NO_POLICY = PlacePolicy()


def policy_of(settings: PlaceSettings, conversation: ConversationId) -> PlacePolicy:
    """The rules of the place for its next turn. Each list that was set for it or around it must be met."""
    if settings.is_plain:
        return NO_POLICY
    key, view = ConversationKey.parse(conversation), settings.view()
    level = next((one.value for one in view.layers(REASONING, key)), None)
    memory = all(one.value for one in view.layers(MEMORY_SETTING, key))
    reads = memory and next((one.value for one in view.layers(CONTEXT, key)), "off") == "window"
    return PlacePolicy(
        instructions=_instructions_in(view, key),
        language=next((one.value for one in view.layers(LANGUAGE_SETTING, key)), ""),
        models=_lists(view, MODELS, key),
        reasoning=next((known for known in LEVELS if known == level), None),
        tools=_lists(view, TOOLS, key),
        denied_tools=tuple(name for names in _lists(view, DENIED_TOOLS, key) for name in names),
        skills=_lists(view, SKILLS, key),
        memory=memory,
        reads_along=reads,
        speaks_unasked=reads and next((one.value for one in view.layers(MENTION, key)), "") == "ambient",
        voice=next((one.value for one in view.layers(VOICE, key)), None),
    )


def reads_along(settings: PlaceSettings, key: ConversationKey) -> bool:
    """Whether what does not address the bot is kept there for a while: not where nothing is to be remembered."""
    if settings.is_plain or settings.get(CONTEXT, key) != "window":
        return False
    return all(one.value for one in settings.layers(MEMORY_SETTING, key))


def _instructions_in(view: PlaceView, key: ConversationKey) -> str:
    """The instructions of the file, the widest first, which nobody in a chat takes away; then the nearest chosen."""
    layers = tuple(view.layers(INSTRUCTIONS, key))
    chosen = next((one.value for one in layers if one.chosen_in is not None), "")
    of_file = (one.value for one in reversed(layers) if one.section)
    return "\n\n".join(text for text in (*of_file, chosen) if text)


def models_allowed(settings: PlaceSettings, key: ConversationKey) -> tuple[Patterns, ...]:
    """Lists of patterns of the models that may answer there; none: every one."""
    return () if settings.is_plain else _lists(settings.view(), MODELS, key)


def _lists(view: PlaceView, setting: Setting[Patterns], key: ConversationKey) -> tuple[Patterns, ...]:
    return tuple(dict.fromkeys(one.value for one in view.layers(setting, key)))


def limits_of(settings: PlaceSettings, payer: str, is_own: bool) -> Sequence[Limit]:
    """The limits that were set for exactly this payer: a conversation, what holds it, or an account (`telegram`).

    `is_own`: it is the conversation itself, for which a section for all places counts too.
    """
    if settings.is_plain:
        return ()
    key = ConversationKey.parse(payer) if ":" in payer else account_of(ConversationKey(payer, ""))
    found: list[Limit] = []
    for setting, per in ((DAILY_USD, "day"), (MONTHLY_USD, "month")):
        amounts = [one.value for one in settings.at(setting, key)]
        amounts += [one.value for one in settings.everywhere(setting)] if is_own else []
        if known := [amount for amount in amounts if amount is not None]:
            found.append(Limit(scope="channel", name=payer, per="day" if per == "day" else "month", usd=min(known)))
    return found
