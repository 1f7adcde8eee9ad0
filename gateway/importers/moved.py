"""Values that move over from another program, before anything is compared with what is here. Knows no file.

Every text in them was written by others: it is data, and a secret among it is never shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import SecretStr

from agent.core.untrusted_text import one_line
from gateway.scheduler.triggers.rules import Rule

LONGEST_SHOWN = 120  # characters of a foreign text in a line of the report


class ImportRefused(Exception):
    """The import cannot begin, or would overwrite something; nothing was written. The text says why."""


@dataclass(frozen=True, slots=True)
class Left:
    """One thing that does not move, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """The character: `name` is for people, `text` what the model gets first."""

    name: str
    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to remember, and the file that it comes from."""

    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSkill:
    """A folder with a SKILL.md. `name` is the folder's here, `files` its content by path below it."""

    name: str
    source: str
    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A task that recurs or comes once. `to` is a conversation; "" is the owner's own chat.

    `zone` is "" where the program has none for it. `remarks` tell what of it stays behind.
    """

    id: str
    name: str
    text: str
    rule: Rule
    said: str
    to: str = ""
    zone: str = ""
    is_paused: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A bot's account on a platform: a section of `[[channels]]`. A secret is a text or a name of a variable."""

    type: str
    name: str = "default"
    secrets: Mapping[str, "Secret"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret by its value, or by the environment variable that has it where the gateway starts."""

    value: SecretStr | None = None
    variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A section of `[[llm.providers]]`."""

    name: str
    type: str
    model: str
    base_url: str = ""
    key: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The content of another program's home, in our terms. `models` begins with the one that is in use.

    `people` and `groups` are named as in `[access]`; `dm` is "" where the program's policy is not taken over.
    `owner` is whom the program takes for its owner, "" where it does not say.
    """

    program: str
    version: str
    persona: Persona | None = None
    notes: Sequence[Note] = ()
    skills: Sequence[FoundSkill] = ()
    jobs: Sequence[Job] = ()
    accounts: Sequence[Account] = ()
    owner: str = ""
    people: Sequence[str] = ()
    groups: Sequence[str] = ()
    dm: str = ""
    models: Sequence[Model] = ()
    left: Sequence[Left] = ()

    @property
    def secrets(self) -> frozenset[str]:
        """Every secret value in it, for redaction."""
        keys = [model.key for model in self.models if model.key is not None]
        found = [*keys, *(secret for account in self.accounts for secret in account.secrets.values())]
        return frozenset(secret.value.get_secret_value() for secret in found if secret.value is not None)


def shown(text: object) -> str:
    """A foreign text on one line of the report, without what steers a terminal."""
    return one_line(str(text), LONGEST_SHOWN)
