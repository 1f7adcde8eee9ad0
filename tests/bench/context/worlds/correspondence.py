"""A person who pastes long mail threads and documents to have them filed: people's words fill the window.

Some weeks bring one long thing at a time, others a burst: a thread of many pages, or several documents in one message.
"""

import json

from tests.bench.context.prose import SUBJECTS, page, paragraph
from tests.bench.context.scribe import Dice, Scribe, hexes

RULES = (
    "You keep my correspondence. Rules that hold throughout: never answer a letter without asking me, file everything "
    "under its case number, and write dates as in 2025-03-04. Begin with what is open."
)
LONGEST = 30_000  # characters of one message: what a person may send at once is not much more


class Correspondence:
    """A person with many letters and an assistant that files them."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def session(self, scribe: Scribe, tasks: int) -> None:
        scribe.task(RULES)
        self._cases(scribe)
        for number in range(tasks):
            subject = self.dice.choice(tuple(SUBJECTS))
            match number % 6:
                case 0 | 2:
                    self._letter(scribe, subject, self.dice.many(1, 3))
                case 1 | 3:
                    self._chase(scribe)
                case 4:
                    self._letter(scribe, subject, self.dice.many(9, 14))
                case _:
                    self._attachments(scribe, subject)

    def _letter(self, scribe: Scribe, subject: str, pages: int) -> None:
        """A person pastes a letter of so many pages and has it filed."""
        dice = self.dice
        text = "\n\n".join(
            f"On {dice.randint(2020, 2025)}-{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d} they wrote:\n"
            + paragraph(dice, subject, dice.randint(14, 22))
            for _ in range(pages)
        )
        scribe.task(f"File this about {subject}, please, and tell me what they want.\n\n{text}"[:LONGEST])
        self._filed(scribe, subject)

    def _attachments(self, scribe: Scribe, subject: str) -> None:
        """Long documents come by tool, several for one task."""
        dice = self.dice
        scribe.task(f"Read what was attached to the newest mail about {subject} and file all of it.")
        names = [f"{subject}-{hexes(dice, 5)}.txt" for _ in range(dice.many(2, 4))]
        scribe.call("list_attachments", json.dumps(names), about=subject)
        for name in names:
            scribe.call("read_attachment", page(dice, name, subject, dice.many(5, 9), []), name=name)
        self._filed(scribe, subject)

    def _filed(self, scribe: Scribe, subject: str) -> None:
        dice = self.dice
        case = f"C-{dice.randint(1000, 9999)}-{hexes(dice, 4)}"
        opened = {"case": case, "subject": subject, "due": f"2025-{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d}"}
        scribe.call("open_case", json.dumps(opened), subject=subject)
        scribe.call("file_under", json.dumps({"filed": True, "page": hexes(dice, 6)}), case=case)
        scribe.say(f"Filed. They want an answer about {dice.choice(SUBJECTS[subject])}.")
        scribe.found(f"the letter about {subject} filed lately", "case", case)

    def _cases(self, scribe: Scribe) -> None:
        rows = [{"case": f"C-{number}", "state": self.dice.choice(("open", "waiting"))} for number in range(100, 112)]
        scribe.call("list_cases", json.dumps(rows), state="all")
        scribe.say("Twelve cases are open or waiting.")

    def _chase(self, scribe: Scribe) -> None:
        old = scribe.long_ago("case")
        if old is None:
            return
        scribe.task(f"What became of {old.about}?")
        scribe.call("case_history", json.dumps({"events": [paragraph(self.dice, "refunds", 6)] * 3}), case=old.value)
        scribe.say("They still wait for us.")
