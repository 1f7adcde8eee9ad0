"""/settings: what is set in this chat, where it is from, and how it changes, as the declarations have it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from agent.core.ids import PersonId
from agent.core.outbox import Button, Buttons
from agent.storage.timestamps import from_timestamp
from gateway.access.policy import Role
from gateway.channels.adapter import Health
from gateway.channels.keys import ConversationKey
from gateway.commands.command import (
    MOST_ACTION,
    PRESS,
    AnyCommand,
    Call,
    Command,
    Reply,
    Setting,
    denied,
    nothing_else,
    refused,
    source_of,
)
from gateway.commands.place.fields import CONTEXT, MENTION, OF_PLACES, VOICE, KnownNames, reads_along
from gateway.conversations.place_settings import account_of
from gateway.scheduler.service import ScheduleService
from gateway.scheduler.triggers.zones import zone_named
from gateway.storage.settings_rows import Change

DEFAULT = ("default", "standard")  # takes a choice back
RESET, HISTORY, ALL, ACCOUNT_WORD = "reset", "history", "all", "account"
MOST_CHANGES = 10
LONGEST_VALUE = 80  # characters, in the list
IN_A_ROW = 3  # buttons
Declared = Mapping[str, tuple[Setting[Any], AnyCommand | None]]  # by key, with the command whose feature it belongs to


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsCommandDeps:
    """The families that declare settings, and what their values may name."""

    switched_off: Callable[[], Collection[str]]  # features, as `Command.feature` names them
    families: Callable[[type], object]  # what the commands of a family get, by its type
    names: KnownNames
    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    schedules: ScheduleService  # whose person's time zone is whose
    health: Callable[[], Mapping[str, Health]]  # of the accounts, with what their platforms withhold


def settings_command(listed: Iterable[AnyCommand]) -> Command[SettingsCommandDeps]:
    """The command that shows and changes all settings of a place: those that these commands declare, and its own.

    A setting whose own command waits its turn is changed in its turn here, too.
    """
    declared: dict[str, tuple[Setting[Any], AnyCommand | None]] = {
        setting.key: (setting, None) for setting in OF_PLACES
    }
    declared |= {setting.key: (setting, command) for command in listed for setting in command.settings}
    in_turn = [key for key, (_, command) in declared.items() if command is not None and not command.immediate]
    return Command(
        name="settings",
        deps=SettingsCommandDeps,
        run=partial(settings, declared),
        group="more",
        usage="[key [value | default] | reset key | history [key]]",
        immediate=True,
        queued=frozenset((RESET, ALL, *(name for key in in_turn for name in (key, key.replace("_", "-"))))),
        suggest=partial(suggested, declared),
        examples="settings_examples",
        settings=OF_PLACES,
    )


async def settings(declared: Declared, call: Call[SettingsCommandDeps]) -> Reply:
    """Lists them; with a key tells of one; with a value changes it, `default` or `reset` takes the choice back.

    `account` as the last word means every chat of this account, and is for admins of the whole bot.
    """
    phrase, language, shown = call.phrase, call.incoming.language, _shown(declared, call)
    key, written = (*call.args.split(maxsplit=1), "", "")[:2]
    written = written.strip()
    match key.lower():
        case "":
            lines = [phrase("settings_title", language), "", *(_line(call, one) for one in shown.values())]
            text = "\n".join([*lines, "", phrase("settings_hint", language)])
            return Reply(text=text, buttons=_buttons(f"/settings {name}" for name in shown), private=True)
        case word if word == HISTORY:
            return await _history(call, shown, written)
        case word if word == RESET:
            key, written = written, DEFAULT[0]
    if key.lower() == ALL and written == DEFAULT[0]:
        return await _reset_all(declared, call, shown)
    setting = shown.get(key.lower().replace("-", "_"))
    if setting is None:
        return _unknown(call, key, shown)
    if not written:
        return _told(declared, call, setting)
    words = written.split()
    if setting.takes_text:  # whose last word may be any
        if words[0].lower() == ACCOUNT_WORD and len(words) > 1:
            return await _for_account(declared, call, setting, written.split(maxsplit=1)[1])
    elif words[-1].lower() == ACCOUNT_WORD and len(words) > 1:
        return await _for_account(declared, call, setting, " ".join(words[:-1]))
    return await _change(declared, call, setting, written)


async def _change(declared: Declared, call: Call[SettingsCommandDeps], setting: Setting[Any], written: str) -> Reply:
    command = declared[setting.key][1]
    if (barred := _barred(declared, call, setting)) is not None:
        return barred
    family = call.deps.families(command.deps) if command is not None else call.deps
    reply = await setting.change(call.on(family), None if written.lower() in DEFAULT else written)
    return replace(reply, text="\n".join([reply.text, *_withheld(call, setting)]))


def _barred(declared: Declared, call: Call[SettingsCommandDeps], setting: Setting[Any]) -> Reply | None:
    """The refusal where a role of the person denies the setting's own command; there is no way round by this one."""
    command = declared[setting.key][1]
    ruling = command.ruling(call.role, call.roles, in_group=call.in_group) if command is not None else None
    if command is None or ruling is None or ruling.gate != "deny" or not ruling.by_role:
        return None
    return denied(command, ruling, call.incoming, call.role, call.phrase)


