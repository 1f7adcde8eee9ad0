"""What a model is told of a person's style: one line, and only where something stands out. Pure."""

from agent.style.detector import WINDOW, Style, StyleDetector

ENOUGH = 5  # messages, before anything is said

# From where on each number says something. The middles are not 0.5 for all of them: plain English chat has a formality
# of about 0.4, German one of 0.5, hardly anybody an energy above 0.2, and ten words a message are a terseness of 0.5.
CASUAL, FORMAL = 0.33, 0.65
LIVELY = 0.65
LONG, SHORT = 0.25, 0.75  # 20 words a message, 6.7
EMOJI = 0.6  # three in the window


def traits_of(style: Style) -> tuple[str, ...]:
    """What stands out, in a word each."""
    found = (
        (style.formality <= CASUAL, "casual"),
        (style.formality >= FORMAL, "formal"),
        (style.energy >= LIVELY, "lively"),
        (style.terseness >= SHORT, "short messages"),
        (style.terseness <= LONG, "long messages with detail"),
        (style.emoji_use >= EMOJI, "emoji"),
    )
    return tuple(words for holds, words in found if holds)


def line_of(detector: StyleDetector) -> str:
    """The line for the newest message's reminder; "" where there is nothing to say (W-69)."""
    count = len(detector.window)
    traits = traits_of(detector.style) if count >= ENOUGH else ()
    if not traits:
        return ""
    lately = f"their last {min(count, WINDOW)} messages"
    return f"How they write ({lately}): {', '.join(traits)}. Let tone and detail suit that where the task allows."
