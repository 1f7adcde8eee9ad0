"""A person who keeps books: queries over tables, invoices, statements, bookings."""

import json

from tests.bench.context.scribe import Dice, Scribe, csv, hexes, table

FIRMS = (
    "Aldgate Ltd",
    "Borg AS",
    "Cima SpA",
    "Delft BV",
    "Elm GmbH",
    "Fjord AB",
    "Glen Inc",
    "Hana KK",
    "Isla SA",
    "Jura SARL",
)
ACCOUNTS = ("travel", "rent", "software", "wages", "freight", "repairs", "insurance", "advertising")
DEEDS = ("created", "approved", "changed", "viewed")
RULES = (
    "You help me close the quarter. What always holds: book nothing above 10,000 without my yes, use the value "
    "date and not the booking date, and keep cents. To begin with, show me the open periods."
)


class Ledger:
    """The books of one firm."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def session(self, scribe: Scribe, tasks: int) -> None:
        scribe.task(RULES)
        periods: list[dict[str, object]] = [
            {
                "period": f"2025-{month:02d}",
                "state": self.dice.choice(("open", "closing")),
                "entries": self.dice.randint(90, 900),
            }
            for month in range(1, 10)
        ]
        scribe.call("periods", table(periods), year=2025)
        scribe.say("Nine periods are not closed yet.")
        kinds = (self._unmatched, self._report, self._unmatched, self._invoice, self._again)
        for number in range(tasks):
            kinds[number % len(kinds)](scribe)

    def _unmatched(self, scribe: Scribe) -> None:
        dice, firm = self.dice, self.dice.choice(FIRMS)
        month = f"2025-{dice.randint(1, 9):02d}"
        scribe.task(f"A payment to {firm} in {month} has no invoice. Match it.")
        rows = [self._entry(month, dice.choice(FIRMS)) for _ in range(dice.many(35, 80))]
        hit = dice.randrange(len(rows))
        rows[hit] |= {"payee": firm, "matched": "no"}
        scribe.call("query", csv(rows), sql=f"select * from payments where period = '{month}' order by value_date")
        entry = rows[hit]
        invoices: list[dict[str, object]] = [
            {
                "invoice": f"{firm[:3].upper()}/{dice.randint(2023, 2025)}/{dice.randint(1000, 9999)}",
                "amount": f"{dice.uniform(40, 9_000):.2f}",
                "due": f"{month}-{dice.randint(10, 28)}",
                "state": dice.choice(("open", "open", "paid")),
            }
            for _ in range(dice.many(8, 20))
        ]
        chosen = dice.choice(invoices)
        chosen["amount"] = entry["amount"]
        scribe.call("invoices", table(invoices), firm=firm)
        scribe.call("read_invoice", self._paper(firm, chosen, entry), invoice=chosen["invoice"])
        scribe.say(f"One invoice of {firm} has the very amount. Shall I match them?")
        scribe.user("Please do.")
        booking = f"BK-{hexes(dice, 9)}"
        done = json.dumps({"booking": booking, "difference": "0.00"})
        scribe.call("match", done, entry=entry["entry"], invoice=chosen["invoice"], amount=entry["amount"])
        scribe.say("They are matched and the difference is nil.")
        scribe.found(f"the unmatched payment to {firm} in {month}", "booking", booking)

    def _report(self, scribe: Scribe) -> None:
        dice, account = self.dice, self.dice.choice(ACCOUNTS)
        scribe.task(f"Where did the money for {account} go this year? Flag the largest entry.")
        rows = [self._entry(f"2025-{dice.randint(1, 9):02d}", dice.choice(FIRMS)) for _ in range(dice.many(50, 110))]
        scribe.call("query", csv(rows), sql=f"select * from entries where account = '{account}'")
        largest = max(rows, key=lambda row: float(str(row["amount"])))
        scribe.call(
            "entry_history",
            "\n".join(
                f"2025-0{dice.randint(1, 9)}-{dice.randint(10, 28)} {dice.choice(DEEDS)} by u{dice.randint(10, 99)} "
                f"from {hexes(dice, 8)}"
                for _ in range(dice.many(10, 30))
            ),
            entry=largest["entry"],
        )
        scribe.call("flag", json.dumps({"ok": True}), entry=largest["entry"], cost_centre=largest["cost_centre"])
        scribe.say(f"Most went to {largest['payee']}; I flagged that entry.")

    def _invoice(self, scribe: Scribe) -> None:
        dice, firm = self.dice, self.dice.choice(FIRMS)
        scribe.task(f"Write an invoice to {firm} for the hours of last month.")
        sheet: list[dict[str, object]] = [
            {
                "sheet": f"ts{hexes(dice, 7)}",
                "who": f"u{dice.randint(10, 99)}",
                "hours": dice.randint(1, 40),
                "rate": dice.choice((80, 95, 120)),
                "project": f"P{dice.randint(100, 999)}-{dice.choice('XYZ')}",
            }
            for _ in range(dice.many(20, 50))
        ]
        scribe.call("timesheets", table(sheet), firm=firm)
        address = {
            "firm": firm,
            "tax_id": f"EU{dice.randint(10**8, 10**9 - 1)}",
            "terms": [f"clause {n}: {hexes(dice, 20)}" for n in range(12)],
        }
        scribe.call("contact", json.dumps(address, indent=2), firm=firm)
        used = [row["sheet"] for row in sheet[:4]]
        number = f"OUT-{dice.randint(20_000, 29_999)}"
        scribe.call(
            "draft_invoice", json.dumps({"invoice": number, "state": "draft"}), tax_id=address["tax_id"], sheets=used
        )
        scribe.call("send_invoice", json.dumps({"ok": True}), invoice=number)
        scribe.say(f"The invoice to {firm} is out.")
        scribe.found(f"the invoice to {firm} for the hours", "number", number)

    def _again(self, scribe: Scribe) -> None:
        for what, tool, words in (
            ("booking", "reverse", "was wrong after all: reverse that booking"),
            ("number", "remind", "is overdue: send a reminder"),
        ):
            old = scribe.long_ago(what)
            if old is not None:
                scribe.task(f"{old.about[0].upper()}{old.about[1:]} {words}.")
                scribe.call(tool, json.dumps({"ok": True}), **{what: old.value})
                scribe.say("That is done.")

    def _entry(self, month: str, firm: str) -> dict[str, object]:
        dice = self.dice
        return {
            "entry": f"E{dice.randint(10**7, 10**8 - 1)}",
            "value_date": f"{month}-{dice.randint(10, 28)}",
            "payee": firm,
            "amount": f"{dice.uniform(12, 9_900):.2f}",
            "cost_centre": f"CC{dice.randint(1000, 9999)}",
            "matched": "yes",
        }

    def _paper(self, firm: str, invoice: dict[str, object], entry: dict[str, object]) -> str:
        dice = self.dice
        lines = [
            f"{dice.randint(1, 30):3d} x {dice.choice(ACCOUNTS):12} {dice.uniform(5, 400):9.2f}  item {hexes(dice, 6)}"
            for _ in range(dice.many(10, 35))
        ]
        return "\n".join(
            [
                f"INVOICE {invoice['invoice']}",
                firm,
                f"Your reference: {entry['cost_centre']}",
                "",
                *lines,
                "",
                f"Total {invoice['amount']} EUR",
                "Payable within 30 days. Our terms of trade apply and are printed overleaf.",
            ]
        )
