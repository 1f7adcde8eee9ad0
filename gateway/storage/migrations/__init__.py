"""The migrations, and the revisions that they no longer begin at (`docs/decisions/0027-squashed-migrations.md`)."""

# Revisions that lie within one of today's. A database of one of them is refused, with the way to bring it up to date.
SQUASHED = frozenset(
    {
        "0001", "0002_ledger", "0003_scheduling", "0004_context", "0005_counted", "0006_goals", "0007_memory",
        "0008_trust", "0009_skills", "0010_learning", "0011_style", "0012_tasks", "0013_plans",
        "0014_approvals", "0016_recall", "0017_calls", "0018_models", "0019_hints", "0020_guideline",
        "0023_place", "0025_dead_letters", "0026_session_figures", "0027_shortened", "0028_memory_use",
    }
)  # fmt: skip
LAST_TO_KNOW_ALL = "f855fe18"  # the commit whose program upgrades from any of them, to 0029_feedback
# Tables that older revisions have and `gateway.storage.tables` has not: a backup before a migration holds them too.
FORMER_TABLES = frozenset({"control", "channel_preference"})
