"""The real PgBouncer before a PostgreSQL server, in either of its modes; a package of Debian."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import make_url

STARTS_WITHIN_S = 10.0


@contextmanager
def pooled(address: str, mode: Literal["session", "transaction"]) -> Iterator[str]:
    """The address of the same database behind it. Raises FileNotFoundError where it is not installed."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise FileNotFoundError("pgbouncer")
    url = make_url(address)
    host = url.host or url.query["host"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="tlb", dir="/tmp"))
    folder.chmod(0o755)
    password = f" password={url.password}" if url.password else ""
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={host} port={url.port or 5432} user={url.username}{password}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = {mode}\nignore_startup_parameters = extra_float_digits,options\n"
    )
    # It refuses to be root, and must be able to reach the socket.
    owner = Path(str(host)).owner() if str(host).startswith("/") else "nobody"
    user = ["-u", owner] if os.geteuid() == 0 else []
    process = subprocess.Popen([program, *user, str(settings)], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        behind = url.set(host="127.0.0.1", port=port, query={}, username="any", password="any")
        yield behind.render_as_string(hide_password=False)
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)
