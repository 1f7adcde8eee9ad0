"""`tieline`, also as `python -m gateway`."""

import gc

from gateway.cli.main import cli

# A start makes half a million objects that stay. Looking through them for garbage every 700, as is usual, takes 0.15 s.
OBJECTS_BETWEEN_LOOKS = 50_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(OBJECTS_BETWEEN_LOOKS)
    cli(prog_name="tieline")


if __name__ == "__main__":
    main()
