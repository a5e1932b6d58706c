"""Answers from operation-level job traces: they can say what evening out stragglers would bring, and nothing about links or codecs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from netlab.whatif.answers import Answer, Baseline, WhatIf
from netlab.whatif.megatron import Slowdown, slowdown
from netlab.whatif.scenarios import Scenario, Straggler
from netlab.whatif.uncertainty import MIN_STEPS, model_error

__all__ = ["answer_operations"]

_EVERY_RANK = (Straggler(rank="all"),)


def answer_operations(operations: pl.DataFrame, asked: Sequence[Scenario], threshold: float, price_per_gpu_hour: float | None) -> WhatIf:
    """Answer the question for no stragglers; refuse every other with what it would need.

    Parameters
    ----------
    operations
        ``JOB_OPERATIONS`` of one job. Several jobs are refused together: they have no step in common.
    """
    sources = operations["source"].unique().sort().to_list()
    if len(sources) > 1:
        baseline = Baseline(measured_ms=None, replayed_ms=None, replay_error=None, dependencies="inferred", threshold=threshold)
        reason = f"There are operations of {len(sources)} jobs ({', '.join(sources[:4])}); ask about one at a time."
        return WhatIf(baseline=baseline, scenarios=[_refused(scenario, reason) for scenario in asked])
    found = slowdown(operations)
    baseline = Baseline(
        measured_ms=found.measured_ms,
        replayed_ms=found.replayed_ms,
        replay_error=found.replay_error,
        dependencies="inferred",
        steps=found.steps,
        threshold=threshold,
    )
    ranks = operations.select("dp_rank", "stage").n_unique()
    return WhatIf(baseline=baseline, scenarios=[_answer(scenario, found, ranks, price_per_gpu_hour) for scenario in asked])


def _answer(scenario: Scenario, found: Slowdown, ranks: int, price: float | None) -> Answer:
    if scenario.changes != _EVERY_RANK:
        return _refused(scenario, "Operation-level traces hold no kernels: only evening out every rank can be answered.")
    predicted = found.measured_ms / found.slowdown
    model = model_error(("straggler",), 1 / found.slowdown)
    saved = 24.0 * ranks * found.wasted_share
    return Answer(
        name=scenario.name,
        changes=scenario.change_dicts(),
        predicted_ms=predicted,
        interval80_ms=(predicted * (1 - model.half80), predicted * (1 + model.half80)),
        interval95_ms=(predicted * (1 - model.half95), predicted * (1 + model.half95)),
        speedup=found.slowdown,
        bound_best_ms=predicted,
        confidence="calibrated" if found.steps >= MIN_STEPS else "datasheet",
        assumptions=[
            "Every operation takes the mean (compute) or median (communication) of its kind over all ranks and steps.",
            "Speed-up is replayed over replayed step time, so launch delays, which the replay leaves out, cancel.",
            "The schedule is Megatron's (1F1B, also interleaved); its dependencies are inferred from one step.",
        ],
        inputs_used=[f"{found.operations} operations of {ranks} recorded ranks", f"{found.steps} steps"],
        inputs_missing=["profiler traces (what the operations were made of)"],
        saved_gpu_hours_per_day=saved,
        saved_cost_per_day=None if price is None else saved * price,
        break_even_price_per_gpu_hour=None if price is None else price * (found.slowdown - 1),
    )


def _refused(scenario: Scenario, reason: str) -> Answer:
    return Answer(
        name=scenario.name,
        changes=scenario.change_dicts(),
        refused=reason,
        assumptions=["Nothing is assumed."],
        inputs_missing=["profiler traces with device events (netlab.capture records them)"],
    )
