"""One skill and the parser of its SKILL.md. Holds words and numbers only; it judges nothing."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

FILE = "SKILL.md"
EXAMPLE = "- Somebody wrote: "  # begins a line of a draft that quotes a request
SUMMARY = 300  # characters of a description that lists show

Origin = Literal["shipped", "operator", "imported", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Know-how that can be put before the model. `digest` names the bytes of its file, `body` is what stands in it.

    `tools` are those it works with (None: its author names none), `env` what it sets for tools, as (name, value).
    `invocable_by_model` False: only a person may call it up; `user_invocable` False: only the model may. What the
    house keeps and shows but does not act on (`effort`, `hooks` and the like) stands in `further`, as (key, value).
    `files` is what lies beside SKILL.md in its folder, by name, folders with a "/": never of a drafted one.
    """

    name: str
    description: str
    body: str
    origin: Origin
    folder: Path
    digest: str
    version: str = ""
    category: str = ""
    triggers: tuple[str, ...] = ()
    when_to_use: str = ""
    tools: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()
    model: str = ""
    arguments: tuple[str, ...] = ()
    argument_hint: str = ""
    user_invocable: bool = True
    invocable_by_model: bool = True
    further: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Its purpose, as lists show it."""
        return self.description if len(self.description) <= SUMMARY else f"{self.description[: SUMMARY - 1]}…"

    @property
    def told(self) -> str:
        """The text for a model: of a drafted one without what people wrote, perhaps in a direct chat."""
        return unquoted(self.body) if self.origin == "auto" else self.body

    @property
    def grants(self) -> frozenset[str]:
        """Its reach: names of tools and of environment variables, told apart by their first letter."""
        return frozenset((*(f"tool:{name}" for name in self.tools or ()), *(f"env:{name}" for name, _ in self.env)))


# Parser of SKILL.md. Any text gives something usable. Pure.

LONGEST_NAME = 80
LONGEST_DESCRIPTION = 1_024  # what others write skills by allows so much; the list in the prompt shows its beginning
LONGEST_WHEN = 300
LONGEST_VALUE = 2_000
MOST_ITEMS = 32  # of one list
KNOWN = frozenset({
    "name", "description", "version", "triggers", "tools", "allowed_tools", "env", "category", "when_to_use", "model",
    "effort", "paths", "arguments", "argument_hint", "user_invocable", "hide_from_model_invocation",
    "disable_model_invocation", "max_turns", "max_tokens", "hooks", "artifacts", "license", "compatibility", "metadata",
})  # fmt: skip
# Kept and shown, but nothing is done about them.
FURTHER = (
    "effort", "paths", "max_turns", "max_tokens", "hooks", "artifacts", "license", "compatibility", "metadata",
)  # fmt: skip
# Names of the public format for the tools that are here; any other name is taken as it stands.
PUBLIC_NAMES: Mapping[str, tuple[str, ...]] = {
    "read": ("read",),
    "notebookread": ("read",),
    "ls": ("list",),
    "list": ("list",),
    "glob": ("glob",),
    "grep": ("grep",),
    "search": ("grep",),
    "write": ("write",),
    "edit": ("edit",),
    "multiedit": ("edit",),
    "notebookedit": ("edit",),
    "bash": ("shell",),
    "bashoutput": ("shell",),
    "killbash": ("shell",),
    "killshell": ("shell",),
    "shell": ("shell",),
    "webfetch": ("web_fetch", "web_scrape"),
    "websearch": ("web_search",),
    "task": ("Agent",),
    "agent": ("Agent",),
    "taskcreate": ("task_create",),
    "taskupdate": ("task_update",),
    "tasklist": ("task_list",),
    "taskget": ("task_get",),
    "todowrite": ("task_create", "task_update"),
    "todoread": ("task_list", "task_get"),
    "skill": ("load_skill",),
    "sendmessage": ("send_message",),
    "askuserquestion": ("ask_user",),
}
_OWN = frozenset(name for names in PUBLIC_NAMES.values() for name in names)
_FENCE = re.compile(r"-{3,}[ \t]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TOOL = re.compile(r"([^\s,()]+)(?:\([^()]*\))?")  # `Bash(git add:*)`: which commands is left to approvals
_PLAIN = re.compile(r"([A-Za-z][\w-]{0,63})[ \t]*:[ \t]+([^\s\"'\[{|>&*!%@`#].*)")  # a key, and a value without quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A skill, and what was wrong with its file; `warning` "" where nothing was."""

    skill: Skill
    warning: str = ""


