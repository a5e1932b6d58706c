"""What speed tests say beside the logs: half of the line rate, and calls whose time has nothing to do with their size."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from netlab.diagnose.nccl import nccl_findings
from netlab.findings import Finding
from netlab.run import Run, RunFacts
from netlab.schema.nccl import CONNECTIONS, LINK_SPEED_TESTS
from netlab.schema.nccl_structure import TOPOLOGY_NODES


def measured(*rows: dict[str, Any]) -> pl.DataFrame:
    whole = {"op": "all_reduce", "dtype": "float", "ranks": 2, "hosts": 2, "in_place": False, "source": "t.log"}
    return LINK_SPEED_TESTS.conform(pl.DataFrame([{**whole, "line": n, **row} for n, row in enumerate(rows, 1)], infer_schema_length=None))


def run(speed: pl.DataFrame, *, gdr: bool = True, nics: int = 1) -> Run:
    edges = [
        {"comm_id": "0x1", "channel": n, "src_rank": 0, "dst_rank": 1, "side": "send", "host": "a", "transport": "NET", "network": "IB"}
        | {"nic": f"mlx5_{n}", "gdr": gdr, "path": "NET/IB/0", "source": "a.log", "line": n + 1}
        for n in range(nics)
    ]
    nodes = [{"host": "a", "node": f"net/{n}", "kind": "net", "speed_gbps": 400.0, "source": "a.xml", "line": n} for n in range(nics)]
    frames = {
        "link_speed_tests": speed,
        "connections": CONNECTIONS.conform(pl.DataFrame(edges)),
        "topology_nodes": TOPOLOGY_NODES.conform(pl.DataFrame(nodes)),
    }
    return Run.from_frames(frames, RunFacts(name="tests"))


def of_code(found: list[Finding], code: str) -> list[Finding]:
    return [finding for finding in found if finding.code == code]


@pytest.mark.parametrize(("busbw", "gdr", "told"), [(24.0, True, True), (46.0, True, False), (24.0, False, False), (5.0, True, False)])
def test_half_of_the_line_rate_with_gpudirect_points_at_the_root_complex(busbw: float, gdr: bool, told: bool) -> None:
    speed = measured({"bytes": 1 << 30, "time_us": 1e5, "busbw_gb_per_s": busbw}, {"bytes": 1024, "time_us": 30.0, "busbw_gb_per_s": 0.1})
    found = of_code(nccl_findings(run(speed, gdr=gdr)), "HALF_LINE_RATE")
    assert bool(found) is told
    if told:
        assert "48 % of the 50 GB/s of 1 NIC" in found[0].title
        assert found[0].evidence[0]["line"] == 1


def test_eight_gpus_share_the_rate_of_all_nics_of_their_host() -> None:
    speed = measured({"bytes": 1 << 30, "time_us": 1e5, "busbw_gb_per_s": 190.0, "ranks": 16})
    (found,) = of_code(nccl_findings(run(speed, nics=8)), "HALF_LINE_RATE")
    assert "48 % of the 400 GB/s of 8 NICs" in found.title


def test_a_test_on_one_host_says_nothing_about_the_network() -> None:
    speed = measured({"bytes": 1 << 30, "time_us": 1e5, "busbw_gb_per_s": 24.0, "hosts": 1})
    assert of_code(nccl_findings(run(speed)), "HALF_LINE_RATE") == []


def test_small_calls_of_one_fixed_long_time_are_told() -> None:
    sizes = [8, 1024, 65_536, 1 << 20]
    stuck = measured(*({"bytes": size, "time_us": 215_000.0 + n * 900} for n, size in enumerate(sizes)))
    (found,) = of_code(nccl_findings(run(stuck)), "FIXED_CALL_TIME")
    assert "215 to 218 ms" in found.title
    usual = measured(*({"bytes": size, "time_us": 30.0 + size / 1e3} for size in sizes))
    assert of_code(nccl_findings(run(usual)), "FIXED_CALL_TIME") == []
