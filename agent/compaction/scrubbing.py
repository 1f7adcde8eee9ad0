"""Takes what looks like a secret out of text that a summary or a file of the gateway would keep (SPEC §8.4). Pure."""

import re

REDACTED = "[redacted]"

_SECRET = re.compile(
    r"""
      \b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|ghs|glpat|xox[abprs])[-_][\w\-]{10,}
    | \bgithub_pat_\w{20,} | \bAIza[\w\-]{20,} | \bAKIA[0-9A-Z]{12,}
    | (?i:\bbearer)\s+[\w\-.~+/=]{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
# Alone, since it takes a run of such characters whole also where no token follows: every later beginning within the run
# would end at the same place, and a text of nothing but beginnings would be read once for each.
_WEB_TOKEN = re.compile(r"\beyJ[\w\-]{10,}+(?P<rest>\.[\w\-]{10,}+\.[\w\-]{5,}+)?+")
_NAMED = re.compile(r"(?i)\b((?:api[_-]?key|secret|passwor[dt]|passwd|token)\"?\s*[:=]\s*\"?)([^\s\"',;]{8,})")


def scrubbed(text: str) -> str:
    """The text with `[redacted]` for each key, token and password in it."""
    text = _WEB_TOKEN.sub(lambda found: REDACTED if found["rest"] else found[0], text)
    return _NAMED.sub(rf"\1{REDACTED}", _SECRET.sub(REDACTED, text))
