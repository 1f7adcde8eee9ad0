"""What a request is about, as a few words that requests of one kind have in common (W-56). Pure."""

import hashlib
import re
import unicodedata

WORDS = 3
SHORTEST_WORD = 2
LONGEST_NAME = 80  # of a directory
LONGEST_SIGNATURE = 200
BEGINNING = 2_000  # characters of a text that are looked at
_MARK = 6  # digits that keep names apart which would be one without their letters

_SPLIT = re.compile(r"[\W_]+")
_MASKED = "[redacted]"  # what stands in place of a secret
_FOREIGN = re.compile(r"[^a-z0-9-]+")

# Words that most requests have, whatever they are about: English and German, the languages of the gateway.
_COMMON = """
a about above after again all also am an and any are as at be because been before being below between both but by
can could did do does doing done down each few for from further get give go got had has have having he hello help
her here hers hey hi him his how i if in into is it its itself just know let like lot make many may maybe me might
mine more most much must my myself need no nor not now of off ok okay on once one only or other our ours out over
own please put really same say see shall she should show so some such sure tell than thank thanks that the their
them then there these they this those through to too under until up us use very want was we well were what when
where which while who whom why will with without would yes yet you your yours

aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist bitte brauche da
damit danke dann das dass dein deine deinem deinen deiner dem den denn der des dich die dies diese diesem diesen
dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer für gegen gib habe haben
hallo hat hatte hier hin ich ihm ihn ihnen ihr ihre im immer in ins ist ja jede jeden jeder jetzt kann kannst kein
keine können könnte könntest mach mache machen man mein meine meinem meinen meiner mich mir mit möchte muss nach
nein nicht noch nun nur ob oder ohne schon sehr sein seine sich sie sind so soll sollte über um und uns unser unter
viel vom von vor war warum was weil wenn wer werden wie wieder will wir wird wo würde würdest zeig zeige zu zum zur
"""
STOP_WORDS = frozenset(_COMMON.split())


def signature_of(text: str) -> str:
    """The three longest telling words of a text, in the order of the alphabet, joined by "-"; "" if there is none."""
    said = text[:BEGINNING].replace(_MASKED, " ").lower()
    seen = dict.fromkeys(word for word in _SPLIT.split(said) if len(word) >= SHORTEST_WORD and word not in STOP_WORDS)
    longest = sorted(seen, key=len, reverse=True)[:WORDS]  # a stable sort: among equals the first seen
    return "-".join(sorted(longest))[:LONGEST_SIGNATURE]


def name_of(signature: str) -> str:
    """The signature as the name of a directory: `[a-z0-9-]`, at most 80; what it loses is made up for by a mark."""
    folded = unicodedata.normalize("NFKD", signature.casefold())
    plain = "".join(letter for letter in folded if not unicodedata.combining(letter))
    name = re.sub("-{2,}", "-", _FOREIGN.sub("", plain)).strip("-")
    if name and name == plain and len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(signature.encode("utf-8", "replace")).hexdigest()[:_MARK]
    return f"{name[: LONGEST_NAME - _MARK - 1] or 'skill'}-{mark}"
