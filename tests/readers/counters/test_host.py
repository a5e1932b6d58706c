"""Counters of hosts: forms of one tool that must say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from netlab.readers.base import Sink
from netlab.readers.registry import claim
from netlab.readers.streams import read_head


def samples(folder: Path, text: str, name: str) -> dict[tuple[str, str], float]:
    path = folder / name
    path.write_text(text)
    reader = claim(read_head(path), path)
    assert reader is not None
    assert reader.name == "rdma_statistic"
    sink = Sink()
    reader.read(path, sink, name)
    rows = sink.collect("counters").select("port", "raw_name", "value").iter_rows()
    return {(port, raw_name): value for port, raw_name, value in rows}


_LINE = "link mlx5_0/1 rx_write_requests 12 out_of_sequence 3 roce_adp_retrans 7 \n"
_PRETTY = "link mlx5_0/1\n    rx_write_requests 12\n    out_of_sequence 3\n    roce_adp_retrans 7\n"
_JSON = '[{"ifname":"mlx5_0","port":1,"rx_write_requests":12,"out_of_sequence":3,"roce_adp_retrans":7}]'
_JSON_PRETTY = (
    '[ {\n        "ifindex": 0,\n        "ifname": "mlx5_0",\n        "port": 1,\n        "rx_write_requests": 12,\n'
    '        "out_of_sequence": "3",\n        "roce_adp_retrans": 7\n    } ]\n'
)


@pytest.mark.parametrize("text", [_LINE, _PRETTY, _JSON, _JSON_PRETTY])
def test_all_forms_of_rdma_statistic_say_the_same(tmp_path: Path, text: str) -> None:
    found = samples(tmp_path, text, "nodea.txt")
    assert found == {("mlx5_0/1", "rx_write_requests"): 12, ("mlx5_0/1", "out_of_sequence"): 3, ("mlx5_0/1", "roce_adp_retrans"): 7}


def test_counters_of_single_queue_pairs_are_not_added_to_the_ports(tmp_path: Path) -> None:
    text = '[{"ifname":"mlx5_0","port":1,"cntn":4,"out_of_sequence":2,"lqpn":[178]},{"ifname":"mlx5_0","port":1,"out_of_sequence":3}]'
    assert samples(tmp_path, text, "x.json") == {("mlx5_0/1", "out_of_sequence"): 3}
