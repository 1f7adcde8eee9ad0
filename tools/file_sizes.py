"""Fails on product files over 800 lines, and names those over 600."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOTICE, LIMIT = 600, 800


def main() -> int:
    sizes = {
        path.relative_to(ROOT): len(path.read_text().splitlines())
        for storey in ("agent", "gateway", "adapters", "tools")
        for path in (ROOT / storey).rglob("*.py")
    }
    long = sorted(((size, path) for path, size in sizes.items() if size > NOTICE), reverse=True)
    for size, path in long:
        advice = f"over {LIMIT}, split it" if size > LIMIT else "look for the second idea"
        print(f"{path}: {size} lines: {advice}")
    return 1 if any(size > LIMIT for size, _ in long) else 0


if __name__ == "__main__":
    sys.exit(main())
