"""A person who does research: searches, long pages, data sets, notes with sources."""

import json

from tests.bench.context.prose import SUBJECTS, page, sentence
from tests.bench.context.scribe import Dice, Scribe, csv, hexes

SITES = ("journal.example.org", "data.example.net", "archive.example.com", "news.example.info", "stats.example.eu")
RULES = (
    "I am writing a report and you do the reading. Rules that hold throughout: never use a source older than "
    "1998, note the address of everything you rely on, and mark estimates as such. Begin with an overview of what "
    "we have on bread."
)


class Library:
    """A reader of pages and tables."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def session(self, scribe: Scribe, tasks: int) -> None:
        scribe.task(RULES)
        self._read(scribe, "bread")
        for number in range(tasks):
            subject = self.dice.choice(tuple(SUBJECTS))
            match number % 5:
                case 0 | 2:
                    scribe.task(
                        f"What is known about {subject}? Find a good page and note its main figure with the source."
                    )
                    self._read(scribe, subject)
                case 1 | 3:
                    self._data_set(scribe, subject)
                case _:
                    self._cite(scribe)

    def _read(self, scribe: Scribe, subject: str) -> None:
        dice = self.dice
        hits = self._hits(subject)
        scribe.call("web_search", json.dumps(hits, indent=1), query=f"{subject} overview figures")
        first, second = dice.sample(hits, 2)
        doi = f"10.{dice.randint(1000, 9999)}/{hexes(dice, 8)}"
        figure = f"{dice.randint(10, 99)}.{dice.randint(1, 9)}"
        facts = [f"Cite as doi:{doi}.", f"The central estimate is {figure} percent."]
        scribe.call("open_page", page(dice, str(first["title"]), subject, dice.many(7, 16), facts), url=first["url"])
        scribe.say("This is a long overview; a second source should confirm the figure.")
        scribe.call("open_page", page(dice, str(second["title"]), subject, dice.many(4, 10), []), url=second["url"])
        note = f"note-{hexes(dice, 8)}"
        scribe.call("save_note", json.dumps({"note": note}), source=first["url"], doi=doi, figure=figure)
        scribe.say(f"Noted: {figure} percent, with its source.")
        scribe.found(f"the overview of {subject} with {figure} percent", "doi", doi)

    def _data_set(self, scribe: Scribe, subject: str) -> None:
        dice, words = self.dice, SUBJECTS[subject]
        measure = dice.choice(words)
        scribe.task(f"Get me numbers on {measure} ({subject}), and tell me which region stands out.")
        sets = [
            {
                "dataset": f"ds_{hexes(dice, 10)}",
                "title": f"{dice.choice(words)} by region",
                "rows": dice.randint(50, 9_000),
                "updated": f"{dice.randint(1999, 2025)}-{dice.randint(1, 12):02d}",
                "licence": dice.choice(("CC-BY", "open", "ask")),
            }
            for _ in range(dice.many(6, 12))
        ]
        scribe.call("find_datasets", json.dumps(sets), query=f"{measure} {subject}")
        chosen = dice.choice(sets)
        rows: list[dict[str, object]] = [
            {
                "region": f"{dice.choice('NSEW')}{dice.randint(1, 99):02d}",
                "year": dice.randint(1999, 2025),
                measure: round(dice.uniform(1, 900), 3),
                "samples": dice.randint(3, 5_000),
                "station": f"st{hexes(dice, 5)}",
            }
            for _ in range(dice.many(60, 140))
        ]
        scribe.call("download", csv(rows), dataset=chosen["dataset"])
        top = max(rows, key=lambda row: float(str(row[measure])))
        detail = {
            "station": top["station"],
            "since": dice.randint(1950, 1998),
            "remarks": [sentence(dice, subject) for _ in range(6)],
        }
        scribe.call("station", json.dumps(detail), id=top["station"])
        scribe.call(
            "save_note", json.dumps({"note": f"note-{hexes(dice, 8)}"}), dataset=chosen["dataset"], figure=top[measure]
        )
        scribe.say(f"Region {top['region']} stands out, measured by a station we can trust.")
        scribe.found(f"the table of {measure} about {subject}", "dataset", str(chosen["dataset"]))

    def _cite(self, scribe: Scribe) -> None:
        for what, tool in (("doi", "format_citation"), ("dataset", "cite_dataset")):
            old = scribe.long_ago(what)
            if old is not None:
                scribe.task(f"Add {old.about} to the list of references.")
                scribe.call(tool, json.dumps({"reference": sentence(self.dice, "bread")}), **{what: old.value})
                scribe.say("It is in the list.")

    def _hits(self, subject: str) -> list[dict[str, object]]:
        dice = self.dice
        return [
            {
                "title": sentence(dice, subject).rstrip("."),
                "url": f"https://{dice.choice(SITES)}/{subject}/{dice.randint(1998, 2025)}/{hexes(dice, 6)}",
                "snippet": sentence(dice, subject),
            }
            for _ in range(dice.many(6, 10))
        ]
