"""People behind a shop's counter: orders, customers, parcels, stock, refunds."""

import json

from tests.bench.context.prose import page
from tests.bench.context.scribe import Dice, Scribe, csv, hexes

FIRST = ("Ada", "Bela", "Chen", "Dara", "Emre", "Fatou", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena", "Mika", "Noor")
LAST = (
    "Okoye",
    "Larsen",
    "Petrov",
    "Quinn",
    "Rossi",
    "Sato",
    "Tamm",
    "Urbina",
    "Vogel",
    "Weiss",
    "Xu",
    "Yilmaz",
    "Zoric",
)
GOODS = ("kettle", "lamp", "backpack", "tent", "notebook", "keyboard", "teapot", "blanket", "scarf", "bottle", "clock")
CARRIERS = ("NordPost", "Blitz", "Hermod", "Union Parcel")
EVENTS = ("sorted at", "left", "arrived at", "scanned in", "held in")
RULES = (
    "You answer for our shop. Please keep to this for the whole day: refunds above 250 euros need my word first, "
    "never give a customer's address to anyone, and write amounts with two decimals. First: what came back "
    "yesterday?"
)


class Shop:
    """One shop with its customers and their orders."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.people = [f"{dice.choice(FIRST)} {dice.choice(LAST)}" for _ in range(40)]

    def session(self, scribe: Scribe, tasks: int) -> None:
        scribe.task(RULES)
        self._returns(scribe)
        kinds = (self._complaint, self._stock, self._complaint, self._parcel, self._again)
        for number in range(tasks):
            kinds[number % len(kinds)](scribe)

    def _returns(self, scribe: Scribe) -> None:
        rows: list[dict[str, object]] = [
            {
                "return_id": f"RT{self.dice.randint(100_000, 999_999)}",
                "item": self.dice.choice(GOODS),
                "reason": self.dice.choice(("damaged", "late", "wrong size", "unwanted")),
                "value": self._money(),
            }
            for _ in range(self.dice.many(10, 25))
        ]
        scribe.call("list_returns", csv(rows), day="yesterday")
        scribe.say(f"{len(rows)} items came back yesterday.")

    def _complaint(self, scribe: Scribe) -> None:
        dice, who, item = self.dice, self.dice.choice(self.people), self.dice.choice(GOODS)
        scribe.task(f"{who} complains that the {item} arrived broken. Sort it out.")
        customer = f"cus_{hexes(dice, 9)}"
        hits = [
            {
                "customer_id": customer if n == 0 else f"cus_{hexes(dice, 9)}",
                "name": who if n == 0 else dice.choice(self.people),
                "email": f"{dice.choice(FIRST).lower()}{dice.randint(10, 99)}@example.org",
                "since": dice.randint(2009, 2024),
                "orders": dice.randint(1, 60),
            }
            for n in range(dice.many(3, 9))
        ]
        scribe.call("find_customer", json.dumps(hits), name=who)
        orders = [self._order(item if n == 1 else dice.choice(GOODS)) for n in range(dice.many(4, 9))]
        scribe.call("list_orders", json.dumps(orders, indent=2), customer_id=customer)
        order = orders[1]
        payment = f"pay_{hexes(dice, 14)}"
        detail = order | {
            "payment": {
                "payment_id": payment,
                "method": dice.choice(("card", "transfer", "voucher")),
                "captured": True,
            },
            "history": [
                {"at": f"2025-0{dice.randint(1, 6)}-{dice.randint(10, 28)}", "event": event, "by": hexes(dice, 6)}
                for event in ("placed", "paid", "picked", "packed", "handed over", "delivered")
            ],
        }
        scribe.call("get_order", json.dumps(detail, indent=2), order_id=order["order_id"])
        if dice.random() < 0.5:
            terms = page(
                dice,
                "Returns and refunds",
                "refunds",
                dice.randint(3, 7),
                ["Broken goods: full refund within 60 days."],
            )
            scribe.call("read_policy", terms, topic="broken goods")
        scribe.say(f"The {item} was bought for {order['total']} euros and may be refunded in full. Shall I?")
        scribe.user(dice.choice(("Yes please.", "Yes, and apologise for us.", "Go ahead.")))
        refund = f"rf_{hexes(dice, 10)}"
        done = json.dumps({"refund_id": refund, "state": "booked"})
        scribe.call("refund", done, payment_id=payment, order_id=order["order_id"], amount=order["total"])
        scribe.call("write_to_customer", json.dumps({"sent": True}), customer_id=customer, about=refund)
        scribe.say(f"Done: {who} gets {order['total']} euros back and a kind letter.")
        scribe.found(f"{who}'s broken {item}", "customer", customer)
        scribe.found(f"{who}'s broken {item}", "refund", refund)

    def _stock(self, scribe: Scribe) -> None:
        dice, item = self.dice, self.dice.choice(GOODS)
        scribe.task(f"Are we running out of any {item}? Reorder the lowest one.")
        rows: list[dict[str, object]] = [
            {
                "sku": f"{item[:3].upper()}-{dice.randint(1000, 9999)}-{dice.choice('RGBKW')}",
                "shelf": f"{dice.choice('ABCDEF')}{dice.randint(1, 40)}",
                "on_hand": dice.randint(0, 300),
                "reserved": dice.randint(0, 40),
                "supplier": f"SUP{dice.randint(100, 999)}",
                "price": self._money(),
            }
            for _ in range(dice.many(30, 80))
        ]
        scribe.call("stock", csv(rows), item=item)
        lowest = min(rows, key=lambda row: int(str(row["on_hand"])))
        offer = [
            {"supplier": lowest["supplier"], "quote_id": f"Q-{hexes(dice, 7)}", "pieces": n, "price": self._money()}
            for n in (50, 100, 250)
        ]
        scribe.call("supplier_quotes", json.dumps(offer), supplier=lowest["supplier"], sku=lowest["sku"])
        scribe.call("reorder", json.dumps({"ok": True}), quote_id=offer[1]["quote_id"], sku=lowest["sku"])
        scribe.say(f"I ordered 100 more; only {lowest['on_hand']} were left.")

    def _parcel(self, scribe: Scribe) -> None:
        dice, who = self.dice, self.dice.choice(self.people)
        scribe.task(f"Where is the parcel of {who}? They have been waiting for a week.")
        number = f"{dice.choice('NBHU')}{dice.randint(10**10, 10**11 - 1)}"
        parcels = [
            {
                "tracking": number if n == 2 else f"N{dice.randint(10**10, 10**11 - 1)}",
                "carrier": dice.choice(CARRIERS),
                "to": who if n == 2 else dice.choice(self.people),
                "weight_g": dice.randint(80, 9_000),
            }
            for n in range(dice.many(5, 14))
        ]
        scribe.call("open_parcels", json.dumps(parcels), name=who)
        events = "\n".join(
            f"2025-06-{dice.randint(1, 28):02d} {dice.randint(0, 23):02d}:{dice.randint(0, 59):02d} "
            f"{dice.choice(EVENTS)} depot {dice.randint(100, 999)} {hexes(dice, 6)}"
            for _ in range(dice.many(15, 45))
        )
        claim = f"CLM{dice.randint(10**6, 10**7 - 1)}"
        scribe.call("track", events, tracking=number)
        scribe.call("open_claim", json.dumps({"claim": claim, "days": 14}), tracking=number)
        scribe.say("It went round in circles; a claim is open and will be answered within 14 days.")
        scribe.found(f"the lost parcel of {who}", "claim", claim)

    def _again(self, scribe: Scribe) -> None:
        for what, words, tool in (
            ("refund", "has the refund for {about} been paid out by now?", "refund_state"),
            ("claim", "any news about {about}? Ask the carrier.", "ask_carrier"),
        ):
            old = scribe.long_ago(what)
            if old is not None:
                scribe.task(f"One more thing: {words.format(about=old.about)}")
                scribe.call(
                    tool, json.dumps({"state": self.dice.choice(("paid", "pending"))}), **{f"{what}_id": old.value}
                )
                scribe.say("I looked it up; it is on its way.")

    def _order(self, item: str) -> dict[str, object]:
        dice = self.dice
        lines = [
            {
                "sku": f"{thing[:3].upper()}-{dice.randint(1000, 9999)}",
                "item": thing,
                "qty": dice.randint(1, 4),
                "price": self._money(),
            }
            for thing in (item, *dice.sample(GOODS, dice.randint(0, 3)))
        ]
        return {
            "order_id": f"#{dice.choice('KLM')}{dice.randint(100_000, 999_999)}",
            "placed": f"2025-0{dice.randint(1, 6)}-{dice.randint(10, 28)}",
            "total": self._money(),
            "lines": lines,
            "state": "delivered",
        }

    def _money(self) -> str:
        return f"{self.dice.uniform(4, 240):.2f}"
