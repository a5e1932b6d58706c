"""Scenario files: strict, with the nearest right key."""

from __future__ import annotations

from pathlib import Path

import pytest

from netlab.errors import ScenarioError
from netlab.whatif import Compression, Overlap, Straggler, default_scenarios, load_scenarios, parse_scenarios


def _file(folder: Path, text: str) -> Path:
    path = folder / "scenarios.toml"
    path.write_text(text)
    return path


def test_a_file_is_read_in_order(tmp_path: Path) -> None:
    text = """
[[scenario]]
name = "half"
[[scenario.change]]
kind = "compression"
ratio = 2
codec_ms = 0
[[scenario]]
name = "even and overlapped"
[[scenario.change]]
kind = "straggler"
rank = "all"
[[scenario.change]]
kind = "overlap"
bound = "perfect"
"""
    scenarios = load_scenarios(_file(tmp_path, text))
    assert [s.name for s in scenarios] == ["half", "even and overlapped"]
    assert scenarios[0].changes == (Compression(ratio=2.0, codec_ms=0.0),)
    assert scenarios[1].changes == (Straggler(rank="all"), Overlap(bound="perfect"))
    assert scenarios[0].change_dicts() == [{"kind": "compression", "ratio": 2.0, "codec_ms": 0.0}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "compresion", "ratio": 2}, "did you mean 'compression'"),
        ({"kind": "compression", "ratoi": 2}, "did you mean 'ratio'"),
        ({"kind": "topology", "inter_node_gps": 800}, "did you mean 'inter_node_gbps'"),
        ({"kind": "compression"}, "either a method or a ratio"),
        ({"kind": "compression", "ratio": 2, "method": "fp16"}, "either a method or a ratio"),
        ({"kind": "compression", "method": "fp17"}, "did you mean 'fp16'"),
        ({"kind": "compression", "ratio": "10"}, "ratio"),
        ({"kind": "compression", "ratio": 0}, "above 0"),
        ({"kind": "compression", "ratio": 2, "codec_ms": -1}, "0 or more"),
        ({"kind": "compression", "method": "topk", "density": 1.5}, "density"),
        ({"kind": "compression", "method": "fp16", "density": 0.1}, "topk"),
        ({"kind": "overlap"}, "bucket_mb, prefetch or bound"),
        ({"kind": "overlap", "bound": "ideal"}, "known are perfect, none"),
        ({"kind": "overlap", "bound": "none", "bucket_mb": 5}, "stands alone"),
        ({"kind": "straggler"}, "rank"),
        ({"kind": "straggler", "rank": -1}, "expected a rank"),
        ({"kind": "straggler", "rank": "some"}, "rank"),
        ({"kind": "accumulation", "micro_batches": 0}, "1 or more"),
        ({"kind": "accumulation", "micro_batches": 2.5}, "micro_batches"),
        ({"kind": "compute", "speedup": 0}, "above 0"),
        ({"kind": "topology"}, "at least one"),
        ({"kind": "topology", "oversubscription": 0.5}, "1 or more"),
        ({"kind": "topology", "rank_order": [0, 0, 1]}, "exactly once"),
        ({"kind": "topology", "algorithm": "star"}, "algorithm"),
        ({"ratio": 2}, "needs a kind"),
        ({"kind": 3}, "needs a kind"),
    ],
)
def test_a_wrong_change_is_named_with_its_scenario(change: dict[str, object], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as error:
        parse_scenarios({"scenario": [{"name": "mine", "change": [change]}]}, "s.toml")
    assert str(error.value).startswith("s.toml, scenario 'mine'")
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "holds no scenario"),
        ({"scenarios": []}, "did you mean 'scenario'"),
        ({"scenario": {"name": "x"}}, r"\[\[scenario\]\]"),
        ({"scenario": [{"change": []}]}, "scenario 1: needs a name"),
        ({"scenario": [{"name": ""}]}, "needs a name"),
        ({"scenario": [{"name": "x", "changes": []}]}, "did you mean 'change'"),
        ({"scenario": [{"name": "x", "change": {"kind": "compute"}}]}, r"\[\[scenario.change\]\]"),
        ({"scenario": [{"name": "x"}, {"name": "x"}]}, "two scenarios are named 'x'"),
    ],
)
def test_a_wrong_document_is_one_sentence(document: dict[str, object], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        parse_scenarios(document)


def test_text_that_is_no_toml_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"scenarios\.toml: is no TOML"):
        load_scenarios(_file(tmp_path, "[[scenario"))
    with pytest.raises(ScenarioError, match=r"absent\.toml: cannot be read"):
        load_scenarios(tmp_path / "absent.toml")


def test_the_built_in_questions_are_valid() -> None:
    document = {"scenario": [{"name": s.name, "change": s.change_dicts()} for s in default_scenarios()]}
    assert parse_scenarios(document) == default_scenarios()
