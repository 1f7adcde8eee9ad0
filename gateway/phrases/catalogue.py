"""The bot's own sentences, from one catalogue, in the person's language.

A language is one TOML file beside this one: key = "sentence with {values}". English is complete; what another language
lacks is said in English. Never holds what a model or a provider said.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from agent.core.phrases import ENGLISH

FOLDER = Path(__file__).parent

OWNERS = "owner_"  # how the keys of sentences begin that only owners are told: these may tell where our files lie

# Before a command in a sentence of ours, until it leaves: how it is written differs between platforms. Invisible, and
# only put where we wrote the words: what a person, a model or a tool said stays as it is.
MARK = "\u2063"
_COMMAND = re.compile(r"(?<![\w/.:>])/(?=[a-z]|\{(?:name|close)\})(?!\w*/)")
_MARKED = re.compile(rf"{MARK}/([a-z-]*)")


def marked(sentence: str) -> str:
    """The sentence of a catalogue with its commands marked."""
    return _COMMAND.sub(f"{MARK}/", sentence)


def spelled(text: str, prefix: str = "/", dash: str = "-") -> str:
    """The text with its marked commands as a platform takes them: `/tieline status`, `/clear_queue`."""
    if MARK not in text:
        return text
    return _MARKED.sub(lambda found: prefix + found[1].rstrip("-").replace("-", dash) + _dashes(found[1]), text)


def _dashes(name: str) -> str:
    return name[len(name.rstrip("-")) :]


class UsageError(Exception):
    """A person or a model asked for something that cannot be; nothing was changed.

    `key` names the sentence of the catalogue that says what is wrong and what would be right.
    """

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key, values)
        self.key = key
        self.values = values

    def text(self, phrase: Callable[..., str], language: str) -> str:
        """The sentence, in that language."""
        return phrase(self.key, language, **self.values)


class Catalogue:
    """Gives the sentence for a key; the agent's own keys included (`agent.core.phrases.Phrases`).

    A language is read when it is first spoken: 25 ms, that most processes need for English alone.
    """

    def __init__(
        self, files: Mapping[str, Path], spell: Callable[[str], str], spell_owners: Callable[[str], str]
    ) -> None:
        """`files` by language, `en` among them. `spell` writes the commands in a sentence, `spell_owners` those in
        the alerts."""
        self._files = files
        self._spell = spell
        self._spell_owners = spell_owners
        self._read: dict[str, Mapping[str, str]] = {}

    def __call__(self, key: str, language: str, **values: object) -> str:
        """Raises KeyError for a key that English does not have: a programming error."""
        name = language.partition("-")[0].lower()
        sentence = self._sentences(name).get(key) if name in self._files else None
        return (sentence or self._sentences("en")[key]).format(**values)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that there are sentences in."""
        return tuple(sorted(self._files))

    def _sentences(self, language: str) -> Mapping[str, str]:
        if language not in self._read:
            said = _said(self._files[language])
            told = {**ENGLISH, **said} if language == "en" else said
            self._read[language] = {
                key: (self._spell_owners if key.startswith(OWNERS) else self._spell)(sentence)
                for key, sentence in told.items()
            }
        return self._read[language]


@cache
def _said(file: Path) -> Mapping[str, str]:
    """The sentences of the file. It is part of the program, so all catalogues of a process share it."""
    return tomllib.loads(file.read_text("utf-8"))


def spoken(folder: Path = FOLDER) -> tuple[str, ...]:
    """The languages that there are sentences in."""
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))


def read_catalogue(
    folder: Path = FOLDER, *, spell: Callable[[str], str] = str, spell_owners: Callable[[str], str] | None = None
) -> Catalogue:
    """Every language file of the folder, commands in it as `spell` writes them, in alerts as `spell_owners`."""
    return Catalogue({path.stem: path for path in folder.glob("*.toml")}, spell, spell_owners or spell)
