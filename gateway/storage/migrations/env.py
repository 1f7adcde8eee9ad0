"""Run by Alembic for each command; the connection and its transaction come from `agent.storage.migrate`."""

from alembic import context

from gateway.storage.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True)
with context.begin_transaction():
    context.run_migrations()
