"""When a run that may end in silence has nothing to tell. Pure."""

NOTHING = "NOTHING TO REPORT"  # what the model is asked to answer then


def is_silence(text: str) -> bool:
    """Whether the answer says that there is nothing to say; also without any words, in other letters, or dressed up."""
    words = text.strip().strip("*_`\"'.!()[]").strip()
    return not words or words.casefold() == NOTHING.casefold()
