"""Ports from all inputs: speed, role, cable, host, ranks."""

from __future__ import annotations

import polars as pl

from netlab.align.ports import build_ports
from netlab.schema.counters import CABLES, COUNTERS, PORT_FACTS, RANK_MAP, SWITCH_MEMBERS
from netlab.schema.timeline import RANKS


def facts(*rows: dict[str, object]) -> pl.DataFrame:
    return PORT_FACTS.conform(pl.DataFrame(list(rows)), declared=True, source="ports.csv")


def cables(*rows: tuple[str, str, str, str], **columns: object) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["a_device", "a_port", "b_device", "b_port"], orient="row")
    return CABLES.conform(frame, declared=True, source="links.csv", **columns)


def gauge(device: str, port: str, gbps: float) -> pl.DataFrame:
    row = {"device": [device], "port": [port], "value": [gbps * 1e9]}
    return COUNTERS.conform(
        pl.DataFrame(row), direction="none", metric="speed_bps", kind="gauge", flags="", raw_name="ifHighSpeed", source="c"
    )


def row(frame: pl.DataFrame, device: str, port: str) -> dict[str, object]:
    return frame.filter((pl.col("device") == device) & (pl.col("port") == port)).row(0, named=True)


def test_a_person_wins_over_a_device() -> None:
    frame, _ = build_ports(
        {"counters": gauge("leaf1", "e0", 100.0), "port_facts": facts({"device": "leaf1", "port": "e0", "speed_gbps": 400.0})}
    )
    assert row(frame, "leaf1", "e0")["speed_gbps"] == 400.0


def test_a_device_says_its_speed_where_nobody_else_does() -> None:
    frame, _ = build_ports({"counters": gauge("leaf1", "e0", 100.0)})
    assert row(frame, "leaf1", "e0")["speed_gbps"] == 100.0


def test_both_ends_of_a_cable_know_each_other() -> None:
    frame, issues = build_ports({"cables": cables(("leaf1", "e0", "nodea", "mlx5_0"))})
    assert row(frame, "leaf1", "e0") | {} == row(frame, "leaf1", "e0")
    assert (row(frame, "leaf1", "e0")["peer_device"], row(frame, "leaf1", "e0")["peer_port"]) == ("nodea", "mlx5_0")
    assert row(frame, "nodea", "mlx5_0")["peer_device"] == "leaf1"
    assert not issues


def test_roles_follow_from_the_cables() -> None:
    wires = cables(
        ("leaf1", "e0", "nodea", "mlx5_0"),
        ("leaf1", "e8", "spine1", "e1"),
        ("leaf2", "e0", "nodeb", "mlx5_0"),
        ("leaf2", "e8", "spine1", "e2"),
    )
    frame, _ = build_ports({"cables": wires})
    roles = {(d, p): r for d, p, r in frame.select("device", "port", "role").iter_rows()}
    assert roles == {
        ("leaf1", "e0"): "host", ("leaf1", "e8"): "up", ("leaf2", "e0"): "host", ("leaf2", "e8"): "up",
        ("nodea", "mlx5_0"): "hca", ("nodeb", "mlx5_0"): "hca", ("spine1", "e1"): "down", ("spine1", "e2"): "down",
    }  # fmt: skip
    assert row(frame, "leaf1", "e0")["host"] == "nodea"
    assert row(frame, "leaf1", "e0")["nic"] == "mlx5_0"


def test_a_port_cabled_twice_is_miscabled() -> None:
    frame, issues = build_ports({"cables": cables(("leaf1", "e0", "nodea", "mlx5_0"), ("leaf1", "e0", "nodeb", "mlx5_0"))})
    assert [issue.code for issue in issues] == ["MISCABLED"]
    assert row(frame, "leaf1", "e0")["peer_device"] == "nodea"


def test_ranks_sit_behind_their_nic_and_its_switch_port() -> None:
    ranks = RANK_MAP.conform(
        pl.DataFrame({"rank": [0, 1], "host": ["nodea"] * 2, "nic": ["mlx5_0", "mlx5_1"], "rail": ["0", "1"]}), source="ranks.csv"
    )
    wires = cables(("leaf1", "e0", "nodea", "mlx5_0/1"), ("leaf2", "e0", "nodea", "mlx5_1/1"))
    frame, _ = build_ports({"cables": wires, "rank_map": ranks})
    assert row(frame, "leaf1", "e0")["ranks"] == [0]
    assert row(frame, "leaf2", "e0")["ranks"] == [1]
    assert row(frame, "leaf2", "e0")["rail"] == "1"


