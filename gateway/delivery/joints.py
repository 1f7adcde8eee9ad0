"""Where a text may be cut: after a newline, else a space, else between two characters as people see them. Pure."""

import unicodedata

_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST_CLUSTER = 64  # code points; what is longer ("Zalgo") is cut wherever needed


def is_joint(text: str, at: int) -> bool:
    """May `text` be cut before index `at` without tearing a character, an emoji or a flag in two?"""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after < "\u0300":
        return not (before == "\r" and after == "\n") and before != _ZERO_WIDTH_JOINER
    if after == _ZERO_WIDTH_JOINER or before == _ZERO_WIDTH_JOINER:
        return False
    if unicodedata.category(after)[0] == "M" or "\U0001f3fb" <= after <= "\U0001f3ff" or after >= "\U000e0020":
        return False  # combining marks and variation selectors, skin tones, flag tags
    if _is_regional(before) and _is_regional(after):
        run = at
        while run and _is_regional(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 0
    return not ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def last_joint(text: str, most: int) -> int:
    """The best place to cut so that at most `most` code points come before it; at least 1, at most `len(text)`.

    The newline or space stays with what comes before. Neither side is blank if that can be helped: platforms refuse
    blank messages.
    """
    if most >= len(text):
        return len(text)
    for separator in ("\n", " "):
        cut = text.rfind(separator, 0, most) + 1
        while cut:
            if text[:cut].isspace():
                break
            if not text[cut:].isspace():
                return cut
            cut = text.rfind(separator, 0, cut - 1) + 1
    # What follows must hold something to see: step back before the last visible character if need be.
    visible = len(text.rstrip())
    most = max(1, min(most, visible - 1)) if visible else most
    for cut in range(most, max(0, most - _LONGEST_CLUSTER), -1):
        if is_joint(text, cut):
            return cut
    return most
