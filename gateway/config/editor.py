"""Changes of the configuration by a running gateway: proposed, checked whole as the file is read, then written.

Secrets that are typed go into files of their own, below `secrets/`. They stand in no proposal, difference or message.
"""

import hmac
import re
import secrets as random
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import anyio
import tomlkit
from pydantic import SecretStr

from gateway.channels.entry_points import installed, loaded
from gateway.config.document import (
    CannotChange,
    ConfigFile,
    added,
    changed,
    difference,
    digest_of,
    entries_at,
    read_file,
    removed,
    values_at,
    why_not_writable,
    write_file,
    write_secrets,
)
from gateway.config.errors import ConfigError
from gateway.config.forms import REFERENCES, Key, TableForm, form_of_model, forms, shown
from gateway.config.live import Live
from gateway.config.masks import (
    MARK,
    Masked,
    Masking,
    SecretKeys,
    as_declared,
    restored,
    secret_arguments,
    still_there,
    with_ends_of,
    with_lines,
)
from gateway.config.read import PREFIX, read, resolved

HIDDEN = "(secret)"
SECRETS = "file:secrets/"
ARGUMENTS = "args"  # of the program of an MCP server
_UNFIT = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A wanted change. `index` is the entry of a list; None: a table, or a new entry. Keys that are None go.

    `secrets` are the values that were typed, by the name of their file below `secrets/`; `fields` refer to them.
    """

    form: TableForm
    index: int | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_removal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An edit of the file as it was read, and what is wrong with the result.

    `mistakes` are by key of the form, `elsewhere` are the others. `lines` is the difference, without secrets.
    """

    edit: Edit
    file: ConfigFile
    text: str
    mistakes: Mapping[str, str]
    elsewhere: Sequence[str]
    lines: Sequence[str]

    @property
    def is_sound(self) -> bool:
        return not self.mistakes and not self.elsewhere

    @property
    def changes_something(self) -> bool:
        return bool(self.lines or self.edit.secrets)

    @property
    def digest(self) -> str:
        return digest_of(self.text)


