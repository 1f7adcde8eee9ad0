"""Phase of a migration by its statements: whether processes of the version before can run beside it. Pure."""

import re
from collections.abc import Iterator, Sequence

CREATES = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?\"?(\w+)", re.IGNORECASE)
ADDS = re.compile(
    r"ALTER TABLE (?:ONLY )?\"?(\w+)\"? ADD (?:COLUMN )?(?:IF NOT EXISTS )?\"?(\w+)\"?(.*)", re.IGNORECASE | re.DOTALL
)
UPDATES = re.compile(r"UPDATE (?:ONLY )?\"?(\w+)\"? SET (.*?)(?: WHERE .*)?$", re.IGNORECASE | re.DOTALL)
SETS = re.compile(r"\"?(\w+)\"?\s*=")
DELETES = re.compile(r"(?:DELETE FROM|TRUNCATE(?: TABLE)?) \"?(\w+)", re.IGNORECASE)
UNIQUE = re.compile(r"CREATE UNIQUE INDEX .*? ON \"?(\w+)", re.IGNORECASE | re.DOTALL)
ALTERS = re.compile(r"ALTER TABLE (?:ONLY )?\"?(\w+)\"? (.*)", re.IGNORECASE | re.DOTALL)
TAKES_AWAY = re.compile(r"DROP |TRUNCATE |ALTER (?:VIEW|TYPE|SEQUENCE|INDEX) ", re.IGNORECASE)
OWN = {"alembic_version"}


def contracting(statements: Sequence[str]) -> Iterator[str]:
    """Statements of a migration after which a process of the version before may fail, or read other rows.

    What the migration has itself made may be changed freely.
    """
    made, added = set(OWN), set[str]()
    for statement in map(str.strip, statements):
        if found := CREATES.match(statement):
            made.add(found[1])
        elif found := ADDS.match(statement):
            table, column, rest = found[1], found[2], found[3].upper()
            if column.upper() in ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"):
                if table not in made:
                    yield statement
            else:
                added.add(f"{table}.{column}")
                if table not in made and "NOT NULL" in rest and "DEFAULT" not in rest:
                    yield statement
        elif found := ALTERS.match(statement):
            if found[1] not in made and not re.match(
                r"ALTER (COLUMN )?\S+ (DROP NOT NULL|SET DEFAULT)", found[2], re.IGNORECASE
            ):
                yield statement
        elif TAKES_AWAY.match(statement):
            yield statement
        elif found := UPDATES.match(statement):
            changed = {f"{found[1]}.{column}" for column in SETS.findall(found[2])}
            if found[1] not in made and not changed <= added:
                yield statement
        elif ((found := DELETES.match(statement)) or (found := UNIQUE.match(statement))) and found[1] not in made:
            yield statement


def phase_of(statements: Sequence[str]) -> str:
    """`expand` or `contract`."""
    return "contract" if any(contracting(statements)) else "expand"
