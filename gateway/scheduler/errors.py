"""Mistakes in what a person or a model asked for: a key of the catalogue and its values."""

from collections.abc import Callable


class Mistake(Exception):
    """Nothing was changed. `key` names a sentence that says what is wrong and what would be right."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key, values)
        self.key = key
        self.values = values

    def said(self, phrase: Callable[..., str], language: str) -> str:
        """The sentence, in that language."""
        return phrase(self.key, language, **self.values)
