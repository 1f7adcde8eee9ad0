"""The longest texts that the shipped limits let through, in characters, by the names that `patterns.toml` uses.

Each is read from the code that holds it, so that a limit that grows makes its patterns face longer texts. A byte counts
as a character: text of ASCII has as many.
"""

from adapters.discord.limits import TEXT_LIMIT as DISCORD_TEXT
from adapters.web.parse import TEXT_LIMIT as WEB_TEXT
from agent import definitions
from agent.compaction import excerpts
from agent.goals import goal
from agent.memory import records
from agent.plans import admission
from agent.providers import replies
from agent.providers.openai import client
from agent.skills import folders, matching, signals
from agent.style import detector
from agent.tools import arguments, hooks
from agent.tools.mcp import offers
from agent.tools.settings import WebSettings
from agent.tools.shell import shell
from agent.tools.web import addresses, pages
from gateway.importers import home
from gateway.telemetry import redaction

PAGE = int(WebSettings().max_mb * 1024 * 1024)

LIMITS: dict[str, int] = {
    "answer": replies.MOST_TEXT,  # what a model writes, and what becomes of it on its way to people
    "arguments": replies.MOST_TOOL_JSON,  # what a model writes as a call of a tool
    "command": shell.LONGEST,
    "claim": goal.LONGEST_CLAIM,  # of an answer that is searched for "it is done"
    "definition": definitions.LARGEST,
    "description": offers.LONGEST_READ,  # of an MCP server's tool
    "discord text": DISCORD_TEXT,
    "error": client.LARGEST_ERROR,  # of a model service
    "foreign notes": home.LARGEST_TEXT,  # of another program whose home is imported
    "foreign table": home.LARGEST_TABLE,
    "file name": 255,  # of the kernels (NAME_MAX)
    "goal": goal.LONGEST_GOAL,
    "heard": signals.LONGEST_HEARD,
    "hook": hooks.LONGEST_OUTPUT,
    "host": addresses.LONGEST,
    "message": WEB_TEXT,  # of a person; the other platforms admit less
    "page": PAGE,
    "page text": pages.LONGEST,
    "pattern": arguments.LONGEST,
    "plan": admission.MOST_BYTES,
    "praise": signals.LONGEST_PRAISE,
    "query": records.LONGEST_QUERY,
    "request": matching.BEGINNING + matching.END + 2,  # of a message that is compared with skills
    "result": max(PAGE, offers.LONGEST),  # of any tool, before it is shortened
    "rule": excerpts.LONGEST_REQUEST,
    "sentence": goal.SIGHT,
    "skill": folders.LARGEST,
    "style": detector.LONGEST,
    "tag": pages.LONGEST_TAG,
    "token": redaction.LONGEST_TOKEN,
}
