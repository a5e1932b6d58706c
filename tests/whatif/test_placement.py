"""Above the leaves: who stands where, and what hashing, oversubscription and a declared efficiency do to it. On paper."""

from __future__ import annotations

import polars as pl
import pytest

from netlab.run import Run
from netlab.schema.counters import PORTS
from netlab.schema.timeline import RANKS
from netlab.whatif import Answer, Scenario, Topology, what_if
from netlab.whatif.changes.hosts import Hosts
from tests.whatif.makers import Kernel, make_run

_MS = 10.0


def one_collective(hosts: list[str], op: str = "all_reduce") -> Run:
    """One collective of 10 ms over all ranks, and nothing else."""
    kernels = [Kernel(rank, 0.0, _MS, stream=20, instance=0, bytes=2**26, launch=0.0, op=op) for rank in range(len(hosts))]
    run = make_run(kernels, [(rank, 1, 0.0, _MS) for rank in range(len(hosts))])
    return run.with_frames({"ranks": RANKS.conform(pl.DataFrame({"rank": list(range(len(hosts))), "host": hosts}))})


def cabled(run: Run, leaf_of: dict[str, str]) -> Run:
    """The same run with one cable from each host to its leaf."""
    rows = [
        {"device": host, "port": "eth0", "role": "hca", "host": host, "peer_device": leaf, "peer_port": f"swp-{host}"}
        for host, leaf in leaf_of.items()
    ]
    return run.with_frames({"ports": PORTS.conform(pl.DataFrame(rows))})


def ask(run: Run, **change: object) -> Answer:
    return what_if(run, [Scenario(name="x", changes=(Topology(**change),))]).scenarios[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(("oversubscription", "apart", "slower"), [(1.0, 1.0, 1.0), (2.0, 2.0, 1.0), (4.0, 4.0, 2.0)])
def test_apart_ranks_cost_only_what_the_uplinks_lack(oversubscription: float, apart: float, slower: float) -> None:
    run = one_collective(["a", "b", "c", "d"])
    together = ask(run, oversubscription=oversubscription, hosts_per_leaf=2)
    assert together.predicted_ms == pytest.approx(_MS * slower)
    answer = ask(run, oversubscription=oversubscription, hosts_per_leaf=2, rank_order=[0, 2, 1, 3])
    assert answer.predicted_ms == pytest.approx(_MS * apart)


def test_the_best_order_brings_the_ranks_of_a_leaf_together() -> None:
    # Cables say that ranks 0 and 2 share a leaf; at 4:1 one crossing of each leaf instead of two halves the time.
    run = cabled(one_collective(["a", "b", "c", "d"]), {"a": "leaf0", "c": "leaf0", "b": "leaf1", "d": "leaf1"})
    scattered, best = ask(run, oversubscription=4.0), ask(run, oversubscription=4.0, rank_order="best")
    assert scattered.predicted_ms is not None
    assert best.predicted_ms == pytest.approx(scattered.predicted_ms / 2)
    assert any("Proposed order of ranks: 0,2,1,3." in said for said in best.assumptions)
    assert "cables between hosts and leaves" in best.inputs_used


def test_the_best_order_is_no_worse_than_any_other() -> None:
    run = one_collective(["a", "b", "a", "b", "c", "c"])
    best = ask(run, oversubscription=2.0, hosts_per_leaf=2, rank_order="best").predicted_ms
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [0, 4, 1, 5, 2, 3]):
        other = ask(run, oversubscription=2.0, hosts_per_leaf=2, rank_order=order).predicted_ms
        assert best is not None
        assert other is not None
        assert best <= other + 1e-9


def test_hashing_is_a_range_that_starts_at_the_even_share() -> None:
    run = one_collective([f"h{number:02d}" for number in range(32)], op="all_to_all")
    even, hashed = ask(run, layout="leaf-spine", hosts_per_leaf=8), ask(run, layout="leaf-spine", hosts_per_leaf=8, load_balancing="ecmp")
    assert even.predicted_ms == pytest.approx(_MS)
    assert hashed.predicted_ms is not None
    assert hashed.predicted_ms > _MS
    low, high = hashed.interval95_ms or (0.0, 0.0)
    assert low < hashed.predicted_ms < high
    assert hashed.confidence == "datasheet"


def test_a_declared_efficiency_is_a_range_and_never_a_point() -> None:
    answer = ask(one_collective(["a", "b"]), efficiency=(0.5, 0.8))
    low, high = answer.interval80_ms or (0.0, 0.0)
    assert low <= _MS / 0.8 + 1e-6
    assert high >= _MS / 0.5 - 1e-6
    assert any("50 to 80 %" in said for said in answer.assumptions)


def test_pat_needs_one_gpu_per_host() -> None:
    gathered = ask(one_collective(["a", "b", "c", "d"], op="all_gather"), algorithm="pat")
    assert gathered.predicted_ms == pytest.approx(_MS / 0.75)
    refused = ask(one_collective(["a", "a", "b", "b"], op="all_gather"), algorithm="pat").refused
    assert refused is not None
    assert "one GPU per host" in refused


def test_a_group_without_known_hosts_counts_every_rank_as_a_host() -> None:
    run = one_collective(["a", "b", "c", "d"]).with_frames({"ranks": RANKS.empty()})
    assert ask(run, oversubscription=4.0, hosts_per_leaf=2).predicted_ms == pytest.approx(2 * _MS)


def test_lanes_are_the_gpus_on_the_host_that_has_fewest() -> None:
    hosts = Hosts.__new__(Hosts)
    hosts.host_of = {0: 0, 1: 0, 2: 1, 3: 1, 4: 1}
    assert (hosts.lanes([0, 1, 2, 3, 4]), hosts.lanes([0, 2]), hosts.count([0, 1]), hosts.count([0, 9])) == (2, 1, 1, None)


def test_a_better_order_is_proposed_unasked_only_where_cables_show_one() -> None:
    scattered = cabled(one_collective(["a", "b", "c", "d"]), {"a": "leaf0", "c": "leaf0", "b": "leaf1", "d": "leaf1"})
    together = cabled(one_collective(["a", "b", "c", "d"]), {"a": "leaf0", "b": "leaf0", "c": "leaf1", "d": "leaf1"})
    name = "ranks of a leaf next to each other"
    assert [name in [answer.name for answer in what_if(run).scenarios] for run in (scattered, together)] == [True, False]