def _withheld(call: Call[SettingsCommandDeps], setting: Setting[Any]) -> Sequence[str]:
    """Reasons why the value cannot hold here: it needs another setting, a voice, or what the platform keeps back."""
    language, needs = call.incoming.language, []
    if (
        setting is MENTION
        and call.settings.get(MENTION, call.key) == "ambient"
        and not reads_along(call.settings, call.key)
    ):
        needs.append(call.phrase("ambient_needs_context", language))
    if setting is VOICE and not call.settings.configuration.speech.provider:
        mute = call.settings.get(VOICE, call.key) == "off"
        return () if mute else [call.phrase("setting_no_speech", call.incoming.language)]
    account = call.deps.health().get(call.key.channel_type)
    wanted = {MENTION.key: ("always", "ambient"), CONTEXT.key: ("window",)}.get(setting.key, ())
    if account is None or call.settings.get(setting, call.key) not in wanted:
        return needs
    kept = [one for one in account.withheld if "unaddressed messages" in one.affects]
    return [*needs, *(call.phrase("setting_withheld", language, finding=one.finding, fix=one.fix) for one in kept)]


async def _for_account(
    declared: Declared, call: Call[SettingsCommandDeps], setting: Setting[Any], written: str
) -> Reply:
    """Every chat of the account in which nothing else was chosen."""
    if call.deps.role_everywhere(call.incoming.person) < Role.ADMIN:
        return refused(call, ACCOUNT_WORD)
    if not setting.inherits:
        text = call.phrase("setting_alone", call.incoming.language)
        return Reply(text=text, private=True)
    if setting.change_by is not None and not setting.choices:  # its own command knows the word
        word = RESET if written.lower() in DEFAULT else written
        return await _change(declared, call, setting, f"{word} {ACCOUNT_WORD}")
    # What such a command does beyond is for the chat it is given in.
    stored = replace(setting, change_by=None, apply=nothing_else)
    return await _change(declared, replace(call, key=account_of(call.key)), stored, written)


async def _reset_all(declared: Declared, call: Call[SettingsCommandDeps], shown: Mapping[str, Setting[Any]]) -> Reply:
    """Nothing is chosen here any more, as far as the person may change it."""
    phrase, language = call.phrase, call.incoming.language
    done = []
    for setting in shown.values():
        if call.settings.find(setting, call.key).chosen_in == call.key and setting.may_be_changed(call):
            await _change(declared, call, setting, DEFAULT[0])
            if call.settings.find(setting, call.key).chosen_in != call.key:
                done.append(f"`{setting.key}`")
    key = "settings_reset" if done else "settings_nothing_set"
    return Reply(text=phrase(key, language, settings=", ".join(done)), private=not done)


def _unknown(call: Call[SettingsCommandDeps], key: str, shown: Mapping[str, Setting[Any]]) -> Reply:
    """The nearest ones come first."""
    near = get_close_matches(key.lower().replace("-", "_"), shown, n=3, cutoff=0.5)
    name = "setting_unknown_near" if near else "setting_unknown"
    known = ", ".join(f"`{one}`" for one in near or shown)
    text = call.phrase(name, call.incoming.language, setting=key[:40], known=known)
    return Reply(text=text, buttons=_buttons(f"/settings {one}" for one in near), private=True)


