"""Codec costs of the user's device: kept, found, and used only for runs on such a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from netlab.whatif import Compression, Scenario, what_if
from netlab.whatif.codec_costs import CodecCosts, load_codec_costs, save_codec_costs
from tests.whatif.makers import late_rank

_GPU = CodecCosts(
    device="Test GPU", gpu=True, elements=8, torch_version="2.13", encode_ns_per_element={"bf16": 1.0}, decode_ns_per_element={"bf16": 1.0}
)
_QUESTION = Scenario(name="x", changes=(Compression(method="bf16"),))


def test_costs_are_found_where_they_were_kept(tmp_path: Path) -> None:
    path = save_codec_costs(_GPU, tmp_path / "cache" / "costs.json")
    assert load_codec_costs(path) == _GPU
    assert [item.name for item in path.parent.iterdir()] == ["costs.json"]


def test_an_absent_or_damaged_file_is_no_costs(tmp_path: Path) -> None:
    assert load_codec_costs(tmp_path / "absent.json") is None
    (tmp_path / "damaged.json").write_text('{"device": 3}')
    assert load_codec_costs(tmp_path / "damaged.json") is None


def test_measured_costs_replace_the_reference() -> None:
    answer = what_if(late_rank(), [_QUESTION], codecs=_GPU).scenarios[0]
    # 2^20 elements at 2 ns: 2.1 ms; the transfer of 2 ms is halved.
    assert answer.predicted_ms == pytest.approx(16 + 2 * 1.048576 + 1 + 2)
    assert any("Test GPU" in used for used in answer.inputs_used)
    assert not any("calibrate" in missing for missing in answer.inputs_missing)


def test_costs_of_another_kind_of_device_are_left_alone() -> None:
    on_cpu = CodecCosts(
        device="CPU", gpu=False, elements=8, torch_version="2.13", encode_ns_per_element={"bf16": 9.0}, decode_ns_per_element={"bf16": 9.0}
    )
    assert what_if(late_rank(), [_QUESTION], codecs=on_cpu).json() == what_if(late_rank(), [_QUESTION]).json()


@pytest.mark.torch
def test_every_method_has_a_cost_on_this_device() -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    from netlab.recording.codec_timing import calibrate

    costs = calibrate("cpu", elements=262_144, repeats=1)
    assert {"fp16", "bf16", "int8", "onebit", "topk", "powersgd"} <= set(costs.encode_ns_per_element)
    assert all(cost > 0 for cost in (*costs.encode_ns_per_element.values(), *costs.decode_ns_per_element.values()))
