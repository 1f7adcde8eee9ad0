"""A person who works on a program: files, searches, tests that fail, commits."""

import json

from tests.bench.context.scribe import Dice, Scribe, hexes

NOUNS = ("order", "parcel", "account", "ledger", "ticket", "route", "sensor", "report", "invoice", "session", "basket")
VERBS = ("load", "store", "merge", "split", "check", "render", "price", "count", "close", "reopen", "archive")
PEOPLE = ("ana", "bo", "cleo", "dirk")
RULES = (
    "You help me with this code base. Keep in mind always: no new dependencies, public functions get a docstring, "
    "and do not touch the migrations. Look at the layout first."
)


class Workshop:
    """A code base of a few dozen files."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.files = [f"src/{noun}s/{verb}_{noun}.py" for noun in NOUNS for verb in dice.sample(VERBS, 4)]

    def session(self, scribe: Scribe, tasks: int) -> None:
        scribe.task(RULES)
        scribe.call(
            "list_files", "\n".join(f"{self.dice.randint(300, 9_000):6d} {name}" for name in self.files), path="src"
        )
        scribe.say(f"{len(self.files)} files in {len(NOUNS)} packages.")
        kinds = (self._bug, self._rename, self._bug, self._history, self._again)
        for number in range(tasks):
            kinds[number % len(kinds)](scribe)

    def _bug(self, scribe: Scribe) -> None:
        dice, path = self.dice, self.dice.choice(self.files)
        noun, module = path.split("/")[1], path.rsplit("/", 1)[1].removesuffix(".py")
        scribe.task(f"The tests of {noun} fail since yesterday. Find the reason and mend it.")
        function = f"{module}_{dice.choice(('row', 'batch', 'total', 'state'))}_{hexes(dice, 3)}"
        test = f"tests/{noun}/test_{module}.py::test_{function}_{dice.randint(2, 40)}"
        scribe.call("run_tests", self._failures(test, path, function), path=f"tests/{noun}")
        scribe.call("read_file", self._source(path, function, dice.many(60, 150)), path=path)
        other = dice.choice(self.files)
        found = [
            f"{dice.choice(self.files)}:{dice.randint(3, 300)}: {function}(conn, {dice.choice(NOUNS)})"
            for _ in range(dice.many(4, 18))
        ]
        scribe.call(
            "search",
            "\n".join([*found, f"{other}:{dice.randint(3, 99)}: from {noun} import {function}"]),
            text=function,
        )
        if dice.random() < 0.6:
            scribe.call("read_file", self._source(other, f"use_{function}", dice.many(40, 110)), path=other)
        scribe.call(
            "edit_file", json.dumps({"changed": 3, "backup": f"bak-{hexes(dice, 6)}"}), path=path, function=function
        )
        scribe.call("run_tests", f"{dice.randint(20, 90)} passed in {dice.uniform(0.4, 9):.2f} s", path=test)
        commit = hexes(dice, 12)
        scribe.call(
            "commit", f"[main {commit}] mend {noun}\n 1 file changed, 3 insertions(+), 2 deletions(-)", paths=[path]
        )
        scribe.say(f"The tests of {noun} pass again; one comparison was the wrong way round.")
        scribe.found(f"the tests of {noun} failed and you mended them", "commit", commit)

    def _rename(self, scribe: Scribe) -> None:
        dice, path = self.dice, self.dice.choice(self.files)
        old = f"legacy_{dice.choice(VERBS)}_{hexes(dice, 4)}"
        scribe.task(f"There is an oddly named function in {path}. Give it a better name everywhere.")
        scribe.call("read_file", self._source(path, old, dice.many(80, 170)), path=path)
        places = dice.sample(self.files, dice.randint(3, 6))
        listing = "\n".join(
            f"{name}:{dice.randint(1, 200)}:    value = {old}({dice.choice(NOUNS)}_id)" for name in places
        )
        scribe.call("search", listing, text=old)
        for name in places[:2]:
            scribe.call("edit_file", json.dumps({"changed": dice.randint(1, 4)}), path=name, function=old)
        scribe.say("It is renamed in all places.")

    def _history(self, scribe: Scribe) -> None:
        dice, path = self.dice, self.dice.choice(self.files)
        scribe.task(f"Who changed {path} last, and was that a good idea?")
        lines = [
            f"{hexes(dice, 12)} 2025-0{dice.randint(1, 9)}-{dice.randint(10, 28)} {dice.choice(PEOPLE)} "
            f"{dice.choice(VERBS)} the {dice.choice(NOUNS)} {dice.choice(('again', 'lazily', 'in one go', 'by key'))}"
            for _ in range(dice.many(20, 50))
        ]
        scribe.call("git_log", "\n".join(lines), path=path)
        commit = lines[0].split(" ", 1)[0]
        diff = "\n".join(f"{dice.choice('+- ')}    {line}" for line in self._source(path, "shown", 60).splitlines())
        scribe.call("git_show", f"commit {commit}\n{diff}", commit=commit)
        scribe.say("It was a reasonable change; only its name misleads.")

    def _again(self, scribe: Scribe) -> None:
        old = scribe.long_ago("commit")
        if old is not None:
            scribe.task(f"Back when {old.about}: put that commit on the release branch too.")
            scribe.call("cherry_pick", f"[release {hexes(self.dice, 12)}] picked", commit=old.value)
            scribe.say("It is on the release branch.")

    def _source(self, path: str, function: str, lines: int) -> str:
        dice = self.dice
        out = [f'"""{path}"""', "", "import json", f"from {dice.choice(NOUNS)}s import {dice.choice(VERBS)}", ""]
        names = [f"{dice.choice(VERBS)}_{dice.choice(NOUNS)}_{hexes(dice, 3)}" for _ in range(lines // 12)]
        names.insert(dice.randrange(len(names) + 1), function)
        for name in names:
            out += ["", f"def {name}(conn, {dice.choice(NOUNS)}, limit={dice.randint(1, 99)}):"]
            for _ in range(dice.many(4, 10)):
                noun, verb = dice.choice(NOUNS), dice.choice(VERBS)
                out.append(
                    dice.choice(
                        (
                            f"    {noun} = {verb}(conn, {dice.choice(NOUNS)}_id, {dice.randint(0, 500)})",
                            f"    if {noun}.state != {dice.randint(0, 9)} and not {verb}({noun}):",
                            f"        raise ValueError(f'{noun} {{{noun}.id}} cannot {verb}')",
                            f"    rows = [row for row in {noun}.rows if row.{verb}ed > {dice.randint(1, 900)}]",
                        )
                    )
                )
            out.append(f"    return {dice.choice(NOUNS)}")
        return "\n".join(out[: lines + 20])

    def _failures(self, test: str, path: str, function: str) -> str:
        dice = self.dice
        dots = ["".join(dice.choice("..........s") for _ in range(72)) for _ in range(dice.many(3, 9))]
        stack = [
            f'  File "{dice.choice(self.files)}", line {dice.randint(1, 300)}, '
            f"in {dice.choice(VERBS)}_{dice.choice(NOUNS)}"
            for _ in range(dice.many(5, 14))
        ]
        return "\n".join(
            [
                *dots,
                f"FAILED {test}",
                *stack,
                f'  File "{path}", line {dice.randint(1, 90)}, in {function}',
                f"AssertionError: {dice.randint(1, 99)} != {dice.randint(100, 199)}",
                "1 failed",
            ]
        )