async def _history(call: Call[SettingsCommandDeps], shown: Mapping[str, Setting[Any]], key: str) -> Reply:
    """The last changes here and around, the newest first: when, by whom, to what."""
    phrase, language = call.phrase, call.incoming.language
    name = key.lower().replace("-", "_")
    if name and name not in shown:
        return _unknown(call, key, shown)
    changes = await call.settings.history(call.key, name, MOST_CHANGES)
    if not changes:
        return Reply(text=phrase("settings_never_changed", language), private=True)
    zone = await call.deps.schedules.zone_of(call.incoming.person, call.incoming.zone)
    here = zone_named(zone.name)

    def line(change: Change) -> str:
        setting = shown.get(change.key)
        value = phrase("settings_back", language) if change.value is None else change.value
        if setting is not None and change.value is not None:
            value = setting.show(setting.parse(change.value))
        place = ConversationKey.parse(change.conversation)
        where = "" if place == call.key else f" ({place.channel_type if place == account_of(call.key) else place})"
        return phrase(
            "settings_change",
            language,
            when=f"{from_timestamp(change.at).astimezone(here):%Y-%m-%d %H:%M %Z}",
            person=f"`{change.by}`",
            setting=f"`{change.key}`",
            value=_short(value) + where,
        )

    title = phrase("settings_history_title", language)
    return Reply(text="\n".join([title, "", *map(line, changes)]), private=True)


async def suggested(declared: Declared, call: Call[SettingsCommandDeps]) -> Sequence[str]:
    """The keys, and then the values of those that have a list of them."""
    shown = _shown(declared, call)
    values = [
        f"{setting.key} {value}"
        for setting in shown.values()
        if setting.may_be_changed(call) and _barred(declared, call, setting) is None
        for value in (*setting.choices, DEFAULT[0])
    ]
    return (*shown, HISTORY, RESET, *values)


def _shown(declared: Declared, call: Call[SettingsCommandDeps]) -> Mapping[str, Setting[Any]]:
    """Without those of a feature that is switched off."""
    off = call.deps.switched_off()
    return {
        key: setting for key, (setting, command) in declared.items() if command is None or command.feature not in off
    }


def _line(call: Call[SettingsCommandDeps], setting: Setting[Any]) -> str:
    phrase, language = call.phrase, call.incoming.language
    found = call.settings.find(setting, call.key)
    return phrase(
        "setting_line",
        language,
        setting=setting.key,
        value=_short(setting.show(found.value)),
        source=source_of(call, found),
        about=phrase(f"setting.{setting.key}", language),
    )


def _told(declared: Declared, call: Call[SettingsCommandDeps], setting: Setting[Any]) -> Reply:
    """One of them, with its values, all that was set around, and who may change it."""
    phrase, language = call.phrase, call.incoming.language
    barred = _barred(declared, call, setting)
    may = setting.may_be_changed(call) and barred is None
    found = call.settings.find(setting, call.key)
    about = phrase(f"setting.{setting.key}", language)
    values = {"setting": setting.key, "about": about, "value": setting.show(found.value)}
    lines = [phrase("setting_told", language, source=source_of(call, found), **values)]
    for other in call.settings.layers(setting, call.key)[1:]:
        key = "setting_holds_too" if setting.holds_too(other) else "setting_behind"
        lines.append(phrase(key, language, value=setting.show(other.value), source=source_of(call, other)))
    written = setting.command if setting.choices else f"settings {setting.key} …"
    lines += ["", phrase("setting_values", language, values=setting.written_as, name=written)]
    lines += _withheld(call, setting)
    if not setting.inherits:
        lines.append(phrase("setting_alone", language))
    if not may:
        lines.append(barred.text if barred is not None else phrase("help_admins", language))
    may_go_back = bool(setting.choices) or found.chosen_in == call.key
    options = (*setting.choices, DEFAULT[0]) if may and may_go_back else ()
    buttons = _buttons(f"/settings {setting.key} {value}" for value in options)
    return Reply(text="\n".join(lines), buttons=buttons, private=True)


def _buttons(lines: Iterable[str]) -> Buttons:
    """A button for each line that fits into one: it gives the command, and shows its last word."""
    made = [Button(label=line.split()[-1], action=f"{PRESS}{line}") for line in lines]
    fitting = [button for button in made if len(button.action.encode()) <= MOST_ACTION]
    return tuple(tuple(fitting[first : first + IN_A_ROW]) for first in range(0, len(fitting), IN_A_ROW))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
