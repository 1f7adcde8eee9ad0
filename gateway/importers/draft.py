"""The configuration file with another program's accounts, people and models. Its comments stay, its values as well.

Secrets go into files below `secrets/`. They stand in no line of the report.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.config.document import ConfigFile, TablePath, added, changed, entries_at, values_at
from gateway.config.errors import ConfigError
from gateway.config.read import PREFIX, read
from gateway.config.settings import Settings
from gateway.importers.moved import Account, Left, Model, Secret, shown

REFERENCES = ("env:", "file:")
FOLDER = "file:secrets/"
_UNFIT = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(slots=True)
class Draft:
    """`text` is the file with all that was added so far, `secrets` the values that it refers to, by file name.

    `differing` are places where the file says something else: it is kept there, whatever becomes of the import.
    """

    file: ConfigFile
    home: Path
    environ: Mapping[str, str]
    text: str = ""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    new: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    differing: list[Left] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = self.file.text

    # -- sections

    def account(self, account: Account) -> None:
        """A section of `[[channels]]`."""
        what = f"account {account.type}{'' if account.name == 'default' else f' {shown(account.name)}'}"
        fields: dict[str, object] = {"type": account.type}
        if account.name != "default":
            fields["account"] = account.name
        there = next((one for one in entries_at(self.text, ("channels",)) if _is_account(one, account)), None)
        if there is not None:
            self._compare(what, there, {}, account.secrets)
            return
        secrets = dict(self.secrets)
        middle = "" if account.name == "default" else f"-{account.name}"
        for key, secret in account.secrets.items():
            fields[key] = self._reference(f"{account.type}{middle}-{key}", secret)
        if not self._is_sound(what, "channels", fields):
            self.secrets = secrets
            return
        self.text = added(self.text, ("channels",), fields)
        self.new.append(f"{what} → [[channels]], {self._told(fields)}")

    def model(self, model: Model) -> None:
        """A section of `[[llm.providers]]`."""
        path, what = ("llm", "providers"), f"model {shown(f'{model.name}/{model.model}')}"
        fields: dict[str, object] = {"name": model.name, "type": model.type, "model": model.model}
        if model.base_url:
            fields["base_url"] = model.base_url
        entries = entries_at(self.text, path)
        same = ("type", "model", "base_url")
        alike = [one for one in entries if all(one.get(key) == fields.get(key) for key in same)]
        alike += [one for one in entries if str(one.get("name")).lower() == model.name.lower()]
        there = alike[0] if alike else None
        secrets = {"api_key": model.key} if model.key is not None else {}
        if there is not None:
            wanted = {key: value for key, value in fields.items() if key != "name"}
            self._compare(what, there, wanted, secrets if "api_keys" not in there else {})
            return
        kept = dict(self.secrets)
        if model.key is not None:
            fields["api_key"] = self._reference(f"llm-{model.name}", model.key)
        if not self._is_sound(what, "llm", {"providers": [fields]}):
            self.secrets = kept
            return
        self.text = added(self.text, path, fields)
        self.new.append(f"{what} → [[llm.providers]], {self._told(fields)}")

    def listed(self, key: str, names: Iterable[str]) -> None:
        """More names for a list of `[access]`."""
        there = values_at(self.text, ("access",)).get(key)
        before = [str(one) for one in there] if isinstance(there, list) else []
        fresh = [name for name in names if name not in before]
        self.same += [f"[access] {key}: {name}" for name in names if name in before]
        if fresh and self._is_sound(f"[access] {key}", "access", {key: fresh}):
            self.text = changed(self.text, ("access",), {key: [*before, *fresh]})
            self.new += [f"{name} → [access] {key}" for name in fresh]

    def value(self, path: TablePath, key: str, value: str) -> None:
        """A single value, unless the file has another one."""
        there, name = values_at(self.text, path).get(key), f"[{'.'.join(path)}] {key}"
        if there is None:
            self.text = changed(self.text, path, {key: value})
            self.new.append(f'{name} = "{value}"')
        elif there == value:
            self.same.append(f'{name} = "{value}"')
        else:
            self.differing.append(Left(name, f'it is "{shown(there)}" here, and would become "{value}"'))

    # -- checks

    def settings(self) -> Settings:
        """The settings of the whole text, as a gateway that starts in this environment has them. Raises ConfigError."""
        return self._settings(tomllib.loads(self.text), self.environ)

    def without_effect(self) -> Sequence[Left]:
        """Sections that were added to, and of which a variable of the environment says something else."""
        before, found = tomllib.loads(self.file.text), []
        for name in sorted(self.environ):
            path = tuple(name.removeprefix(PREFIX).lower().split("__"))
            if name.startswith(PREFIX) and _value_at(before, path) != _value_at(tomllib.loads(self.text), path):
                why = f"{name} is set in the environment and counts before what is added to the file"
                found.append(Left(f"[{path[0]}] {' '.join(path[1:])}".strip(), why))
        return found

    def _is_sound(self, what: str, section: str, entry: Mapping[str, object]) -> bool:
        """Whether the section could be read at the next start; else it is left out, with the reason."""
        if _has_reference(entry, FOLDER):
            self.left.append(Left(what, "one of its values would be read as a name of a file or a variable"))
            return False
        try:
            # Without the environment's own values: they say nothing about this section.
            environ = {name: value for name, value in self.environ.items() if not name.startswith(PREFIX)}
            self._settings({section: [entry] if section == "channels" else entry}, environ)
        except ConfigError as error:
            self.left.append(Left(what, "; ".join(error.mistakes)))
            return False
        return True

    def _settings(self, data: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        filled = {name: self._filled(value) for name, value in data.items()}
        return read(filled, environ, home=self.home, source=self.file.path)

    def _filled(self, value: Any) -> Any:
        """The value with the new secrets in place of the names of their files, which are not there yet."""
        match value:
            case dict():
                return {key: self._filled(inner) for key, inner in value.items()}
            case list():
                return [self._filled(inner) for inner in value]
            case str() if value.startswith(FOLDER):
                return self.secrets.get(value.removeprefix(FOLDER), value)
            case _:
                return value

    # -- secrets

    def _reference(self, wanted: str, secret: Secret) -> str:
        if secret.value is None:
            return f"env:{secret.variable}"
        value, first = secret.value.get_secret_value(), _UNFIT.sub("-", wanted).strip("-.").replace("_", "-")
        number, name = 2, first
        while name in self.secrets or (self.home / "secrets" / name).exists() or f'{FOLDER}{name}"' in self.text:
            if self._stored(f"{FOLDER}{name}") == value:
                return f"{FOLDER}{name}"
            name, number = f"{first}-{number}", number + 1
        self.secrets[name] = value
        return f"{FOLDER}{name}"

    def _compare(
        self, what: str, there: Mapping[str, object], wanted: Mapping[str, object], secrets: Mapping[str, Secret]
    ) -> None:
        """Note whether the section that is here says the same."""
        keys = [key for key, value in wanted.items() if there.get(key) != value]
        for key, secret in secrets.items():
            value = secret.value.get_secret_value() if secret.value is not None else self.environ.get(secret.variable)
            if self._stored(there.get(key)) != value:
                keys.append(key)
        if not keys:
            self.same.append(what)
            return
        said = [
            f"{key} is {shown(there.get(key, 'not set'))} here, not {shown(wanted[key])}"
            if key in wanted
            else f"its {key} is another one here"
            for key in keys
        ]
        self.differing.append(Left(what, "; ".join(said)))

    def _stored(self, value: object) -> str | None:
        """The secret that a value of the file holds or names."""
        if not isinstance(value, str):
            return None
        if value.startswith("env:"):
            return self.environ.get(value.removeprefix("env:"))
        if not value.startswith("file:"):
            return value
        if (fresh := self.secrets.get(value.removeprefix(FOLDER))) is not None:
            return fresh
        with suppress(OSError, UnicodeDecodeError):
            return (self.home / Path(value.removeprefix("file:")).expanduser()).read_text().strip()
        return None

    def _told(self, fields: Mapping[str, object]) -> str:
        """Where its secret is."""
        named = [str(value).removeprefix("file:") for value in fields.values() if str(value).startswith(REFERENCES)]
        return f"its secret: {', '.join(named)}" if named else "without a key"


def _value_at(data: object, path: Sequence[str]) -> object:
    """The value of a key; None where there is none."""
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _is_account(entry: Mapping[str, object], account: Account) -> bool:
    return entry.get("type") == account.type and entry.get("account", "default") == account.name


def _has_reference(value: object, own: str) -> bool:
    """Whether a text in it would be read as the name of a file or variable that is not the importer's own."""
    match value:
        case dict():
            return any(_has_reference(inner, own) for key, inner in value.items() if key not in _SECRET_KEYS)
        case list():
            return any(_has_reference(inner, own) for inner in value)
        case str():
            return value.startswith(REFERENCES)
        case _:
            return False


_SECRET_KEYS = frozenset({"token", "bot_token", "app_token", "signing_secret", "api_key"})  # the importer writes them


def lines_of(found: Sequence[Left]) -> Sequence[str]:
    """Each as one line."""
    return [f"{one.what}: {one.why}" for one in found]
