"""What `/status` tells of a session also after its agent slept.

Revision ID: 0026_session_figures
"""

import sqlalchemy as sa
from alembic import op

revision = "0026_session_figures"
down_revision = "0025_dead_letters"


def upgrade() -> None:
    op.add_column("session", sa.Column("fixed_tokens", sa.BigInteger()))
    op.add_column("session", sa.Column("scale", sa.Float()))
    op.add_column("session", sa.Column("compacted", sa.Text()))


def downgrade() -> None:
    op.drop_column("session", "compacted")
    op.drop_column("session", "scale")
    op.drop_column("session", "fixed_tokens")
