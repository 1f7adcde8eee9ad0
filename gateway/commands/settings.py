"""/settings: what is set in this chat, where it is from, and how it changes, as the declarations have it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.commands.command import AnyCommand, Call, Command, Reply, Setting, source_of

DEFAULT = ("default", "standard")  # takes a choice back
Declared = Mapping[str, tuple[Setting[Any], AnyCommand]]  # by key, with the command whose feature it belongs to


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsCommandDeps:
    """The families that declare settings."""

    switched_off: Callable[[], Collection[str]]  # features, as `Command.feature` names them
    families: Callable[[type], object]  # what the commands of a family get, by its type


def settings_command(listed: Iterable[AnyCommand]) -> Command[SettingsCommandDeps]:
    """The command that shows and changes all settings that these commands declare.

    A setting whose own command waits its turn is changed in its turn here, too.
    """
    declared = {setting.key: (setting, command) for command in listed for setting in command.settings}
    return Command(
        name="settings",
        deps=SettingsCommandDeps,
        run=partial(settings, declared),
        group="more",
        usage="[key [value | default]]",
        immediate=True,
        queued=frozenset(key for key, (_, command) in declared.items() if not command.immediate),
        suggest=partial(suggested, declared),
        examples="settings_examples",
    )


async def settings(declared: Declared, call: Call[SettingsCommandDeps]) -> Reply:
    """Lists them; with a key tells of one; with a value, or `default`, changes it."""
    phrase, language, shown = call.phrase, call.incoming.language, _shown(declared, call)
    key, _, written = call.args.partition(" ")
    if not key:
        lines = [phrase("settings_title", language), "", *(_line(call, one) for one in shown.values())]
        return Reply(text="\n".join([*lines, "", phrase("settings_hint", language)]), private=True)
    setting = shown.get(key.lower().replace("-", "_"))
    if setting is None:
        return Reply(text=phrase("setting_unknown", language, setting=key[:40], known=", ".join(shown)), private=True)
    written = written.strip()
    if not written:
        return Reply(text="\n".join(_told(call, setting)), private=True)
    family = call.deps.families(declared[setting.key][1].deps)
    return await setting.change(call.on(family), None if written.lower() in DEFAULT else written)


async def suggested(declared: Declared, call: Call[SettingsCommandDeps]) -> Sequence[str]:
    """The keys, and the values of those that have a list of them."""
    found: list[str] = []
    for setting in _shown(declared, call).values():
        values = (*setting.choices, DEFAULT[0]) if setting.may_be_changed(call) else ()
        found += [setting.key, *(f"{setting.key} {value}" for value in values)]
    return found


def _shown(declared: Declared, call: Call[SettingsCommandDeps]) -> Mapping[str, Setting[Any]]:
    """Without those of a feature that is switched off."""
    off = call.deps.switched_off()
    return {key: setting for key, (setting, command) in declared.items() if command.feature not in off}


def _line(call: Call[SettingsCommandDeps], setting: Setting[Any]) -> str:
    phrase, language = call.phrase, call.incoming.language
    found = call.settings.find(setting, call.key)
    values = {
        "setting": setting.key,
        "value": setting.show(found.value),
        "source": source_of(call, found),
        "about": phrase(f"setting.{setting.key}", language),
        "name": setting.command,
    }
    return phrase("setting_line", language, **values)


def _told(call: Call[SettingsCommandDeps], setting: Setting[Any]) -> Sequence[str]:
    """One of them, with its values and who may change it."""
    phrase, language = call.phrase, call.incoming.language
    lines = [_line(call, setting), "", phrase("setting_values", language, values=setting.written_as)]
    if not setting.inherits:
        lines.append(phrase("setting_alone", language))
    if not setting.may_be_changed(call):
        lines.append(phrase("help_admins", language))
    return lines
