"""The sweep of a cluster where each process has a network of its own, and of its packets one in twenty gets lost."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.crew import Crew
from tests.cluster.lossy import HUB, Lossy, Unavailable, network
from tests.cluster.sweep import Role, cells_for, sweeping
from tests.cluster.test_sweep import late

LOST_PERCENT = 5  # each way
TAKEN_OVER_WITHIN_S = 30.0  # packets are sent again after 0.2 s, and after twice as long each further time


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.requirement("G-138", "G-139")
@pytest.mark.parametrize("role", ["ingress", "worker"])
async def test_whoever_is_killed_while_packets_get_lost_the_others_answer_once(
    role: Role, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cells = cells_for("telegram", role)
    cells = cells[:: len(cells) // 4]
    home = tmp_path_factory.mktemp("h")
    try:
        with network(len(Lossy.others) + 1, percent=LOST_PERCENT) as made:

            def in_namespaces(home: Path, environ: Mapping[str, str]) -> Crew:
                return Lossy(home, "", environ, inside=made)

            async with sweeping("telegram", role, home, in_namespaces, addresses=[HUB]) as sweep:
                for number, cell in enumerate(cells):
                    await sweep.run(cell, number)
                await sweep.end()
            lost = made.lost()
    except Unavailable as refused:
        pytest.skip(f"needs root, iproute2 and nftables: {refused}")
    print(f"\n{lost:,} packets lost; all stood there after {sorted(sweep.took_s.values())} s")
    failed = [f"{verdict.cell}: {verdict.why}" for verdict in sweep.verdicts if verdict.why]
    assert not failed, "\n".join(failed)
    assert lost > 100, "the network loses packets"
    assert late(sweep.took_s.values()) < TAKEN_OVER_WITHIN_S
