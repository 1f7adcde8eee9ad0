"""Sets the limits of the process it runs in and becomes the command. Run by its path, alone: it knows nothing of ours.

Arguments: limits as `name=number` (of `resource`, such as CPU), "--", the command.
"""

import os
import resource
import signal
import sys


def launch(words: list[str]) -> None:
    """Never returns but by an error."""
    end = words.index("--")
    for limit in words[:end]:
        name, _, value = limit.partition("=")
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue  # this system has no such limit
        most = resource.getrlimit(kind)[1]
        wanted = int(value) if most == resource.RLIM_INFINITY else min(int(value), most)
        resource.setrlimit(kind, (wanted, wanted))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and its children would
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o077)
    os.execvp(words[end + 1], words[end + 1 :])  # noqa: S606 - words, no shell


if __name__ == "__main__":
    launch(sys.argv[1:])
