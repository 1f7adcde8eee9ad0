"""A dictionary that never grows beyond its bound."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedMap(OrderedDict[Key, Value]):
    """Setting an entry makes it the newest; beyond `most` the oldest ones are forgotten.

    What is read stays where it is: call `move_to_end` for what must not be forgotten while it is used. As a set that is
    bounded it holds None for each member.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
