"""Finds the JSON in a model's answer, which often stands among words or in a code fence. Pure."""


def json_in(answer: str, *brackets: str) -> str | None:
    """From the first opening bracket to the last that closes it; None where there is no such pair.

    `brackets` are pairs such as "[]", "{}" alone by default; of several the pair that opens first counts.
    """
    spans = [
        (answer.find(opens), answer.rfind(closes)) for opens, closes in (tuple(pair) for pair in brackets or ("{}",))
    ]
    start, end = min(((start, end) for start, end in spans if 0 <= start < end), default=(0, -1))
    return answer[start : end + 1] or None
