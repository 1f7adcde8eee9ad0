"""`tieline`, also as `python -m gateway`."""

from gateway.cli.main import cli


def main() -> None:
    """Run the command line."""
    cli(prog_name="tieline")


if __name__ == "__main__":
    main()
