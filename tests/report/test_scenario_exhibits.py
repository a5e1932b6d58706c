"""Exhibits of the notebooks that ask: a chart with its data, or a box that says why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from netlab.export.notebooks import notebooks_folder
from netlab.report import (
    Study,
    assumptions,
    baseline,
    explorer,
    pays_if,
    questions,
    run_paths,
    scenarios,
    sensitivity,
    slowest_collectives,
)
from netlab.report.panels import Exhibit, Missing
from netlab.run import Run, RunFacts
from netlab.whatif.answers import Answer, Baseline, WhatIf
from netlab.whatif.sensitivity import Sensitivity, Swing
from tests.made_run import made_run

BASELINE = Baseline(measured_ms=100.0, replayed_ms=101.0, replay_error=0.01, dependencies="recorded")


def _answers(*answers: Answer) -> WhatIf:
    return WhatIf(baseline=BASELINE, scenarios=list(answers))


def test_answers_are_a_chart_with_its_numbers_below() -> None:
    answer = Answer(name="bf16", changes=[], predicted_ms=80.0, interval95_ms=(75.0, 85.0), speedup=1.25, confidence="datasheet")
    shown = scenarios(_answers(answer))
    assert isinstance(shown, Exhibit)
    assert shown.chart is not None
    assert shown.frame.select("name", "predicted_ms", "low95_ms").rows() == [("bf16", 80.0, 75.0)]
    assert "<td>bf16</td>" in shown.table_html


def test_refused_answers_are_a_box() -> None:
    shown = scenarios(_answers(Answer(name="bf16", changes=[], refused="no sizes")))
    assert isinstance(shown, Missing)
    assert "refused" in shown.sentence


def test_what_an_answer_hangs_on_or_that_nothing_helps() -> None:
    swing = Swing(assumption="codec", low="fast", high="slow", low_ms=70.0, high_ms=95.0)
    found = Sensitivity(name="bf16", measured_ms=100.0, predicted_ms=80.0, swings=[swing], pays_if=[])
    shown = sensitivity(found)
    assert isinstance(shown, Exhibit)
    assert shown.frame.row(0, named=True) == msgspec.to_builtins(swing)
    assert isinstance(sensitivity(None), Missing)


def test_baseline_says_how_far_the_replay_is_off() -> None:
    markup = baseline(_answers()).markup
    assert "1.0 %" in markup
    assert "recorded" in markup
    far = WhatIf(baseline=msgspec.structs.replace(BASELINE, replay_error=-0.2, dependencies="inferred"), scenarios=[])
    assert baseline(far).markup.count("nl-chip-warning") == 2 + baseline(far).markup.count(".nl-chip-warning")


def test_answers_tell_what_they_assume_or_why_they_were_refused() -> None:
    plain = Answer(name="bf16", changes=[], predicted_ms=80.0, speedup=1.25, assumptions=["gradients <b>", "ring"])
    markup = assumptions(_answers(plain)).markup
    assert "<li>gradients &lt;b&gt;</li><li>ring</li>" in markup
    assert "80 ms, 1.25 times as fast" in markup
    assert "refused" not in markup
    assert "no sizes" in assumptions(_answers(plain, Answer(name="x", changes=[], refused="no sizes"))).markup


def test_questions_come_from_the_file_beside_the_inputs(tmp_path: Path) -> None:
    text = '[[scenario]]\nname = "wire"\n[[scenario.change]]\nkind = "compression"\nmethod = "bf16"\n'
    assert questions(str(tmp_path)) is None
    (tmp_path / "scenarios.toml").write_text(text, "utf-8")
    assert [scenario.name for scenario in questions(str(tmp_path)) or ()] == ["wire"]


def test_conditions_of_a_change_are_a_list() -> None:
    found = Sensitivity(name="bf16", measured_ms=100.0, predicted_ms=80.0, swings=[], pays_if=["a < b"])
    assert "<li>a &lt; b</li>" in pays_if(found).markup
    assert pays_if(None).markup == ""


def test_slowest_collectives_are_instances_with_the_rank_that_came_last() -> None:
    made = made_run(ranks=4, steps=2, slow_rank=3)
    markup = slowest_collectives(Study(made.run, made.verdict), rows=3).markup
    assert markup.count("<tr>") == 4
    assert "came last: rank" in markup
    empty = Study(Run.from_frames({}, RunFacts(name="x")), made.verdict)
    assert "could not be told" in slowest_collectives(empty).markup


def test_explorer_needs_steps_with_device_activity() -> None:
    made = made_run(ranks=2, steps=2)
    shown = explorer(Study(made.run, made.verdict))
    assert isinstance(shown, Exhibit)
    assert shown.frame.select("rank", "step").rows() == sorted(_places(made.verdict.by_rank_step))
    nothing = msgspec.structs.replace(made.verdict, by_rank_step=[])
    assert isinstance(explorer(Study(Run.from_frames({}, RunFacts(name="logs")), nothing)), Missing)


def _places(rows: Any) -> list[tuple[int, int]]:
    return [(row.rank, row.step) for row in rows]


def test_notebooks_find_the_sample_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    sample = notebooks_folder().parent / "data"
    assert run_paths("data/gpu-16rank") == [sample / "gpu-16rank"]
    assert run_paths("data/gpu-16rank:data/ddp-gloo-4rank") == [sample / "gpu-16rank", sample / "ddp-gloo-4rank"]
    (tmp_path / "a:b").mkdir()
    assert [path.name for path in run_paths("a:b")] == ["a:b"]
