"""The configuration as forms: looked at, checked whole, shown as a difference, saved with its comments kept."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio
from starlette.datastructures import FormData
from starlette.requests import Request

from agent.core.clock import Clock
from gateway.channels.entry_points import settings_class
from gateway.config.document import CannotChange, ConfigFile, entries_at, why_not_writable
from gateway.config.editor import SECRETS, Edit, Editor, Proposal, is_set, label_of
from gateway.config.forms import REFERENCES, Key, TableForm, as_typed, from_typed, shown
from gateway.config.live import Live, waits_for_restart
from gateway.dashboard.frame.shell import Audit, Done, Page, Section, action, noted, rights_of, view
from gateway.dashboard.program.configuration_file import FilePages
from gateway.web.control import OperationError

LONGEST_SHOWN = 300  # characters of a value in force
LONGEST_TOLD = 120  # characters of a value in the audit log
NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRow:
    """One key as its page shows it.

    `typed` is what stands in the field, `was` what the file said when the form was loaded. A `hidden` one holds a
    secret: neither is told, `state` says where it is. `variable` is the environment variable that sets it.
    """

    key: Key
    typed: str
    was: str
    hidden: bool
    state: str
    variable: str
    source: str
    in_force: str
    default: str
    waits: bool
    mistake: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRow:
    """One entry of a list, with the keys that it sets."""

    index: int
    name: str
    keys: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A table in the overview: how many of its keys the file and the environment set."""

    form: TableForm
    set_here: int
    entries: int | None
    waits: bool


# Why an account with these values would not work: the platform is asked.
Tried = Callable[[Mapping[str, object]], Awaitable[Sequence[str]]]
ACCOUNTS = "channels"
SEVERAL = ("lines", "whole lines", "toml")  # kinds whose values no single file can hold


def settings_section(live: Live, editor: Editor, tried: Tried, audit: Audit, clock: Clock) -> Section:
    """The section."""
    pages, whole = SettingsPages(live, editor, tried, audit, clock), FilePages(live, editor)
    return Section(
        title="Settings",
        group="Program",
        entries=(
            view("/settings", pages.all),
            action("/settings/reload", whole.reload, name="settings.reload", needs="configure"),
            view("/settings/file", whole.show, needs="configure"),
            action("/settings/file/save", whole.save, name="settings.file", needs="configure"),
            action("/settings/{table}/save", pages.save, name="settings.save", needs="configure"),
            action("/settings/{table}/{entry}/save", pages.save, name="settings.save", needs="configure"),
            # Behind the actions, whose paths theirs would take.
            view("/settings/{table}", pages.table),
            view("/settings/{table}/{entry}", pages.entry),
        ),
    )


