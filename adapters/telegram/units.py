"""Telegram counts text in UTF-16 units: lengths, and the way back from such an offset to a Python index. Pure."""


def utf16_len(text: str) -> int:
    """Length in UTF-16 code units, the unit of Telegram's limits and entity offsets."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def index_at(text: str, offset: int) -> int:
    """The index in `text` of a UTF-16 offset; inside a pair it is the character's own, past the end the length."""
    if text.isascii():
        return min(offset, len(text))
    units = 0
    for index, character in enumerate(text):
        if units >= offset:
            return index
        units += 2 if character > "\uffff" else 1
        if units > offset:
            return index
    return len(text)


def cut(text: str, units: int) -> str:
    """The longest beginning of `text` that is at most `units` long."""
    return text if utf16_len(text) <= units else text[: index_at(text, units)]