def parsed(text: str, *, folder: Path, origin: Origin) -> Parsed:
    """The skill that the text of `<folder>/SKILL.md` describes."""
    digest = digest_of(text)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    head, body = _split(text)
    warnings: list[str] = []
    if not _FENCE.fullmatch(text.split("\n", 1)[0]):
        warnings.append(
            "it has no front matter (name and description between two lines ---): its first words describe it"
        )
    front = _front_matter(head, warnings)
    fields = {str(key).strip().lower().replace("-", "_"): value for key, value in front.items()}
    if unknown := sorted(set(fields) - KNOWN):
        warnings.append(f"unknown keys: {', '.join(unknown)}")
    # A drafted one is known by its folder, which is the signature it was drafted for.
    name = (slug(_text(fields.get("name"))) if origin != "auto" else "") or slug(folder.name)
    skill = Skill(
        name=name,
        description=_line(fields.get("description"), LONGEST_DESCRIPTION) or _first_words(body) or name,
        body=body,
        origin=origin,
        folder=folder,
        digest=digest,
        version=_line(fields.get("version") or _within(fields.get("metadata"), "version"), 40),
        category=_line(fields.get("category"), 40),
        triggers=_list(fields.get("triggers")),
        when_to_use=_line(fields.get("when_to_use"), LONGEST_WHEN),
        tools=_tools(fields),
        env=_env(fields.get("env"), warnings),
        model=_line(fields.get("model"), 100),
        arguments=_list(fields.get("arguments")),
        argument_hint=_line(fields.get("argument_hint"), 100),
        user_invocable=_claim(fields, "user_invocable", True, warnings),
        invocable_by_model=not (
            _claim(fields, "hide_from_model_invocation", False, warnings)
            or _claim(fields, "disable_model_invocation", False, warnings)
        ),
        further=tuple((key, _line(fields[key], LONGEST_VALUE)) for key in FURTHER if fields.get(key) is not None),
    )
    return Parsed(skill=skill, warning="; ".join(warnings))


def digest_of(text: str) -> str:
    """The name of these very words; an approval holds for no others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def unquoted(text: str) -> str:
    """The text of a draft without the lines that quote people."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith(EXAMPLE))


def slug(name: str) -> str:
    """A name as people can type it after a command: lower case, words joined by "-"."""
    return "-".join(re.findall(r"[^\W_]+", name.lower()))[:LONGEST_NAME].strip("-")


def _split(text: str) -> tuple[str, str]:
    """Front matter and body. A front matter that is not closed goes as far as its lines look like one."""
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return "", text.strip()
    end = next((place for place, line in enumerate(lines[1:], start=1) if _FENCE.fullmatch(line)), None)
    if end is None:
        end = next((place for place, line in enumerate(lines[1:], start=1) if not _is_matter(line)), len(lines))
        return "\n".join(lines[1:end]), "\n".join(lines[end:]).strip()
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).strip()


def _is_matter(line: str) -> bool:
    """Whether a line may belong to front matter: `key: value`, an item of a list, or more of the line before."""
    return bool(re.match(r"[A-Za-z_-]+[ \t]*:|[ \t]+\S|-[ \t]", line))


