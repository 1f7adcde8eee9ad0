"""How somebody types this program's commands where they are: `tieline` alone works only where it is on the PATH."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

NAME = "tieline"
DEFAULT_HOME = "~/.tieline"

# In backticks or, where Markdown is not read, in quotation marks any command of ours; at the beginning of a line those
# that are told so.
_COMMAND = re.compile(
    r"(?m)(?:(?P<quote>[`“„])tieline (?=[a-z])"
    r"|^tieline (?=(?:run|console|sign-in|init|doctor|restore|pair|inbox|outbox|dead)\b))"
    r"(?P<rest>[^`“”\n]*)"
)


def program_as_typed(*, to_unpaired: bool = False) -> str:
    """Its name, its path from the working directory, or all of its path; strangers are not told where it lies."""
    script = Path(sys.executable).with_name(NAME)
    return spelled(script, found=shutil.which(NAME), here=Path.cwd(), to_unpaired=to_unpaired)


def spelled(script: Path, *, found: str | None, here: Path, to_unpaired: bool = False) -> str:
    """How `script` is typed in the directory `here`, where a shell takes its bare name for `found` (None: nothing)."""
    if not script.exists() or (found is not None and os.path.samefile(found, script)):
        return NAME
    if script.is_relative_to(here) and here != here.parent:  # a service is started in the root directory
        return str(script.relative_to(here))
    return NAME if to_unpaired else shlex.quote(str(script))


def home_as_typed(home: Path) -> str:
    """The option that names the data directory, with a blank before it; nothing where it is the usual one."""
    return "" if home == Path(DEFAULT_HOME).expanduser() else f" --home {shlex.quote(str(home))}"


def as_typed(text: str, options: str = "", *, to_unpaired: bool = False) -> str:
    """`text`, its commands (in backticks, or at the beginning of a line) as they can be typed here."""
    return with_program(program_as_typed(to_unpaired=to_unpaired), text, options)


def with_program(program: str, text: str, options: str = "") -> str:
    """`text`, its commands beginning with `program` and ending with `options`; one with a data directory keeps it."""

    def typed(found: re.Match[str]) -> str:
        rest = found["rest"]
        return f"{found['quote'] or ''}{program} {rest}{'' if ' --home ' in f'{rest} ' else options}"

    return _COMMAND.sub(typed, text)


def with_home(text: str, home: Path) -> str:
    """`text`, its commands naming that data directory: for whoever reads it in another place than it was written."""
    return with_program(NAME, text, home_as_typed(home))
