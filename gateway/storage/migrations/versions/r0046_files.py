"""Tables of files, which PostgreSQL keeps for several processes.

Revision ID: 0046_files
"""

import sqlalchemy as sa
from alembic import op

revision = "0046_files"
down_revision = "0045_processes"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "file_content",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("whole", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("used_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_file_content"),
    )
    op.create_index("ix_file_content_sha256", "file_content", ["sha256"])
    op.create_table(
        "file_part",
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("content", "number", name="pk_file_part"),
        sa.ForeignKeyConstraint(["content"], ["file_content.id"], name="fk_file_part_content", ondelete="CASCADE"),
    )
    op.create_table(
        "file",
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("modified_ns", sa.BigInteger, nullable=False),
        sa.Column("executable", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("conv", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("path", name="pk_file"),
        sa.ForeignKeyConstraint(["content"], ["file_content.id"], name="fk_file_content"),
    )
    op.create_index("ix_file_folder", "file", ["folder"])
    op.create_index("ix_file_content", "file", ["content"])
    op.create_table(
        "file_folder",
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("folder", name="pk_file_folder"),
    )


def downgrade() -> None:
    for name in ("file_folder", "file", "file_part", "file_content"):
        op.drop_table(name)
