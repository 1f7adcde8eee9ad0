"""How pydantic reads a section of the configuration: no key that nobody knows, no number that is none.

A plain mapping, so that the modules which declare sections need not import pydantic.
"""

from typing import Any

# TOML writes `inf` and `nan`; a wait of that length would never end, and no comparison with the latter is ever true.
SECTION_CONFIG: dict[str, Any] = {"extra": "forbid", "allow_inf_nan": False}
