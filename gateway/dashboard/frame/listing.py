"""Tables that the server sorts, filters and pages: the request's words, checked. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

Row = TypeVar("Row")

PAGE = 50  # rows
LONGEST_FIND = 200  # characters
MOST_PAGES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A look at a table. `find` are words to look for, `sort` a column, `page` counts from 1.

    `chosen` are the other filters, by name; "" where nothing is chosen.
    """

    find: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 1
    chosen: Mapping[str, str]

    @property
    def skip(self) -> int:
        """Rows before the first one of the page."""
        return (self.page - 1) * PAGE

    def address(self, **changed: object) -> str:
        """The query string of this look with some of it changed; a change of anything begins at the first page."""
        values: dict[str, object] = {
            "find": self.find,
            "sort": self.sort,
            "descending": "1" if self.descending else "",
            **self.chosen,
            **changed,
        }
        return "?" + urlencode({name: value for name, value in values.items() if value not in ("", None, False)})

    def by(self, column: str) -> str:
        """The query string that sorts by this column: the other way round where it does already."""
        return self.address(sort=column, descending="" if self.sort != column or self.descending else "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[Row]):
    """A page of rows. `more`: there is a next one."""

    rows: Sequence[Row]
    asked: Asked
    more: bool


def asked(
    query: Mapping[str, str],
    *,
    columns: Sequence[str] = (),
    descending: Collection[str] = (),
    filters: Mapping[str, Collection[str]] | None = None,
) -> Asked:
    """The words of a request. An unknown column, page or choice counts as none: an old address still shows the page.

    The first of `columns` sorts where nothing else does; those in `descending` begin with their largest. `filters` are
    names with their choices; without any choice, every text is one.
    """
    named = query.get("sort", "")
    sort = named if named in columns else columns[0] if columns else ""
    falls = query.get("descending") == "1" if named in columns else sort in descending
    page = query.get("page", "")
    number = min(int(page), MOST_PAGES) if page.isascii() and page.isdigit() and len(page) < 9 else 1
    chosen = {
        name: value if (value := query.get(name, "")[:LONGEST_FIND]) in choices or not choices else ""
        for name, choices in (filters or {}).items()
    }
    find = " ".join(query.get("find", "")[:LONGEST_FIND].split())
    return Asked(find=find, sort=sort, descending=falls, page=max(1, number), chosen=chosen)


def listing(rows: Sequence[Row], look: Asked) -> Listing[Row]:
    """The page of rows that were read with one more than fit."""
    return Listing(rows=rows[:PAGE], asked=look, more=len(rows) > PAGE)


def listed(
    rows: Sequence[Row], look: Asked, *, key: Callable[[Row], object], words: Callable[[Row], str]
) -> Listing[Row]:
    """The page of rows that are all in memory: those with the words looked for, sorted by `key`."""
    sought = look.find.casefold()
    found = sorted(
        (row for row in rows if sought in words(row).casefold()),
        key=key,  # type: ignore[arg-type]
        reverse=look.descending,
    )
    return listing(found[look.skip : look.skip + PAGE + 1], look)
