"""The fabric as a graph."""

from __future__ import annotations

from netlab.topology import Fabric

LEAVES = [("h0", "n", "leaf0", "1"), ("h1", "n", "leaf0", "2"), ("h2", "n", "leaf1", "1")]
SPINES = [(f"leaf{leaf}", f"u{spine}", f"spine{spine}", str(leaf)) for leaf in (0, 1) for spine in (0, 1)]
FABRIC = Fabric.from_cables([*LEAVES, *SPINES], {"h0", "h1", "h2"})


def ports(hops: set) -> set[tuple[str, str]]:  # type: ignore[type-arg]
    return {(hop.device, hop.port) for hop in hops}


def test_tiers_count_cables_to_the_nearest_host() -> None:
    assert FABRIC.tiers() == {"h0": 0, "h1": 0, "h2": 0, "leaf0": 1, "leaf1": 1, "spine0": 2, "spine1": 2}


def test_hosts_under_one_leaf_use_no_uplink() -> None:
    assert ports(FABRIC.path_hops("h0", "h1")) == {("h0", "n"), ("leaf0", "2")}


def test_all_equal_paths_are_paths() -> None:
    assert ports(FABRIC.path_hops("h0", "h2")) == {
        ("h0", "n"),
        ("leaf0", "u0"),
        ("leaf0", "u1"),
        ("spine0", "1"),
        ("spine1", "1"),
        ("leaf1", "1"),
    }


def test_hosts_do_not_forward() -> None:
    chain = Fabric.from_cables([("a", "1", "b", "1"), ("b", "2", "c", "1")], {"a", "b", "c"})
    assert chain.path_hops("a", "c") == set()


def test_a_group_uses_the_paths_of_its_pairs() -> None:
    both = FABRIC.path_hops("h0", "h1") | FABRIC.path_hops("h1", "h0")
    assert FABRIC.group_hops(["h0", "h1", "stranger"]) == both


def test_a_cable_given_from_both_ends_is_one() -> None:
    twice = Fabric.from_cables([("a", "1", "b", "2"), ("b", "2", "a", "1")], set())
    assert sum(len(hops) for hops in twice.hops.values()) == 2