class SettingsPages:
    """Pages and actions of the section."""

    def __init__(self, live: Live, editor: Editor, tried: Tried, audit: Audit, clock: Clock) -> None:
        self._live = live
        self._editor = editor
        self._tried = tried
        self._audit = audit
        self._clock = clock

    async def all(self, request: Request) -> Page:
        """All tables; with words to look for, the keys that have them."""
        sought = request.query_params.get("find", "").strip().casefold()[:100]
        words = sought.split()
        file, mistake = await self._file()
        forms = await anyio.to_thread.run_sync(lambda: self._editor.forms)
        rows = [] if mistake else [self._table_row(file, form) for form in forms.values() if form.keys]
        keys = [
            (form, key)
            for form in forms.values()
            for key in form.keys
            if words and _has(words, f"{form.name}.{key.name} {form.about} {key.about}".casefold())
        ]
        sections = [form for form in forms.values() if words and _has(words, f"{form.name} {form.about}".casefold())]
        values = {"find": sought, "rows": rows, "keys": keys, "sections": sections, **self._about_file(file, mistake)}
        return Page(template="settings.html", values=values)

    async def table(self, request: Request) -> Page:
        """The form of a table, or the entries of a list."""
        form = await self._form(request.path_params["table"])
        file, mistake = await self._file()
        if form.is_list:
            entries = [] if mistake else entries_at(file.text, form.path)
            rows = [
                ListRow(index=index, name=label_of(form, entry) or f"no. {index + 1}", keys=", ".join(entry))
                for index, entry in enumerate(entries)
            ]
            values = {
                "form": form,
                "rows": rows,
                "variable": self._editor.variable(form.path),
                "waits": waits_for_restart(form.path[0], ".".join(form.path[1:])),
                "title": form.name,
                **self._about_file(file, mistake),
            }
            return Page(template="settings_list.html", values=values)
        return self._form_page(request, form, None, file, mistake)

    async def entry(self, request: Request) -> Page:
        """The form of one entry of a list, or of a new one."""
        name, entry = request.path_params["table"], request.path_params["entry"]
        file, mistake = await self._file()
        kind = request.query_params.get("type", "")
        form = self._account_form(file, entry, kind) if name == ACCOUNTS else await self._form(name)
        if not form.is_list:
            raise LookupError(f"[{name}] is no list.")
        return self._form_page(request, form, self._index(file, form, entry), file, mistake, entry=entry)

    async def save(self, request: Request) -> Done | Page:
        """Try what was typed; at the second step, write it."""
        typed = await request.form()
        name, entry = request.path_params["table"], request.path_params.get("entry", "")
        file, mistake = await self._file()
        if mistake:
            raise OperationError(mistake)
        if name == ACCOUNTS:
            form = self._account_form(file, entry, _text(typed, "type"))
        else:
            form = await self._form(name)
        index, moved = self._place(file, form, entry, typed)
        page = partial(self._form_page, request, form, index, file, "", entry=entry, typed=typed)
        if moved:
            return page(elsewhere=[moved])
        edit, unread = self._edit(file, form, index, typed)
        if unread:
            return page(mistakes=unread)
        try:
            proposal = await anyio.to_thread.run_sync(self._editor.propose, file, edit)
        except CannotChange as error:
            return page(elsewhere=[_sentence(str(error))])
        if not proposal.is_sound:
            return page(mistakes=proposal.mistakes, elsewhere=proposal.elsewhere)
        if not proposal.changes_something:
            return page(elsewhere=["Nothing is changed yet."])
        if name == ACCOUNTS and not edit.is_removal and not typed.get("unchecked"):
            number = index if index is not None else len(entries_at(file.text, form.path))
            values = self._editor.account_values(proposal, number)
            refused = await self._tried(values)
            if refused:
                # Without the platform's answer, which may quote what it was given.
                detail = "it could not be used; nothing was saved"
                await self._audit(noted(request, self._clock, "accounts.try", label_of(form, values), detail))
                first = form.keys[0].name
                return page(mistakes={first: "; ".join(refused)}, may_skip_check=True)
        is_seen = (typed.get("base"), typed.get("proposed")) == (file.digest, proposal.digest)
        if typed.get("step") not in ("save", "save-removal") or not is_seen:
            was_changed = typed.get("base") not in ("", None, file.digest)
            return page(proposal=proposal, conflicts=self._conflicts(file, form, index, typed), is_stale=was_changed)
        try:
            waiting = await self._editor.save(proposal)
        except CannotChange as error:
            raise OperationError(str(error), fix="nothing was saved, and your values are still in the form") from error
        return Done(
            text=self._told(form, edit, waiting),
            subject=form.name + (f" {label_of(form, edit.fields)}" if form.is_list else ""),
            detail="removed" if edit.is_removal else self._changes(file, edit),
            go="/accounts" if name == ACCOUNTS else f"/settings/{form.name}" if form.is_list else "",
        )

    # -- steps of these

    async def _form(self, name: str) -> TableForm:
        forms = await anyio.to_thread.run_sync(lambda: self._editor.forms)
        form = forms.get(name)
        if form is None:
            raise LookupError(f"There is no section [{name}].")
        return form

    def _account_form(self, file: ConfigFile, entry: str, kind: str) -> TableForm:
        """Raises LookupError for a platform or an account that there is not."""
        if entry != NEW:
            index = self._index(file, self._editor.accounts, entry)
            assert index is not None
            kind = str(entries_at(file.text, (ACCOUNTS,))[index].get("type", ""))
        return self._editor.channel_form(kind)

    async def _file(self) -> tuple[ConfigFile, str]:
        """The file, and why it cannot be shown."""
        try:
            file = await anyio.to_thread.run_sync(self._editor.file)
            entries_at(file.text, ("places",))
        except CannotChange as error:
            return ConfigFile(path=self._editor.path, text="", exists=False), str(error)
        except ValueError as error:  # tomllib's own
            empty = ConfigFile(path=self._editor.path, text="", exists=False)
            return empty, f"{file.path.name} is not valid TOML: {error}. Mend it with an editor first."
        return file, ""

    def _about_file(self, file: ConfigFile, mistake: str) -> Mapping[str, object]:
        return {"file": file, "broken": mistake, "read_only": why_not_writable(file.path)}

    def _table_row(self, file: ConfigFile, form: TableForm) -> TableRow:
        values = self._editor.values(file, form, None)
        ours = {key.name for key in form.keys}
        return TableRow(
            form=form,
            set_here=len(ours & set(values)),
            entries=len(entries_at(file.text, form.path)) if form.is_list else None,
            waits=waits_for_restart(form.path[0], ".".join(form.path[1:])),
        )

    def _index(self, file: ConfigFile, form: TableForm, entry: str) -> int | None:
        if entry == NEW:
            return None
        number = int(entry) if entry.isascii() and entry.isdigit() and len(entry) < 5 else -1
        if not 0 <= number < len(entries_at(file.text, form.path)):
            raise LookupError(f"There is no such entry of [[{form.name}]] any more.")
        return number

    def _place(self, file: ConfigFile, form: TableForm, entry: str, typed: FormData) -> tuple[int | None, str]:
        """Where the entry is now, and why it cannot be found: somebody may have moved or changed it."""
        if not form.is_list or entry == NEW:
            return None, ""
        entries = entries_at(file.text, form.path)
        known = [one for one in range(len(entries)) if self._is_same(file, form, one, typed)]
        number = int(entry) if entry.isascii() and entry.isdigit() and len(entry) < 5 else -1
        if typed.get("base") == file.digest and 0 <= number < len(entries):
            return number, ""
        if known:
            return number if number in known else known[0], ""
        return None, (
            f"Somebody changed or removed this entry of [[{form.name}]] after you opened it. Your values still stand "
            "here; open the list again in another tab and look at what it says now."
        )

    def _is_same(self, file: ConfigFile, form: TableForm, index: int, typed: FormData) -> bool:
        return all(
            row.hidden or row.was == _text(typed, f"was.{row.key.name}")
            for row in self._rows(file, form, index, None, {})
        )

    def _edit(
        self, file: ConfigFile, form: TableForm, index: int | None, typed: FormData
    ) -> tuple[Edit, Mapping[str, str]]:
        """The typed values that differ from those shown, and the mistakes of those that cannot be read."""
        if str(typed.get("step")).endswith("removal"):
            names = self._editor.values(file, form, index)
            return Edit(form=form, index=index, fields=_names(form, names), is_removal=True), {}
        fields: dict[str, object] = {}
        secrets: dict[str, str] = {}
        mistakes: dict[str, str] = {}
        values = self._editor.values(file, form, index)
        label = _text(typed, f"v.{form.names[0]}") if form.is_list and form.names else ""
        if form.name == ACCOUNTS:
            named = {"type": _text(typed, "type"), **values}
            label = label_of(
                form, named if index is not None else {**named, "account": _text(typed, "v.account") or "default"}
            )
        for key in form.keys:
            if not form.is_list and self._editor.variable(form.path, key.name):
                continue
            text, was = _text(typed, f"v.{key.name}"), _text(typed, f"was.{key.name}")
            try:
                if self._editor.is_hidden(key, values.get(key.name)):
                    if typed.get(f"clear.{key.name}"):
                        fields[key.name] = None
                    elif text.strip() and key.kind in ("lines", "toml"):
                        fields[key.name] = from_typed(key, text)  # no single text, that a file could hold
                    elif text.strip():
                        fields[key.name] = self._secret(file, form, label, key, values.get(key.name), text, secrets)
                elif text != was:
                    fields[key.name] = from_typed(key, text)
            except ValueError as error:
                mistakes[key.name] = _sentence(str(error))
        if form.is_list and index is not None:  # a key's mistakes are found by the entry's name
            fields = {**_names(form, values), **fields}
        elif form.name == ACCOUNTS:
            fields = {"type": _text(typed, "type"), **fields}
        return Edit(form=form, index=index, fields=fields, secrets=secrets), mistakes

    def _secret(
        self,
        file: ConfigFile,
        form: TableForm,
        label: str,
        key: Key,
        before: object,
        text: str,
        secrets: dict[str, str],
    ) -> object:
        """The reference for a typed secret, which goes into `secrets`; a list as it stands. Raises ValueError."""
        text = text.strip()
        if key.kind in SEVERAL:
            return from_typed(key, text)
        if key.kind != "secrets":
            if text.startswith(REFERENCES):
                return text
            name = self._editor.secret_file(file, form, label, key.name, before)
            secrets[name] = text
            return f"{SECRETS}{name}"
        kept: dict[str, str] = {}
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        is_table = isinstance(key.default, Mapping)
        for number, line in enumerate(lines, 1):
            named, sign, value = line.partition("=") if is_table else (str(number), "=", line)
            if not sign or not named.strip() or not value.strip():
                raise ValueError("write one a line, as NAME = value")
            value = value.strip()
            if not value.startswith(REFERENCES):
                name = self._editor.secret_file(file, form, label, f"{key.name}-{named.strip()}", None, secrets)
                secrets[name], value = value, f"{SECRETS}{name}"
            kept[named.strip()] = value
        return kept if is_table else list(kept.values())

    def _conflicts(self, file: ConfigFile, form: TableForm, index: int | None, typed: FormData) -> Mapping[str, str]:
        """Keys that somebody else has changed too since the form was loaded, with what the file says now."""
        if form.is_list and index is None:
            return {}
        return {
            row.key.name: row.was or "nothing"
            for row in self._rows(file, form, index, None, {})
            if not row.hidden
            and not row.variable
            and row.was != (before := _text(typed, f"was.{row.key.name}"))
            and before != (mine := _text(typed, f"v.{row.key.name}"))
            and mine != row.was
        }

    def _rows(
        self,
        file: ConfigFile,
        form: TableForm,
        index: int | None,
        typed: FormData | None,
        mistakes: Mapping[str, str],
    ) -> Sequence[FieldRow]:
        values = self._editor.values(file, form, index)
        return [self._row(form, key, values.get(key.name), typed, mistakes) for key in form.keys]

    def _row(
        self, form: TableForm, key: Key, value: object, typed: FormData | None, mistakes: Mapping[str, str]
    ) -> FieldRow:
        variable = "" if form.is_list else self._editor.variable(form.path, key.name)
        in_force = None if form.is_list else self._editor.in_force(form, key.name)
        hidden = self._editor.is_hidden(key, value) or self._editor.is_hidden(key, in_force)
        was = "" if hidden else as_typed(key, value)
        stands = was
        if typed is not None and not hidden and not variable:
            before, mine = _text(typed, f"was.{key.name}"), _text(typed, f"v.{key.name}")
            stands = mine if mine != before else was
        told = "set" if hidden and is_set(in_force) else "not set" if hidden else shown(key, in_force)
        return FieldRow(
            key=key,
            typed=stands,
            was=was,
            hidden=hidden,
            state=_state(value, variable),
            variable=variable,
            source="environment" if variable else "file" if value is not None else "default",
            in_force="" if form.is_list else told[:LONGEST_SHOWN],
            default="not set" if hidden else shown(key, key.default)[:LONGEST_SHOWN],
            waits=waits_for_restart(form.path[0], ".".join((*form.path[1:], key.name))),
            mistake=mistakes.get(key.name, ""),
        )

    def _form_page(
        self,
        request: Request,
        form: TableForm,
        index: int | None,
        file: ConfigFile,
        broken: str,
        *,
        entry: str = "",
        typed: FormData | None = None,
        mistakes: Mapping[str, str] | None = None,
        elsewhere: Sequence[str] = (),
        proposal: Proposal | None = None,
        conflicts: Mapping[str, str] | None = None,
        is_stale: bool = False,
        may_skip_check: bool = False,
    ) -> Page:
        rows = self._rows(file, form, index, typed, mistakes or {})
        if typed is not None and elsewhere and index is None and entry not in ("", NEW):
            rows = [replace(row, typed=_text(typed, f"v.{row.key.name}")) for row in rows]
        values = self._editor.values(file, form, index)
        title = form.name
        kind = ""
        if form.name == ACCOUNTS:
            asked = _text(typed, "type") if typed is not None else request.query_params.get("type", "")
            kind = str(values.get("type", asked))
            title = f"New account: {kind}" if entry == NEW else f"Account {label_of(form, values)}"
        elif form.is_list:
            title = f"{form.name}: {'new' if entry == NEW else label_of(form, values) or 'an entry'}"
        return Page(
            template="settings_form.html",
            values={
                "form": form,
                "rows": rows,
                "entry": entry,
                "action": f"/settings/{form.name}{f'/{entry}' if entry else ''}/save",
                "base": file.digest,
                # Typed secrets stay in the browser: their fields are kept over answers, until the file has changed.
                "nonce": _text(typed, "nonce") if typed is not None else file.digest[:12],
                "elsewhere": list(elsewhere),
                "proposal": proposal,
                "conflicts": conflicts or {},
                "is_stale": is_stale,
                "inner": [one for one in self._editor.forms.values() if one.path[:-1] == form.path and one.keys],
                "back": "/accounts"
                if form.name == ACCOUNTS
                else f"/settings/{form.name}"
                if form.is_list
                else "/settings",
                "kind": kind,
                "shown": [key.name for key in form.keys].index("provider") if kind else len(rows),
                "may_skip_check": may_skip_check,
                "may_change": "configure" in rights_of(request),
                "title": title,
                **self._about_file(file, broken),
            },
        )

    def _changes(self, file: ConfigFile, edit: Edit) -> str:
        """The keys that changed, each with its value before and now; of long texts and secrets the name alone."""
        before = self._editor.values(file, edit.form, edit.index)
        told = []
        for name, value in edit.fields.items():
            key, old = edit.form.key(name), before.get(name)
            if edit.form.is_list and edit.index is not None and name in edit.form.names and value == old:
                continue  # it says which entry this is
            if key is None or key.kind == "long":
                told.append(name)
            elif self._editor.is_hidden(key, old) or self._editor.is_hidden(key, value):
                told.append(f"{name}: (secret)")
            else:
                was, now = (_short(shown(key, one)) if one is not None else "default" for one in (old, value))
                told.append(f"{name}: {was} → {now}")
        return ", ".join(told)

    def _told(self, form: TableForm, edit: Edit, waiting: Sequence[str]) -> str:
        keys = [key for key in edit.fields if waits_for_restart(form.path[0], ".".join((*form.path[1:], key)))]
        if form.is_list:
            waits = waits_for_restart(form.path[0], ".".join(form.path[1:]))
            if form.name == ACCOUNTS:  # those behind our own entrances are opened at the start alone
                waits = settings_class(str(edit.fields.get("type"))).entrance != "platform"
            return "Saved. It counts from the next start on." if waits else "Saved, and in force."
        if keys and waiting:
            rest = "; the rest is in force" if len(keys) < len(edit.fields) else ""
            return f"Saved. {', '.join(keys)}: from the next start on{rest}."
        return "Saved, and in force from the next turn on."


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TOLD else f"{text[:LONGEST_TOLD]}…"


def _names(form: TableForm, values: Mapping[str, object]) -> Mapping[str, object]:
    return {name: values[name] for name in form.names if name in values}


def _text(typed: FormData, name: str) -> str:
    value = typed.get(name)
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


def _state(value: object, variable: str) -> str:
    """Where a secret is, without a word of it."""
    if variable:
        return f"set by the environment variable {variable}"
    if isinstance(value, str) and value.startswith("env:"):
        return f"taken from the environment variable {value.removeprefix('env:')}"
    if isinstance(value, str) and value.startswith("file:"):
        return f"set in {value.removeprefix('file:')}"
    if isinstance(value, list | dict):
        return f"{len(value)} set in the file" if value else "not set"
    return "set in the file" if value else "not set"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _has(words: Sequence[str], text: str) -> bool:
    """Whether each of the words stands in the text."""
    return all(word in text for word in words)
