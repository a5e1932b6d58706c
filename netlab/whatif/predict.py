"""From a run and scenarios to answers: the one place that states the order of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netlab.attribute import breakdown, pool, pooled_rows
from netlab.run import Run
from netlab.units import NS_PER_MS
from netlab.whatif.answers import Answer, Baseline, WhatIf
from netlab.whatif.bounds import busiest_ns
from netlab.whatif.build import Model, build_model
from netlab.whatif.changes import apply
from netlab.whatif.changes.placement import order_matters
from netlab.whatif.changes.targets import missing_ranks
from netlab.whatif.codec_costs import CodecCosts
from netlab.whatif.contention import contention
from netlab.whatif.costs import transfers
from netlab.whatif.draft import Draft, Refusal, Setting
from netlab.whatif.engine import Engine, Result
from netlab.whatif.jobs import answer_operations
from netlab.whatif.scenarios import Scenario, Topology, default_scenarios
from netlab.whatif.timeline import simulated_tables
from netlab.whatif.uncertainty import MIN_STEPS
from netlab.whatif.widths import Widths

__all__ = ["DEFAULT_THRESHOLD", "Rates", "what_if"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: The share above which a step counts as network-bound (DESIGN section 2).
DEFAULT_THRESHOLD = Fraction(1, 4)
#: Communication of unknown split beyond this share has to be mentioned (DESIGN section 2: 1 %).
_UNKNOWN = 0.01
#: Of buckets, say, that hold gradients of work which waited for the bucket before.
_CONTRADICTION = (
    "The change contradicts the order of the run: work in between waits for communication that it would put behind that work "
    "(buckets of several passes, or collectives that are no gradients), so it has no answer here."
)


@dataclass(frozen=True)
class Rates:
    """Declared one-direction link rates per GPU in Gbit/s."""

    intra_node_gbps: float | None = None
    inter_node_gbps: float | None = None


def what_if(
    run: Run,
    scenarios: Sequence[Scenario] | None = None,
    *,
    threshold: Fraction = DEFAULT_THRESHOLD,
    price_per_gpu_hour: float | None = None,
    links: Any = None,
    codecs: CodecCosts | None = None,
) -> WhatIf:
    """Replay the run with changed costs and say how sure the answers are.

    Parameters
    ----------
    run
        An aligned run with ``activities`` and ``steps``.
    scenarios
        Questions; None asks the built-in set.
    threshold
        A network share strictly above it is flagged.
    price_per_gpu_hour
        Price, in any currency, for what a change saves.
    links
        Declared rates: anything with ``intra_node_gbps`` and ``inter_node_gbps``, such as `netlab.config.Links` or `Rates`.
    codecs
        Codec costs of the user's device (`netlab.whatif.codec_costs.load_codec_costs`); without them reference costs are used.

    Returns
    -------
    `WhatIf`: the error of the replayed baseline first, then one answer or refusal per scenario, in the given order.
    """
    rates = {name: getattr(links, name, None) for name in ("intra_node_gbps", "inter_node_gbps")}
    asked = default_scenarios(**rates) if scenarios is None else tuple(scenarios)
    if run.frame("activities").is_empty() and not run.frame("job_operations").is_empty():
        return answer_operations(run.frame("job_operations"), asked, float(threshold), price_per_gpu_hour)
    if run.frame("activities").is_empty():
        reason = "The run holds no device activities (and no Gloo spans), so there is no step to replay."
        return _nothing(run, asked, threshold, reason)
    model = build_model(run)
    setting = Setting(
        run=run,
        model=model,
        transfers=transfers(run, model, {"intra_node": rates["intra_node_gbps"], "inter_node": rates["inter_node_gbps"]}),
        codecs=codecs,
        intra_node_gbps=rates["intra_node_gbps"],
        inter_node_gbps=rates["inter_node_gbps"],
    )
    if scenarios is None and order_matters(setting):
        asked += (Scenario(name="ranks of a leaf next to each other", changes=(Topology(rank_order="best"),)),)
    study = _Study(setting, threshold, price_per_gpu_hour)
    if not len(study.pooled):
        return _nothing(run, asked, threshold, "No step of the run is complete, so there is no step to replay.")
    return WhatIf(baseline=study.baseline(), scenarios=study.answers(asked))


def _nothing(run: Run, asked: Sequence[Scenario], threshold: Fraction, reason: str) -> WhatIf:
    missing = ["profiler traces with device events (netlab.capture records them)"]
    return WhatIf(
        baseline=Baseline(
            measured_ms=None,
            replayed_ms=None,
            replay_error=None,
            dependencies="inferred",
            window=run.facts.window,
            threshold=float(threshold),
        ),
        scenarios=[
            Answer(
                name=scenario.name,
                changes=scenario.change_dicts(),
                refused=reason,
                inputs_missing=missing,
                assumptions=["Nothing is assumed."],
            )
            for scenario in asked
        ],
    )


class _Shares(NamedTuple):
    """What the breakdown of a run says about its communication; None where nobody knows."""

    network: float | None = None
    communication: float | None = None
    flagged: bool | None = None
    hidden_ms: float | None = None


class _Study:
    """One run under several scenarios."""

    def __init__(self, setting: Setting, threshold: Fraction, price: float | None) -> None:
        self.setting, self.threshold, self.price = setting, threshold, price
        self.model: Model = setting.model
        self.engine = Engine(setting)
        self.unchanged = Draft.of(setting)
        self.base = self.engine.run([self.unchanged])[0]
        steps = self.model.steps.frame
        measured = pooled_rows(breakdown(self.model.activities.frame, steps))
        keys = steps.select("rank", "window", "step").with_row_index("row")
        chosen = keys.join(measured.select("rank", "window", "step").unique(), on=["rank", "window", "step"], how="semi")
        self.pooled: Ints = chosen["row"].cast(pl.Int64).to_numpy()
        self.measured_shares = self._shares(measured)
        order = steps[self.pooled].select("window", "step").with_columns(pl.struct("window", "step").rank("dense").alias("n"))
        self.step_number: Ints = (order["n"].cast(pl.Int64) - 1).to_numpy()
        windows = int(steps[self.pooled]["window"].n_unique())
        self.widths = Widths(setting, self.engine, self._mean, self._per_step, self.measured_ms, windows)

    @property
    def step_count(self) -> int:
        """Steps that are pooled."""
        return int(self.step_number.max()) + 1

    @property
    def measured_ms(self) -> float:
        """Pooled iteration time as measured."""
        s = self.model.steps
        return float((s.end_ns - s.start_ns)[self.pooled].mean()) / NS_PER_MS

    def baseline(self) -> Baseline:
        """The unchanged run."""
        replayed = self._mean(self.base.borders.length_ns)
        lags = Draft.of(self.setting)
        lags.lag_ns = np.minimum(lags.lag_ns, 0.0)
        tight = self._mean(self.engine.run([lags])[0].borders.length_ns)
        return Baseline(
            measured_ms=self.measured_ms,
            measured_median_ms=self._typical((self.model.steps.end_ns - self.model.steps.start_ns).astype(float)),
            replayed_ms=replayed,
            replay_error=replayed / self.measured_ms - 1 if self.measured_ms else None,
            dependencies=self.model.dependencies,
            explained_share=min(1.0, max(0.0, tight / self.measured_ms)) if self.measured_ms else None,
            steps=self.step_count,
            window=self.setting.run.facts.window,
            network_share=self.measured_shares.network,
            threshold=float(self.threshold),
        )

    def answers(self, asked: Sequence[Scenario]) -> list[Answer]:
        """One answer per scenario, in their order; the replays of all of them run together."""
        drafts: list[Draft | Refusal] = []
        for scenario in asked:
            try:
                draft = apply(self.setting, scenario)
            except Refusal as refusal:
                drafts.append(refusal)
                continue
            drafts.append(draft if self.engine.possible(draft) else Refusal(_CONTRADICTION))
        living = [draft for draft in drafts if isinstance(draft, Draft)]
        replayed = zip(self.engine.run(living), self.engine.floors(living), strict=True)
        return [
            self._answer(scenario, draft, *next(replayed)) if isinstance(draft, Draft) else self._refused(scenario, draft)
            for scenario, draft in zip(asked, drafts, strict=True)
        ]

    def _refused(self, scenario: Scenario, refusal: Refusal) -> Answer:
        floor = self._mean(self.engine.floors([self.unchanged])[0].borders.length_ns)
        return Answer(
            name=scenario.name,
            changes=scenario.change_dicts(),
            refused=refusal.reason,
            bound_best_ms=floor,
            assumptions=["bound_best_ms is the run without any communication; nothing better is possible by a change of the network."],
            inputs_used=self._inputs_used(),
            inputs_missing=list(refusal.missing),
        )

    def _answer(self, scenario: Scenario, draft: Draft, result: Result, floor: Result) -> Answer:
        floor_ms = self._mean(floor.borders.length_ns)
        shares: _Shares
        if draft.bound is not None:
            lengths, shares = self._bound(draft, result, floor)
        else:
            lengths = result.borders.length_ns
            shares = self._simulated_shares(draft, result)
        predicted = self._mean(lengths)
        bound = min(predicted, floor_ms)
        low80, high80, low95, high95 = self.widths.interval(draft, lengths, predicted, bound, lambda setting: apply(setting, scenario))
        slower80, slower95 = self._contended(draft, shares)
        high80, high95 = high80 + slower80 + draft.crowded_ms / 2, high95 + slower95 + draft.crowded_ms
        if draft.bound is not None and self.setting.unknown_share > _UNKNOWN:
            low80, low95 = min(low80, bound), min(low95, bound)
        self._say_how_sure(draft)
        speedup = self.measured_ms * draft.micro_batches / predicted if predicted else None
        if "compression" in draft.kinds and speedup is not None and speedup > 1:
            draft.say(f"It pays while it needs at most {100 * (speedup - 1):.3g} % more steps to the same loss.")
        world = self.setting.run.facts.world_size or len(self.setting.run.facts.ranks) or None
        saved = None if speedup is None or world is None or self.setting.run.facts.window != "step" else 24.0 * world * (1 - 1 / speedup)
        return Answer(
            name=scenario.name,
            changes=scenario.change_dicts(),
            predicted_ms=predicted,
            predicted_median_ms=self._typical(lengths),
            interval80_ms=(max(0.0, low80), high80),
            interval95_ms=(max(0.0, low95), high95),
            speedup=speedup,
            network_share=shares.network,
            comm_share=shares.communication,
            flagged=shares.flagged,
            bound_best_ms=bound,
            confidence=draft.confidence,
            assumptions=draft.assumptions,
            inputs_used=[*self._inputs_used(), *draft.inputs_used],
            inputs_missing=sorted(set(draft.inputs_missing)),
            saved_gpu_hours_per_day=saved,
            saved_cost_per_day=None if saved is None or self.price is None else saved * self.price,
            break_even_price_per_gpu_hour=None if speedup is None or self.price is None else self.price * (speedup - 1),
        )

    def _bound(self, draft: Draft, result: Result, floor: Result) -> tuple[Floats, _Shares]:
        """Step lengths and shares of a bound on overlap.

        All hidden: no step is shorter than its critical path without communication, nor than the communication of the busiest rank.
        None hidden: compute and communication of a rank take turns, and ranks wait for each other as they do.
        """
        if draft.bound == "none":
            serial = self.engine.serial(draft)
            if serial is None:
                draft.say(
                    "Taking turns contradicts the order of the collectives across ranks; hidden communication was added to each "
                    "step instead."
                )
                lengths = result.borders.length_ns + self._hidden(draft, result)
                return lengths, _Shares()
            return serial.borders.length_ns, self._simulated_shares(draft, serial)
        alone = floor.borders.length_ns
        busy = busiest_ns(self.model, draft.transfers, result)
        lengths = np.maximum(alone, busy)
        if self.setting.unknown_share > _UNKNOWN:
            draft.say("Communication that may be waiting counts in full; how much of it is transfer, nobody can say.")
            draft.inputs_missing.append(missing_ranks(self.setting))
        draft.say("Never shorter than compute with its waiting, nor than the communication of the busiest rank.")
        exposed = float((lengths - alone)[self.pooled].sum())
        total = float(lengths[self.pooled].sum())
        share = exposed / total if total else None
        return lengths, _Shares(share, share, None if share is None else Fraction(share) > self.threshold)

    def _hidden(self, draft: Draft, result: Result) -> Floats:
        activities, steps = self._tables(draft, result)
        rows = breakdown(activities, steps).group_by("rank", "window", "step").agg(pl.col("hidden_comm_ns").sum())
        keys = self.model.steps.frame.select("rank", "window", "step")
        return (
            keys.join(rows, on=["rank", "window", "step"], how="left", maintain_order="left")["hidden_comm_ns"]
            .fill_null(0)
            .to_numpy()
            .astype(float)
        )

    def _tables(self, draft: Draft, result: Result) -> tuple[pl.DataFrame, pl.DataFrame]:
        replaced = np.concatenate(draft.replaced or [np.empty(0, np.int64)])
        nodes = (result.end_ns, result.duration_ns, result.lead_ns, result.tail_ns)
        return simulated_tables(self.model, result.borders, *nodes, draft.transfers, replaced)

    def _simulated_shares(self, draft: Draft, result: Result) -> _Shares:
        activities, steps = self._tables(draft, result)
        kept = steps.join(self.model.steps.frame[self.pooled].select("rank", "window", "step"), on=["rank", "window", "step"], how="semi")
        return self._shares(breakdown(activities, kept))

    def _shares(self, frame: pl.DataFrame) -> _Shares:
        row = pool(frame, [], self.threshold).row(0, named=True)
        return _Shares(row["network_share"], row["comm_share"], row["flagged"], row["hidden_comm_ms"])

    def _mean(self, lengths: Floats) -> float:
        return float(lengths[self.pooled].mean()) / NS_PER_MS

    def _typical(self, lengths: Floats) -> float:
        """Median over steps of the ranks' mean."""
        return float(np.median(self._per_step(lengths)))

    def _per_step(self, lengths: Floats) -> Floats:
        sums = np.bincount(self.step_number, weights=lengths[self.pooled])
        means: Floats = sums / np.bincount(self.step_number) / NS_PER_MS
        return means

    def _contended(self, draft: Draft, shares: _Shares) -> tuple[float, float]:
        """How much longer the step may get because more communication than now runs beside compute."""
        if shares.hidden_ms is None or self.measured_shares.hidden_ms is None:
            return 0.0, 0.0
        more = shares.hidden_ms - self.measured_shares.hidden_ms
        if more <= _UNKNOWN * self.measured_ms:
            return 0.0, 0.0
        found = contention(self.model.activities.frame)
        origin = f"measured on {found.kinds} kinds of kernel" if found.kinds else "from other machines"
        draft.say(f"{more:.3g} ms more communication runs beside compute, which that may slow down {found.ratio80:.2f}-fold ({origin}).")
        return found.extra_ms(more)

    def _say_how_sure(self, draft: Draft) -> None:
        facts = self.setting.run.facts
        if self.step_count < MIN_STEPS:
            draft.lower("datasheet")
            draft.say(
                "one step: variation unknown" if self.step_count == 1 else f"only {self.step_count} steps: variation between steps unknown"
            )
        if self.model.dependencies == "inferred":
            if draft.kinds:
                draft.lower("calibrated")
            draft.say("Dependencies between streams are inferred from the measured instants, not recorded.")
            draft.inputs_missing.append(
                "recorded dependencies (profiler option enable_cuda_sync_events)" if not self.model.cpu else "recorded waits"
            )
        if facts.window != "step":
            draft.say("The trace has no step marks: times are of the whole capture, not of an iteration.")
            draft.inputs_missing.append("step marks (prof.step() once per iteration)")
        if facts.missing_ranks:
            draft.say(
                f"{len(facts.missing_ranks)} of {facts.world_size} ranks were not captured; they are taken to be no later than those seen."
            )
            draft.inputs_missing.append("traces of the missing ranks")
        if not draft.assumptions:
            draft.say("Nothing is changed.")

    def _inputs_used(self) -> list[str]:
        facts = self.setting.run.facts
        used = [
            f"traces of {len(facts.ranks)} of {facts.world_size or '?'} ranks",
            f"{self.step_count} step{'s' if self.step_count != 1 else ''}",
        ]
        fitted = sum(fit.source == "fit" for fit in self.setting.transfers.fits.values())
        table = sum(fit.source == "table" for fit in self.setting.transfers.fits.values())
        if fitted:
            used.append(f"latency and bandwidth fitted from the run's own transfers ({fitted} kinds)")
        if table:
            used.append(f"NCCL's printed latency table ({table} kinds)")
        return used
