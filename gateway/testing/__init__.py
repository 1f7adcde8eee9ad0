"""Kit for tests of an adapter: contract suite, base harness, platform double, failing proxy. Needs pytest."""

import pytest

# Only here, before the suite is loaded: its failures then show the values that were compared.
pytest.register_assert_rewrite("gateway.testing.channel_contract")
