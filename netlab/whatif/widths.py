"""How wide the interval of an answer is: steps that vary, transfers whose parts are not known for sure, and the replay's own error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netlab.whatif.draft import Draft, Setting
from netlab.whatif.engine import Engine
from netlab.whatif.posterior import at_latency_ends, at_split_ends
from netlab.whatif.uncertainty import MIN_STEPS, block_bootstrap, half_width, model_error

__all__ = ["Widths"]

Floats = NDArray[np.float64]

#: Changes of the network alone: no such answer can be so wrong that it beats its bound.
_NETWORK_KINDS = frozenset({"compression", "topology", "overlap"})
#: Half width of 80 % over that of 95 % of a normal distribution.
_80_OF_95 = 0.654


@dataclass(frozen=True)
class Widths:
    """The parts of a run's study that intervals are made of.

    ``mean`` gives the pooled step (ms) of step lengths (ns), ``per_step`` the mean over ranks of each step.
    """

    setting: Setting
    engine: Engine
    mean: Callable[[Floats], float]
    per_step: Callable[[Floats], Floats]
    measured_ms: float
    #: Profiler windows that hold the steps.
    windows: int = 1

    def interval(
        self, draft: Draft, lengths: Floats, predicted: float, bound: float, again: Callable[[Setting], Draft]
    ) -> tuple[float, float, float, float]:
        """Block bootstrap over steps, posterior of the transfers' cost and the model's error, independent of each other.

        A change of the network alone cannot be so wrong that it beats the bound, which is the run's own compute, host time and waiting.
        ``again`` drafts the scenario anew in another setting.
        """
        down = predicted - bound if set(draft.kinds) <= _NETWORK_KINDS else predicted
        model = model_error(tuple(draft.kinds), predicted / self.measured_ms if self.measured_ms else 1.0)
        cost_low, cost_high = self._cost_range(draft, predicted)
        cost_high += self._late_gradients(draft, predicted, again)
        split_low, split_high = self._split_range(draft, predicted)
        cost_low, cost_high = cost_low + split_low, cost_high + split_high
        sure_low, sure_high = self._posterior_range(draft, predicted, again)
        per_step = self.per_step(lengths)
        resampled = block_bootstrap(per_step, self._repeated(draft), self.windows) if len(per_step) >= MIN_STEPS else None
        widths = []
        for share, model_half in ((0.80, model.half80), (0.95, model.half95)):
            step = (0.0, 0.0)
            narrow = 1.0 if share == 0.95 else _80_OF_95
            if resampled is not None:
                step = half_width(predicted, *np.quantile(resampled, [(1 - share) / 2, (1 + share) / 2]).tolist())
            own = model_half * predicted
            below = np.linalg.norm([min(own, down), step[0], narrow * sure_low])
            above = np.linalg.norm([own, step[1], narrow * sure_high])
            widths.append((min(float(below) + cost_low, max(down, 0.0) + step[0]), float(above) + cost_high))
        (l80, h80), (l95, h95) = widths
        return predicted - l80, predicted + h80, predicted - l95, predicted + h95

    def _repeated(self, draft: Draft) -> Floats | None:
        """What the scenario repeats, per step; steps that say nothing stand for the usual."""
        if draft.repeated_ns is None or not np.isfinite(draft.repeated_ns).any():
            return None
        return self.per_step(np.where(np.isfinite(draft.repeated_ns), draft.repeated_ns, np.nanmedian(draft.repeated_ns)))

    def _cost_range(self, draft: Draft, predicted: float) -> tuple[float, float]:
        """How far the step moves when the byte part of transfers does, within declared intervals."""
        if draft.byte_range is None or draft.bound is not None:
            return 0.0, 0.0
        low, high = self.engine.run([draft, draft], draft.byte_range)
        return half_width(predicted, self.mean(low.borders.length_ns), self.mean(high.borders.length_ns))

    def _split_range(self, draft: Draft, predicted: float) -> tuple[float, float]:
        """How far the step moves if communication whose split is not known is waiting, or transfer, after all."""
        ends = None if draft.bound is not None else at_split_ends(draft, self.setting)
        if ends is None:
            return 0.0, 0.0
        moved = sorted(self.mean(result.borders.length_ns) for result in self.engine.run(ends))
        return half_width(predicted, moved[0], moved[1])

    def _late_gradients(self, draft: Draft, predicted: float, again: Callable[[Setting], Draft]) -> float:
        """How much longer the step gets if gradients of unknown instants come as late as they can."""
        if not draft.even_gradients or draft.bound is not None:
            return 0.0
        late = again(replace(self.setting, late_gradients=True))
        if not self.engine.possible(late):
            return 0.0  # work in between waits for them, so they cannot come that late
        return max(0.0, self.mean(self.engine.run([late])[0].borders.length_ns) - predicted)

    def _posterior_range(self, draft: Draft, predicted: float, again: Callable[[Setting], Draft]) -> tuple[float, float]:
        """How far the step moves between the least and the most latency that fits the run's own transfers."""
        ends = None if draft.bound is not None else at_latency_ends(draft, self.setting, again)
        if ends is None:
            return 0.0, 0.0
        moved = sorted(self.mean(result.borders.length_ns) for result in self.engine.run(ends))
        return half_width(predicted, moved[0], moved[1])
