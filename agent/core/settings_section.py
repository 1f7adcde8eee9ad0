"""Reading of a section by pydantic: unknown keys and numbers that are none are refused.

A plain mapping, so that the modules which declare sections need not import pydantic.
"""

from typing import Any

# TOML writes `inf` and `nan`; a wait of that length would never end, and no comparison with the latter is ever true.
SECTION_CONFIG: dict[str, Any] = {"extra": "forbid", "allow_inf_nan": False}
