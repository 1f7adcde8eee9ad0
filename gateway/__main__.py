"""`tieline`, also as `python -m gateway`."""

import gc

from gateway.cli.main import cli

# A start makes half a million objects, 3,000 of them garbage: looking for these takes 0.15 s. `gateway.app` sets
# another number once it has started.
OBJECTS_OF_A_START = 2_000_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(OBJECTS_OF_A_START)
    cli(prog_name="tieline")


if __name__ == "__main__":
    main()
