"""Which of a person's messages must outlive every compaction word for word: the first request, standing rules. Pure.

A rule is found by its wording; one that is missed is still in the summary, one too many costs a few tokens. Messages
longer than a rule is are never taken for one.
"""

import re

LONGEST_RULE = 600  # characters
LONGEST_REQUEST = 8_000  # a longer first request is a document rather than a wish: it is left to the summaries
MOST_RULES = 20  # in a window; later ones are left to the summaries

_RULE = re.compile(
    r"""
    \b(?:
        from\ now\ on | as\ of\ now | going\ forward | for\ the\ rest\ of\ (?:this|our)
      | (?:please\ )?always\b(?!\ (?:been|was|had|wanted|thought|loved|hated|liked))
      | never\ (?:ever\ )?(?:use|say|tell|call|send|write|answer|reply|ask|mention|book|buy|delete|share|do|change
                             |assume|make|put|include|reveal|post|ping|wake|contact|schedule|spend|reference|suggest)\b
      | (?:standing|house|ground)\ rules? | (?:new\ )?rule:
      | remember\ (?:that|this|to|:) | do(?:n't|\ not)\ (?:ever|forget)
      | under\ no\ circumstances | make\ sure\ (?:you|to)\ (?:always|never)
      | ab\ jetzt | von\ nun\ an | immer\ (?:auf|in|mit|nur|zuerst|wenn) | niemals | auf\ keinen\ fall | merk(?:e)?\ dir
      | vergiss\ (?:nie|nicht) | regel:
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def states_rule(text: str) -> bool:
    """Whether the words lay down how things are to be done from here on."""
    return len(text) <= LONGEST_RULE and _RULE.search(text) is not None


def deserves_pin(text: str, *, is_first: bool, pinned_rules: int) -> bool:
    """Whether a person's message is pinned as it arrives."""
    if is_first and len(text) <= LONGEST_REQUEST:
        return bool(text.strip())
    return pinned_rules < MOST_RULES and states_rule(text)
