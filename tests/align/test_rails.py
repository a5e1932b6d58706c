"""Rails from cabling."""

from __future__ import annotations

import polars as pl

from netlab.align.ports import build_ports
from netlab.schema.counters import CABLES


def cabling(swapped: bool = False, hosts: int = 8) -> pl.DataFrame:
    rows = []
    for host in range(hosts):
        for nic in range(2):
            leaf = 1 - nic if swapped and host == 3 else nic
            rows.append((f"leaf{leaf}", f"e{host}", f"h{host}", f"mlx5_{nic}"))
    return CABLES.conform(
        pl.DataFrame(rows, schema=["a_device", "a_port", "b_device", "b_port"], orient="row"), declared=True, source="links.csv"
    )


def test_the_same_nic_of_every_host_on_one_leaf_is_a_rail() -> None:
    frame, issues = build_ports({"cables": cabling()})
    assert issues == []
    assert dict(frame.filter(pl.col("device") == "h5").select("port", "rail").iter_rows()) == {"mlx5_0": "0", "mlx5_1": "1"}
    assert frame.filter(pl.col("device") == "leaf1")["rail"].unique().to_list() == ["1"]


def test_swapped_cables_are_told() -> None:
    frame, issues = build_ports({"cables": cabling(swapped=True)})
    assert sorted(issue.message.split()[0] for issue in issues) == ["h3/mlx5_0", "h3/mlx5_1"]
    assert {issue.code for issue in issues} == {"MISCABLED"}
    assert frame.filter(pl.col("device") == "h3")["rail"].to_list() == [None, None]


def test_one_leaf_for_all_nics_is_no_rail() -> None:
    together = cabling().with_columns(pl.lit("leaf0").alias("a_device"), (pl.col("a_port") + pl.col("b_port")).alias("a_port"))
    frame, issues = build_ports({"cables": together})
    assert frame["rail"].null_count() == frame.height
    assert issues == []