class Editor:
    """Proposes and saves. `redact` takes secrets out of a text, `remember` is told new ones for that."""

    def __init__(self, live: Live, redact: Callable[[str], str], remember: Callable[[str], None]) -> None:
        self._live = live
        self._redact = redact
        self._remember = remember
        self._saving = anyio.Lock()
        self._key = random.token_bytes(16)  # of marks in place of secrets: nobody finds a secret by its mark

    @cached_property
    def forms(self) -> Mapping[str, TableForm]:
        """All tables but the accounts; slow the first time."""
        return forms()

    @property
    def accounts(self) -> TableForm:
        """The list of accounts, whatever their platform."""
        return TableForm(path=("channels",), keys=(), is_list=True, names=("type", "account"))

    def channel_form(self, kind: str) -> TableForm:
        """The form of an account. Raises LookupError for a platform that is not installed or cannot be loaded."""
        model = loaded(installed()).get(kind)
        if model is None:
            raise LookupError(f"There is no platform {kind!r} here.")
        asked = [one.key for one in model.init_asks]
        form = form_of_model(("channels",), model, kind)
        ordered = sorted(form.keys, key=lambda key: asked.index(key.name) if key.name in asked else len(asked))
        return replace(form, keys=tuple(ordered))

    @property
    def path(self) -> Path:
        return self._live.file

    def file(self) -> ConfigFile:
        """Raises CannotChange."""
        return read_file(self.path)

    def entry_form(self, name: str, entry: Mapping[str, object]) -> TableForm:
        """The form of an entry of the list `name`. Raises LookupError."""
        if name == "channels":
            return self.channel_form(str(entry.get("type", "")))
        return self.forms[name]

    def values(self, file: ConfigFile, form: TableForm, index: int | None) -> Mapping[str, object]:
        """The values of the file; none for a new entry, and of a file that is no TOML."""
        if form.is_list and index is None:
            return {}
        try:
            return values_at(file.text, form.path, index)
        except tomllib.TOMLDecodeError:
            return {}

    def in_force(self, form: TableForm, key: str) -> object:
        """The value of now, of a table that is no list."""
        found: object = self._live.settings
        for step in (*form.path, key):
            found = getattr(found, step)
        return found

    def variable(self, path: Sequence[str], key: str = "") -> str:
        """The environment variable that sets the key, or a table around it; "" where none does."""
        wanted = [*path, key] if key else list(path)
        for name in sorted(self._live.environ):
            if name.startswith(PREFIX):
                steps = name.removeprefix(PREFIX).lower().split("__")
                shorter = min(len(steps), len(wanted))
                if steps[:shorter] == wanted[:shorter] and (key or len(steps) <= len(wanted)):
                    return name
        return ""

    def is_hidden(self, key: Key, value: object) -> bool:
        """Whether a value is never shown: by its kind, or because it holds a password all the same."""
        if key.kind in ("secret", "secrets"):
            return True
        if key.name == ARGUMENTS and next(_secret_arguments(value), None) is not None:
            return True
        written = shown(key, value)  # a token may stand among the arguments of a program, too
        return self._redact(written) != written

    def secret_file(
        self, file: ConfigFile, form: TableForm, label: str, key: str, value: object, taken: Collection[str] = ()
    ) -> str:
        """The name below `secrets/` for a value: the one that is in use, else one that nobody uses, nor is `taken`."""
        if isinstance(value, str) and value.startswith(SECRETS) and "/" not in value.removeprefix(SECRETS):
            return value.removeprefix(SECRETS)
        first = form.path[-1] if form.name != "channels" else ""
        wanted = "-".join(part for part in (_UNFIT.sub("-", one).strip("-.") for one in (first, label, key)) if part)
        folder, number, name = self._live.settings.home / "secrets", 2, wanted
        while name in taken or (folder / name).exists() or f'{SECRETS}{name}"' in file.text:
            name, number = f"{wanted}-{number}", number + 1
        return name

    def propose(self, file: ConfigFile, edit: Edit) -> Proposal:
        """The edit, tried. Raises CannotChange where the file's layout does not allow it."""
        form, index = edit.form, edit.index
        try:
            if edit.is_removal:
                assert index is not None
                text = removed(file.text, form.path, index)
            elif form.is_list and index is None:
                index = len(entries_at(file.text, form.path))
                text = added(file.text, form.path, edit.fields)
            else:
                text = changed(file.text, form.path, edit.fields, index)
        except (tomllib.TOMLDecodeError, tomlkit.exceptions.ParseError) as error:
            raise CannotChange(f"{file.path.name} is not valid TOML ({error}); mend it with an editor first") from error
        if (ends := file.text.count("\n")) and ends == file.text.count("\r\n"):
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        found = self.mistakes(text, edit.secrets)
        mistakes, elsewhere = placed(found, form, None if edit.is_removal else index, edit.fields)
        return Proposal(
            edit=edit,
            file=file,
            text=text,
            mistakes={key: self._redact(said) for key, said in mistakes.items()},
            elsewhere=[self._redact(said) for said in elsewhere],
            lines=self.lines(file.text, text),
        )

    def account_values(self, proposal: Proposal, index: int) -> Mapping[str, object]:
        """The values that an account of the proposal would be opened with, with its secrets: for a try, never shown."""
        found = entries_at(proposal.text, ("channels",))[index]
        filled = _filled(proposal.edit.secrets, dict(found))
        home = self._live.settings.home
        values: dict[str, object] = resolved(filled, environ=self._live.environ, home=home, mistake=lambda said: None)
        return values

    def mistakes(self, text: str, secrets: Mapping[str, str]) -> Sequence[str]:
        """Every mistake of a text of the file, as the next start would tell them."""
        data = tomllib.loads(text)
        filled = partial(_filled, secrets)
        try:
            read(
                {name: filled(value) for name, value in data.items()},
                self._live.environ,
                home=self._live.settings.home,
                source=self.path,
            )
        except ConfigError as error:
            return error.mistakes
        return ()

    # -- the file as a whole

    def masked(self, text: str) -> Masked:
        """A text of the file with a mark in place of each secret, its structure alone where it is no TOML.

        Raises CannotChange where a secret cannot be masked.
        """
        if not _is_toml(text):
            return self._masking.structure(text)
        for value in self._literal_secrets(text):
            self._remember(value)
        values = set(self._hidden(text))
        found = self._masking.masked(text, values)
        if values and still_there(found.text, self._hidden):
            raise CannotChange(f"{self.path.name} holds a secret in a way that cannot be masked; change it elsewhere")
        return found

    def told(self, text: str) -> Sequence[str]:
        """Every mistake of a text of the file, with its line where there is one."""
        try:
            return [self._redact(said) for said in with_lines(text, self.mistakes(text, {}))]
        except tomllib.TOMLDecodeError as error:
            return [self._redact(f"It is not valid TOML: {error}.")]

    def propose_text(self, file: ConfigFile, typed: str) -> Proposal:
        """The file with this text, tried. Lines with marks are those of the file. Raises CannotChange."""
        before = self.masked(file.text)
        text, unknown = restored(typed, before)
        text = with_ends_of(file.text, text)
        mistakes = unknown or self.told(text)
        return Proposal(
            edit=Edit(form=TableForm(path=(), keys=())),
            file=file,
            text=text,
            mistakes={},
            elsewhere=mistakes,
            lines=self._difference(before, file.text, text) if not unknown else (),
        )

    def _difference(self, shown: Masked, before: str, after: str) -> Sequence[str]:
        """Of the text before, which is shown so. Both sides alike, or every line would differ."""
        now = self.masked(after) if _is_toml(before) else self._masking.structure(after)
        return difference(shown.text, now.text)

    @cached_property
    def _masking(self) -> Masking:
        tables = [*self.forms.values(), *map(self.channel_form, loaded(installed()))]
        keys = [key for form in tables for key in form.keys]
        steps = {step for form in tables for step in form.path}
        hidden = {(key.name, form.name) for form in tables for key in form.keys if key.kind in ("secret", "secrets")}
        shown_in: dict[str, set[str]] = {name: set() for name, _ in hidden}
        for form in tables:
            for key in form.keys:
                if key.name in shown_in and (key.name, form.name) not in hidden:
                    shown_in[key.name].add(form.name)
        return Masking(
            keys=SecretKeys(
                single=frozenset(key.name for key in keys if key.kind == "secret"),
                several=frozenset(key.name for key in keys if key.kind == "secrets"),
                plain_in={name: frozenset(found) for name, found in shown_in.items() if found},
            ),
            mark=lambda line: f"(secret {hmac.digest(self._key, line.encode(), 'sha256').hex()[:8]})",
            redact=self._redact,
            names=frozenset({"type", "account", *steps, *(key.name for key in keys)}),
        )

    def lines(self, before: str, after: str) -> Sequence[str]:
        """The difference of two texts of the file, without secrets."""
        values = {*self._hidden(before), *self._hidden(after)}
        return difference(self._masked(before, values), self._masked(after, values))

    async def save(self, proposal: Proposal) -> Sequence[str]:
        """Write it and use it. Returns the sections that wait for a restart. Raises CannotChange: nothing was done."""
        async with self._saving:
            await anyio.to_thread.run_sync(self._write, proposal)
        return self._live.reload()

    def _write(self, proposal: Proposal) -> None:
        for value in proposal.edit.secrets.values():
            self._remember(value)
        if reason := why_not_writable(self.path):
            raise CannotChange(reason)
        if read_file(proposal.file.path).digest != proposal.file.digest:
            raise CannotChange(f"{proposal.file.path.name} was changed meanwhile")

        def write() -> None:
            if proposal.text != proposal.file.text:
                write_file(proposal.file, proposal.text)

        write_secrets(self._live.settings.home, proposal.edit.secrets, then=write)

    def _masked(self, text: str, values: set[str]) -> str:
        """As the whole file is shown, so that a comment or an escaped value tells no secret; all marks are alike."""
        found = self._masking.masked(text, values) if _is_toml(text) else self._masking.structure(text)
        return MARK.sub(HIDDEN, found.text)

    def _hidden(self, text: str) -> Iterator[str]:
        """Secrets that stand in the file itself, and what is taken for one."""
        yield from self._literal_secrets(text)
        if _is_toml(text):
            yield from self._taken_for_secrets(tomllib.loads(text))

    def _literal_secrets(self, text: str) -> Iterator[str]:
        """Secrets that stand in the file itself."""
        try:
            channels = entries_at(text, ("channels",))
            for entry in channels:
                kind = entry.get("type")
                if isinstance(kind, str) and kind in loaded(installed()):
                    yield from _literals(self.channel_form(kind), entry)
            for form in self.forms.values():
                for entry in entries_at(text, form.path) if form.is_list else [values_at(text, form.path)]:
                    yield from _literals(form, entry)
        except tomllib.TOMLDecodeError:
            return

    def _taken_for_secrets(self, value: object, table: str = "") -> Iterator[str]:
        """Values below keys of another table or in another case, and arguments of programs."""
        if isinstance(value, list):
            for one in value:
                yield from self._taken_for_secrets(one, table)
        if not isinstance(value, dict):
            return
        for name, inner in value.items():
            if name == ARGUMENTS:
                yield from _secret_arguments(inner)
            elif self._masking.keys.is_plain(name, table):
                continue  # one that holds a password all the same is found by its shape
            elif as_declared(name) in self._masking.keys.single | self._masking.keys.several:
                yield from _texts(inner)
            else:
                yield from self._taken_for_secrets(inner, f"{table}.{name}" if table else name)


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _texts(value: object) -> Iterator[str]:
    """The secrets of a key: its text, or those of its list or table."""
    several = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else (value,)
    yield from (one for one in several if isinstance(one, str) and one and not one.startswith(REFERENCES))


