"""Makes the package of an adapter of the template: `tieline-new-adapter FOLDER`, with the options of `copier copy`."""

import subprocess
import sys
from pathlib import Path

# In the wheel beside this module, in a checkout at its top.
PLACES = (Path(__file__).parent / "adapter_template", Path(__file__).parent.parent.parent / "template")


def template() -> Path:
    """The folder of the template. Raises FileNotFoundError for an installation that is damaged."""
    for place in PLACES:
        if (place / "copier.yml").exists():
            return place
    raise FileNotFoundError(f"the template is not there: {PLACES[0]}")


def main() -> None:
    *options, folder = sys.argv[1:] or ["--help"]
    command = [sys.executable, "-m", "copier", "copy", *options, str(template()), folder]
    sys.exit(subprocess.run(command, check=False).returncode)  # noqa: S603 - what its user typed


if __name__ == "__main__":
    main()