def test_all_ranks_of_a_host_share_its_only_nic() -> None:
    ranks = RANKS.conform(pl.DataFrame({"rank": [0, 1], "host": ["nodea"] * 2}))
    frame, _ = build_ports({"cables": cables(("leaf1", "e0", "nodea", "mlx5_0")), "ranks": ranks})
    assert row(frame, "nodea", "mlx5_0")["ranks"] == [0, 1]


def test_ports_csv_meets_counters_in_another_spelling() -> None:
    frame, _ = build_ports(
        {
            "counters": gauge("leaf1", "Eth1/1", 0.0),
            "port_facts": facts({"device": "leaf1", "port": "Ethernet1/1", "speed_gbps": 400.0, "role": "up"}),
        }
    )
    assert frame.select("port", "speed_gbps", "role").rows() == [("Eth1/1", 400.0, "up")]


def test_an_uplink_carries_the_ranks_below_its_leaf() -> None:
    ranks = RANK_MAP.conform(pl.DataFrame({"rank": [0, 1], "host": ["nodea", "nodeb"], "nic": ["mlx5_0"] * 2}), source="ranks.csv")
    wires = cables(
        ("leaf1", "e0", "nodea", "mlx5_0"),
        ("leaf2", "e0", "nodeb", "mlx5_0"),
        ("leaf1", "e8", "spine1", "e1"),
        ("leaf2", "e8", "spine1", "e2"),
    )
    frame, _ = build_ports({"cables": wires, "rank_map": ranks})
    assert row(frame, "leaf1", "e8")["ranks"] == [0]
    assert row(frame, "spine1", "e2")["ranks"] == [1]


def test_what_is_unmapped_is_said() -> None:
    counted = gauge("leaf1", "e0", 100.0).with_columns(
        pl.lit("counter").cast(pl.Categorical).alias("kind"), pl.lit("bytes").cast(pl.Categorical).alias("metric")
    )
    _, issues = build_ports({"counters": counted})
    assert [issue.code for issue in issues] == ["UNMAPPED", "UNMAPPED"]
    assert "1 of 1" in issues[0].message


def test_slurm_says_the_leaf_where_no_cable_does() -> None:
    members = pl.DataFrame(
        {"switch": ["leaf1", "leaf1", "leaf2", "root"], "member": ["nodea", "nodeb", "nodec", "leaf1"], "kind": ["host"] * 3 + ["switch"]}
    )
    raw = {
        "switch_members": SWITCH_MEMBERS.conform(members, source="topology.conf"),
        "port_facts": facts(
            *({"device": host, "port": "mlx5_0"} for host in ("nodea", "nodeb", "nodec", "noded")),
            *({"device": leaf, "port": "e8", "role": "up"} for leaf in ("leaf1", "leaf2")),
        ),
        "ranks": RANKS.conform(pl.DataFrame({"rank": [0, 1, 2], "host": ["nodea", "nodeb", "nodec"]})),
    }
    frame, _ = build_ports(raw)
    leaves = dict(frame.filter(pl.col("port") == "mlx5_0").select("device", "leaf").iter_rows())
    assert leaves == {"nodea": "leaf1", "nodeb": "leaf1", "nodec": "leaf2", "noded": None}
    # The uplinks of a leaf carry the traffic of the ranks below it.
    assert [row(frame, leaf, "e8")["ranks"] for leaf in ("leaf1", "leaf2")] == [[0, 1], [2]]


def test_a_cable_says_the_leaf_better_than_slurm() -> None:
    members = pl.DataFrame({"switch": ["rack1"], "member": ["nodea"], "kind": ["host"]})
    frame, _ = build_ports(
        {"switch_members": SWITCH_MEMBERS.conform(members, source="t"), "cables": cables(("leaf7", "e0", "nodea", "mlx5_0"))}
    )
    assert row(frame, "nodea", "mlx5_0")["leaf"] == "leaf7"
    assert row(frame, "leaf7", "e0")["leaf"] == "leaf7"
