"""Product files stay below the limit of `tools/file_sizes.py`."""

import subprocess
import sys

from tools.file_sizes import LIMIT, NOTICE, ROOT


def test_no_product_file_is_too_long() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tools.file_sizes"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    for line in ran.stdout.splitlines():
        assert NOTICE < int(line.split(": ")[1].split()[0]) <= LIMIT
