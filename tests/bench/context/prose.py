"""Pages of text with something in them: paragraphs made of a subject's own words, the same for the same dice."""

from random import Random

_WORDS = {
    "batteries": "cell cathode anode lithium capacity cycle degradation electrolyte pack charge temperature",
    "harvests": "wheat yield drought soil nitrogen hectare rainfall season irrigation cultivar forecast",
    "harbours": "container berth tonnage crane vessel draught customs quay throughput backlog pilotage",
    "glaciers": "ice mass balance retreat altimetry melt moraine runoff basin albedo elevation",
    "hospitals": "ward admission triage readmission bed staffing infection discharge waiting clinic ratio",
    "railways": "track signal gauge timetable freight punctuality corridor electrified junction axle delay",
    "refunds": "purchase window receipt condition exchange courier original packaging restocking credit",
    "bread": "dough hydration ferment crust starter proofing flour gluten oven crumb baking",
}
SUBJECTS = {subject: tuple(words.split()) for subject, words in _WORDS.items()}

_OPENINGS = (
    "According to the survey, {a} {verb} {b} by {n} percent over {y}.",
    "The authors argue that {a} and {b} cannot be judged apart, least of all where {c} is scarce.",
    "In {y}, {a} {verb} for the third year, while {b} stayed near {n}.",
    "Critics point out that {c} was measured only where {a} was already high.",
    "A later note corrects the figure for {b} to {n}, with {c} left out.",
    "What {a} means for {b} depends on {c}, and opinions differ about that.",
    "Field teams reported {n} cases in which {a} preceded {b}.",
    "No single measure of {c} captures how {a} {verb} once {b} sets in.",
)
_VERBS = ("rose", "fell", "changed", "lagged", "recovered", "outpaced expectations")


def sentence(dice: Random, subject: str) -> str:
    words = SUBJECTS[subject]
    a, b, c = dice.sample(words, 3)
    made = dice.choice(_OPENINGS).format(
        a=a, b=b, c=c, verb=dice.choice(_VERBS), n=dice.randint(2, 98), y=dice.randint(1998, 2025)
    )
    return made[0].upper() + made[1:]


def paragraph(dice: Random, subject: str, sentences: int) -> str:
    return " ".join(sentence(dice, subject) for _ in range(sentences))


def page(dice: Random, title: str, subject: str, sections: int, facts: list[str]) -> str:
    """A page with a navigation, headings and paragraphs; `facts` stand somewhere in it, each on its own."""
    places = sorted(dice.sample(range(sections), min(len(facts), sections)))
    lines = ["Home | Topics | About | Sign in | Newsletter", "", f"# {title}", ""]
    told = iter(facts)
    for number in range(sections):
        lines += [f"## {number + 1}. {dice.choice(SUBJECTS[subject]).title()}", ""]
        lines += [paragraph(dice, subject, dice.randint(3, 6)), ""]
        if number in places:
            lines += [next(told), ""]
        lines += [paragraph(dice, subject, dice.randint(2, 5)), ""]
    return "\n".join([*lines, "Related: " + ", ".join(SUBJECTS), "© All rights reserved. Cookies help us."])
