"""Where a text may be cut: after a newline, else a space, else between two characters as people see them. Pure."""

import unicodedata

_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST_CLUSTER = 64  # code points; what is longer ("Zalgo") is cut wherever needed


def is_grapheme_break(text: str, at: int) -> bool:
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
    if after >= "\u1100" and _is_one_syllable(before, after):
        return False
    if _is_regional(before) and _is_regional(after):
        run = at
        while run and _is_regional(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 0
    return not ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")


def _is_one_syllable(before: str, after: str) -> bool:
    """Are these parts of one Hangul syllable: a consonant, a vowel, a final consonant (Unicode, UAX 29, GB6 to GB8)?"""
    match _hangul(before):
        case "L":
            return _hangul(after) in ("L", "V", "LV", "LVT")
        case "V" | "LV":
            return _hangul(after) in ("V", "T")
        case "T" | "LVT":
            return _hangul(after) == "T"
    return False


def _hangul(character: str) -> str:
    code = ord(character)
    if 0x1100 <= code < 0x1160 or 0xA960 <= code < 0xA980:
        return "L"
    if 0x1160 <= code < 0x11A8 or 0xD7B0 <= code < 0xD7CB:
        return "V"
    if 0x11A8 <= code < 0x1200 or 0xD7CB <= code < 0xD800:
        return "T"
    if 0xAC00 <= code < 0xD7A4:
        return "LV" if (code - 0xAC00) % 28 == 0 else "LVT"
    return ""


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def last_grapheme_break(text: str, most: int) -> int:
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
        if is_grapheme_break(text, cut):
            return cut
    return most