def _front_matter(head: str, warnings: list[str]) -> Mapping[Any, Any]:
    try:
        front = _loaded(head) if head.strip() else {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2026-99-99
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        warnings.append(f"the front matter is not valid YAML{where} and counts for nothing")
        return {}
    if front is None:
        return {}
    if not isinstance(front, dict):
        warnings.append("the front matter is no list of `key: value` lines and counts for nothing")
        return {}
    return front


def _loaded(head: str) -> Any:
    """The YAML; where it is none, with every plain value taken to its end: many hold a colon that no quotes protect."""
    try:
        return yaml.safe_load(head)
    except yaml.YAMLError:
        quoted = _quoted(head)
        if quoted == head:
            raise
        try:
            return yaml.safe_load(quoted)
        except yaml.YAMLError:
            pass
        raise


def _quoted(head: str) -> str:
    """The lines with quotes around each plain value; what is indented below one is more of it."""
    written: list[str] = []
    key, value = "", ""
    for line in [*head.split("\n"), ""]:
        found = _PLAIN.fullmatch(line)
        if key and not found and line[:1] in (" ", "\t") and line.strip():
            value = f"{value} {line.strip()}"
            continue
        if key:
            written.append(f"{key}: {json.dumps(value)}")
            key = ""
        if found:
            key, value = found[1], found[2].strip()
        else:
            written.append(line)
    return "\n".join(written[:-1])


def _text(value: object) -> str:
    """A scalar as text; "" for what is none."""
    return "" if value is None or isinstance(value, (dict, list, set, tuple, bytes)) else str(value)


def _within(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _line(value: object, most: int) -> str:
    if isinstance(value, list):
        value = ", ".join(filter(None, map(_text, value)))
    elif isinstance(value, dict):
        value = ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
    return " ".join(_text(value).split())[:most]


def _list(value: object) -> tuple[str, ...]:
    """A list, or one written as text with commas between."""
    items = value if isinstance(value, list) else _text(value).split(",")
    found = dict.fromkeys(" ".join(_text(item).split())[:100] for item in items)
    return tuple(filter(None, found))[:MOST_ITEMS]


def _tools(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    """`tools` or `allowed_tools`, both: all of them; with commas or blanks between, by our names or the format's."""
    named = [fields[key] for key in ("tools", "allowed_tools") if fields.get(key) is not None]
    if not named:
        return None
    written = ", ".join(_text(item) for value in named for item in (value if isinstance(value, list) else [value]))
    names = (found[1][:100] for found in _TOOL.finditer(written))
    return tuple(dict.fromkeys(ours for name in names for ours in own_names(name)))[:MOST_ITEMS]


def own_names(name: str) -> tuple[str, ...]:
    """The name here of a tool of the public format."""
    return PUBLIC_NAMES.get(name.lower().replace("_", ""), (name,)) if name not in _OWN else (name,)


def _env(value: object, warnings: list[str]) -> tuple[tuple[str, str], ...]:
    """`NAME: value` lines; a name alone in a list stands for nothing that we could set."""
    if value is None:
        return ()
    if not isinstance(value, dict):
        warnings.append("env must be `NAME: value` lines; it counts for nothing")
        return ()
    found = {str(name): _text(one)[:LONGEST_VALUE] for name, one in value.items()}
    if wrong := [name for name in found if not _VARIABLE.fullmatch(name)]:
        warnings.append(f"env: {wrong[0][:40]!r} is no name of a variable")
    return tuple(sorted((name, one) for name, one in found.items() if _VARIABLE.fullmatch(name)))[:MOST_ITEMS]


def _claim(fields: Mapping[str, Any], key: str, otherwise: bool, warnings: list[str]) -> bool:
    value = fields.get(key)
    if value is None or isinstance(value, bool):
        return otherwise if value is None else value
    warnings.append(f"{key} must be true or false")
    return otherwise


def _first_words(body: str) -> str:
    """The first line that is no heading."""
    lines = (" ".join(line.split()) for line in body.split("\n"))
    return next((line[:LONGEST_WHEN] for line in lines if line and not line.startswith("#")), "")
