"""Rows as both databases hold them: SQLite values become PostgreSQL values; a digest compares tables. Pure."""

from collections.abc import Callable, Sequence
from hashlib import blake2b

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, Table
from sqlalchemy.types import TypeEngine

from agent.storage.errors import TransferRefused

Value = str | int | float | bool | bytes | None
Row = tuple[Value, ...]

NUL, REPLACEMENT = "\0", "\N{REPLACEMENT CHARACTER}"
_DIGITS = 32  # hexadecimal, of a digest
_MODULUS = 16**_DIGITS
_INTEGER, _BIGINT = 2**31, 2**63  # PostgreSQL's limits; SQLite holds 64 bits in either


class Texts:
    """Decoder of SQLite's texts (a `text_factory`), which counts in `replaced` those that PostgreSQL cannot hold.

    In them U+FFFD stands for each NUL character and for each run of bytes that is no UTF-8.
    """

    def __init__(self) -> None:
        self.replaced = 0

    def __call__(self, raw: bytes) -> str:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode(errors="replace")
            self.replaced += 1
            return text.replace(NUL, REPLACEMENT)
        if NUL in text:
            self.replaced += 1
            return text.replace(NUL, REPLACEMENT)
        return text


class Converter:
    """Makes of a row that SQLite gave the one for PostgreSQL: moments stay numbers, 0 and 1 become booleans."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = tuple(table.columns)
        self._convert = tuple(_conversion(column.type) for column in self._columns)

    def __call__(self, row: Sequence[Value]) -> Row:
        """Raises TransferRefused for a value that its column cannot hold, and names its row by its key."""
        try:
            return tuple(
                None if value is None else convert(value) for convert, value in zip(self._convert, row, strict=True)
            )
        except ValueError:
            raise TransferRefused(self._unfit(row)) from None

    def _unfit(self, row: Sequence[Value]) -> str:
        for column, convert, value in zip(self._columns, self._convert, row, strict=True):
            try:
                _ = None if value is None else convert(value)
            except ValueError:
                return (
                    f"{self._table.name}.{column.name} holds a {type(value).__name__} that PostgreSQL's "
                    f"{_name_of(column)} cannot, in the row {self._key(row)}; correct that row in SQLite"
                )
        raise AssertionError("the row converts after all")

    def _key(self, row: Sequence[Value]) -> str:
        named = zip(self._columns, row, strict=True)
        return ", ".join(f"{column.name} = {value!r}" for column, value in named if column.primary_key)


def _conversion(type: TypeEngine[object]) -> Callable[[Value], Value]:
    match type:
        case Boolean():
            return _boolean
        case Float():
            return _number
        case BigInteger():
            return _bigint
        case Integer():
            return _integer
        case LargeBinary():
            return _bytes
        case _:
            return _text


def _boolean(value: Value) -> bool:
    if value not in (0, 1) or isinstance(value, float):
        raise ValueError
    return bool(value)


def _number(value: Value) -> float:
    if isinstance(value, str | bytes) or value is None:
        raise ValueError
    return float(value)


def _bigint(value: Value) -> int:
    if not isinstance(value, int) or not -_BIGINT <= value < _BIGINT:
        raise ValueError
    return value


def _integer(value: Value) -> int:
    if not isinstance(value, int) or not -_INTEGER <= value < _INTEGER:
        raise ValueError
    return value


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError
    return value


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


NAMES = {"Boolean": "bool", "Float": "float8", "BigInteger": "int8", "Integer": "int4", "LargeBinary": "bytea"}


def _name_of(column: Column[object]) -> str:
    return NAMES.get(type(column.type).__name__, "text")


def types_of(table: Table) -> list[str]:
    """PostgreSQL's names for the types of the columns, in their order."""
    return [_name_of(column) for column in table.columns]


class Digest:
    """The sum of the hashes of rows (BLAKE2b, 128 bits): equal for equal rows, in whatever order they come."""

    def __init__(self, rows: int = 0, text: str = "") -> None:
        """Goes on from a digest of so many rows, as `text` gave it."""
        self.rows = rows
        self._sum = int(text or "0", 16)

    def add(self, row: Row) -> None:
        """Take a row in."""
        # `ascii` writes equal values alike and others otherwise, in every version of Python.
        hashed = blake2b(ascii(row).encode("ascii"), digest_size=_DIGITS // 2).digest()
        self._sum = (self._sum + int.from_bytes(hashed)) % _MODULUS
        self.rows += 1

    @property
    def text(self) -> str:
        """The digest, in hexadecimal digits."""
        return f"{self._sum:0{_DIGITS}x}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.rows, self._sum) == (other.rows, other._sum)

    __hash__ = None  # type: ignore[assignment] # it changes
