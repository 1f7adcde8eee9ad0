"""Optional libraries: whether one is installed, and the command that installs its extra where this program lies.

The command never names the package as a public index would: that name is not ours there.
"""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path


def is_installed(library: str) -> bool:
    """Whether it can be imported; it is not imported for that."""
    return find_spec(library) is not None


def how_to_install(extra: str) -> str:
    """The command for that extra, for the environment that this program runs in."""
    source = Path(__file__).parents[2]
    try:
        release = version("tieline")
    except PackageNotFoundError:
        release = "…"
    return command_for(
        extra,
        clone=source if (source / "pyproject.toml").exists() else None,
        python=sys.executable,
        has_pip=is_installed("pip"),
        release=release,
    )


def command_for(extra: str, *, clone: Path | None, python: str, has_pip: bool, release: str) -> str:
    """The command for a clone, else for a wheel and for the source that this was installed from. Pure."""
    if clone is not None:
        return f"`make setup` in {clone} installs it"
    pip = f"{shlex.quote(python)} -m pip install" if has_pip else f"uv pip install --python {shlex.quote(python)}"
    wheel = f"./tieline-{release}-py3-none-any.whl"
    return f"install it: {pip} '{wheel}[{extra}]' where the wheel lies, or {pip} '.[{extra}]' in the source"
