"""Money as people read it, everywhere the same. Never a guess: what is not known is not said."""


def money(usd: float | None, *, unpriced: bool = False) -> str:
    """`1.20 USD`; cents are not enough where calls cost less. "" where nothing is known.

    `unpriced`: calls of unknown price came to it, so it is the least that was spent.
    """
    if usd is None or (unpriced and not usd):
        return ""
    shown = f"{usd:.2f}" if usd >= 0.1 or not usd else f"{usd:.4f}"
    return f"≥ {shown} USD" if unpriced else f"{shown} USD"