def _secret_arguments(value: object) -> Iterator[str]:
    arguments = [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
    yield from (one for one in secret_arguments(arguments) if not one.startswith(REFERENCES))


def label_of(form: TableForm, entry: Mapping[str, object]) -> str:
    """The name by which people know an entry of a list."""
    if form.name == "channels":
        account = entry.get("account", "default")
        return str(entry.get("type", "")) + (f"@{account}" if account != "default" else "")
    return " ".join(str(entry[name]) for name in form.names if entry.get(name))


def is_set(value: object) -> bool:
    """Whether a secret in force is there at all."""
    if isinstance(value, SecretStr):
        return bool(value.get_secret_value())
    return bool(value)


def _literals(form: TableForm, entry: Mapping[str, object]) -> Iterator[str]:
    for key in form.keys:
        if key.kind in ("secret", "secrets"):
            yield from _texts(entry.get(key.name))


def _filled(secrets: Mapping[str, str], value: object) -> object:
    """The value with what was typed in place of the files that are not written yet."""
    if isinstance(value, dict):
        return {key: _filled(secrets, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(secrets, inner) for inner in value]
    if isinstance(value, str) and value.startswith(SECRETS):
        return secrets.get(value.removeprefix(SECRETS), value)
    return value


def placed(
    mistakes: Sequence[str], form: TableForm, index: int | None, fields: Mapping[str, object]
) -> tuple[Mapping[str, str], Sequence[str]]:
    """The mistakes of a form by its keys, and those of no key of it."""
    prefix = form.name + (f"[{index}]" if form.is_list else "")
    named = f"{form.name} ({label_of(form, fields)})"
    found: dict[str, list[str]] = {}
    elsewhere = []
    for mistake in mistakes:
        where, _, said = mistake.partition(": ")
        inner = where.removeprefix(f"{prefix}.").partition(".")[0].partition("[")[0]
        if where.startswith(f"{prefix}.") and form.key(inner):
            found.setdefault(inner, []).append(said)
        elif where in (prefix, named):
            for part in _parts(said):
                key = _key_of(part, form)
                if key is not None:
                    found.setdefault(key.name, []).append(part)
                else:
                    elsewhere.append(part)
        else:
            elsewhere.append(mistake)
    return {key: "; ".join(dict.fromkeys(said)) for key, said in found.items()}, list(dict.fromkeys(elsewhere))


def _parts(said: str) -> Sequence[str]:
    """The single mistakes of a line that tells several: each begins with its key."""
    said = re.sub(r"^provider '[^']*': ", "", said)
    return re.split(r"; (?=[a-z_]+(?:: | is | = |\.))", said)


def _key_of(part: str, form: TableForm) -> Key | None:
    word = re.match(r"[a-z_]+", part)
    return form.key(word[0]) if word is not None else None
