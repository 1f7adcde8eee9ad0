"""Takes what looks like a secret out of text that a summary or a file of the house would keep (SPEC §8.4). Pure."""

import re

REDACTED = "[redacted]"

_SECRET = re.compile(
    r"""
      \b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|ghs|glpat|xox[abprs])[-_][\w\-]{10,}
    | \bgithub_pat_\w{20,} | \bAIza[\w\-]{20,} | \bAKIA[0-9A-Z]{12,}
    | \beyJ[\w\-]{10,}\.[\w\-]{10,}\.[\w\-]{5,}
    | (?i:\bbearer)\s+[\w\-.~+/=]{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(r"(?i)\b((?:api[_-]?key|secret|passwor[dt]|passwd|token)\"?\s*[:=]\s*\"?)([^\s\"',;]{8,})")


def scrubbed(text: str) -> str:
    """The text with `[redacted]` for each key, token and password in it."""
    return _NAMED.sub(rf"\1{REDACTED}", _SECRET.sub(REDACTED, text))
