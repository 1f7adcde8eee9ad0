"""The bot's own sentences, from one catalogue, in the person's language (DESIGN §13.22).

A language is one TOML file beside this one: key = "sentence with {values}". English is complete; what another language
lacks is said in English. Never holds what a model or a provider said.
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.core.phrases import ENGLISH

FOLDER = Path(__file__).parent


class Catalogue:
    """Gives the sentence for a key; the agent's own keys included (`agent.core.phrases.Phrases`)."""

    def __init__(self, languages: Mapping[str, Mapping[str, str]]) -> None:
        self._languages = languages

    def __call__(self, key: str, language: str, **values: object) -> str:
        """Raises KeyError for a key that English does not have: a programming error."""
        sentences = self._languages.get(language.partition("-")[0].lower(), {})
        return (sentences.get(key) or self._languages["en"][key]).format(**values)

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(sorted(self._languages))


def spoken(folder: Path = FOLDER) -> tuple[str, ...]:
    """The languages that there are sentences in."""
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))


def read_catalogue(folder: Path = FOLDER, *, spell: Callable[[str], str] = str) -> Catalogue:
    """Every language file of the folder, commands in it as `spell` writes them.

    Raises tomllib.TOMLDecodeError for one that is broken.
    """
    languages = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.toml"))}
    languages["en"] = {**ENGLISH, **languages["en"]}
    languages = {name: {key: spell(text) for key, text in said.items()} for name, said in languages.items()}
    return Catalogue(languages)
