"""Which assumption an answer hangs on, and what would have to be true for the change to pay.

Every assumption is moved alone, from one end of what is plausible to the other, and the scenario is replayed: the widest swing is what to
find out first. Nothing is linearised and nothing is added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import polars as pl

from netlab.errors import ScenarioError
from netlab.run import Run
from netlab.whatif.answers import Answer
from netlab.whatif.codec_costs import CodecCosts
from netlab.whatif.codecs import reference_costs
from netlab.whatif.predict import Rates, what_if
from netlab.whatif.scenarios import Compression, Scenario, Topology

__all__ = ["Sensitivity", "Swing", "sensitivity"]

#: A declared rate is what the link can do at best; cables, lanes and headers take some of it.
_RATE_DOUBT = (0.9, 1.1)
#: What congestion control and loss leave of Ethernet links beside what they can do (notes on RoCE against InfiniBand: 0.85 to 0.95).
_EFFICIENCY = (0.85, 1.0)
#: Codecs differ this much between devices and implementations of one method.
_CODEC_DOUBT = (0.5, 2.0)
_ALL_HOSTS = 1_000_000
_GRID = np.geomspace(1e-3, 1e4, 57)


class Swing(msgspec.Struct, frozen=True, kw_only=True):
    """One assumption moved alone: the two values, and the predicted step at each (ms)."""

    assumption: str
    low: str
    high: str
    low_ms: float
    high_ms: float


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """Swings of one answer, the widest first, and the conditions under which the change pays."""

    name: str
    measured_ms: float
    predicted_ms: float
    swings: list[Swing]
    pays_if: list[str]

    def frame(self) -> pl.DataFrame:
        """The swings as a frame, widest first."""
        columns = {"assumption": pl.String, "low": pl.String, "high": pl.String, "low_ms": pl.Float64, "high_ms": pl.Float64}
        return pl.DataFrame([msgspec.to_builtins(swing) for swing in self.swings], schema=columns)


@dataclass(frozen=True)
class _World:
    """Everything that a question is asked with."""

    scenario: Scenario
    rates: Rates
    codecs: CodecCosts | None


@dataclass(frozen=True)
class _Knob:
    """One assumption: both values in words, and the world at each; the more favourable value first."""

    assumption: str
    low: str
    high: str
    at_low: _World
    at_high: _World


def sensitivity(run: Run, scenario: Scenario, *, links: Any = None, codecs: CodecCosts | None = None) -> Sensitivity:
    """Move every assumption of an answer alone, and find where the change stops to pay.

    Parameters
    ----------
    run
        An aligned run.
    scenario
        The question.
    links
        Declared rates, as for `netlab.whatif.what_if`.
    codecs
        Codec costs of the user's device; without them reference costs are used.

    Raises
    ------
    ScenarioError
        If the question is refused for this run: nothing hangs on anything then.
    """
    rates = Rates(getattr(links, "intra_node_gbps", None), getattr(links, "inter_node_gbps", None))
    base = _World(scenario, rates, codecs)

    def ask(worlds: Sequence[_World]) -> list[Answer]:
        """Answers in order; questions about the same rates and codecs are replayed together."""
        answers: dict[int, Answer] = {}
        batches: dict[tuple[Rates, int], list[int]] = {}
        for number, world in enumerate(worlds):
            batches.setdefault((world.rates, id(world.codecs)), []).append(number)
        for (with_rates, _), numbers in batches.items():
            asked = [worlds[number].scenario for number in numbers]
            document = what_if(run, asked, links=with_rates, codecs=worlds[numbers[0]].codecs)
            answers |= dict(zip(numbers, document.scenarios, strict=True))
        return [answers[number] for number in range(len(worlds))]

    measured = what_if(run, [], links=rates).baseline.measured_ms
    (answer,) = ask([base])
    if answer.predicted_ms is None or measured is None:
        raise ScenarioError(f"{scenario.name}: {answer.refused or 'the run has no step to compare with.'}")
    knobs = list(_knobs(base, cpu=run.facts.backend == "cpu"))
    moved = iter(ask([world for knob in knobs for world in (knob.at_low, knob.at_high)]))
    swings = [_interval(answer)]
    for knob, low, high in zip(knobs, moved, moved, strict=True):
        if low.predicted_ms is not None and high.predicted_ms is not None:
            swings.append(
                Swing(assumption=knob.assumption, low=knob.low, high=knob.high, low_ms=low.predicted_ms, high_ms=high.predicted_ms)
            )
    swings.sort(key=lambda swing: -abs(swing.high_ms - swing.low_ms))
    return Sensitivity(
        name=scenario.name,
        measured_ms=measured,
        predicted_ms=answer.predicted_ms,
        swings=swings,
        pays_if=list(_conditions(base, answer, measured, ask)),
    )


def _interval(answer: Answer) -> Swing:
    low, high = answer.interval95_ms or (answer.predicted_ms, answer.predicted_ms)
    return Swing(
        assumption="variation between steps and the replay's error", low="2.5 %", high="97.5 %", low_ms=low or 0.0, high_ms=high or 0.0
    )


def _knobs(base: _World, *, cpu: bool) -> Iterator[_Knob]:
    for place, change in enumerate(base.scenario.changes):
        if isinstance(change, Topology):
            yield from _topology_knobs(base, place, change)
        elif isinstance(change, Compression) and change.method is not None:
            yield _codec_knob(base, place, change, cpu=cpu)


def _topology_knobs(base: _World, place: int, change: Topology) -> Iterator[_Knob]:
    def changed(**keys: Any) -> _World:
        return _with(base, place, msgspec.structs.replace(change, **keys))

    for key in ("inter_node_gbps", "intra_node_gbps"):
        now, then = getattr(base.rates, key), getattr(change, key)
        if now is not None and then is not None:
            slow, fast = (now * factor for factor in _RATE_DOUBT)
            low, high = (replace(base, rates=replace(base.rates, **{key: rate})) for rate in (slow, fast))
            layer = key.removesuffix("_gbps").replace("_", "-")
            yield _Knob(f"rate of today's {layer} links", f"{slow:.4g} Gbit/s", f"{fast:.4g} Gbit/s", low, high)
    if change.efficiency is None and change.inter_node_gbps is not None:
        bad, good = _EFFICIENCY
        low, high = changed(efficiency=(good, good)), changed(efficiency=(bad, bad))
        yield _Knob("what congestion and loss leave of the new links", f"{100 * good:g} %", f"{100 * bad:g} %", low, high)
    if change.hosts_per_leaf is None and (change.oversubscription is not None or change.layout is not None):
        yield _Knob("hosts below one leaf", "all", "one", changed(hosts_per_leaf=_ALL_HOSTS), changed(hosts_per_leaf=1))
    if change.load_balancing == "ecmp":
        yield _Knob("flows of a NIC pair that are hashed apart", "16", "1", changed(queue_pairs=16), changed(queue_pairs=1))


def _codec_knob(base: _World, place: int, change: Compression, *, cpu: bool) -> _Knob:
    name = "cost of encoding and decoding"
    if change.codec_ms is not None:
        costs_ms = [change.codec_ms * factor for factor in _CODEC_DOUBT]
        low, high = (_with(base, place, msgspec.structs.replace(change, codec_ms=cost)) for cost in costs_ms)
        return _Knob(name, f"{costs_ms[0]:.3g} ms", f"{costs_ms[1]:.3g} ms", low, high)
    costs = base.codecs if base.codecs is not None and base.codecs.gpu != cpu else reference_costs(cpu=cpu, rank=change.rank or 1)
    low, high = (replace(base, codecs=costs.scaled(factor)) for factor in _CODEC_DOUBT)
    return _Knob(name, "half", "twice", low, high)


def _with(base: _World, place: int, change: Any) -> _World:
    changes = (*base.scenario.changes[:place], change, *base.scenario.changes[place + 1 :])
    return replace(base, scenario=msgspec.structs.replace(base.scenario, changes=changes))


def _conditions(base: _World, answer: Answer, measured: float, ask: Callable[[Sequence[_World]], list[Answer]]) -> Iterator[str]:
    """What would have to be true for the change to pay."""
    speedup = answer.speedup or 0.0
    if speedup > 1:
        yield f"It may cost up to {100 * (speedup - 1):.3g} % more per GPU-hour than today."
    for place, change in enumerate(base.scenario.changes):
        if isinstance(change, Compression):
            if speedup > 1:
                yield f"It may need up to {100 * (speedup - 1):.3g} % more steps to the same loss."
            worlds = [_with(base, place, msgspec.structs.replace(change, codec_ms=float(value))) for value in _GRID]
            limit = _crossing(_GRID, ask(worlds), measured)
            yield (
                "Even free encoding would not make it faster."
                if limit is None
                else f"Encoding and decoding of one collective together must take less than {limit:.3g} ms."
            )
        if isinstance(change, Topology) and change.inter_node_gbps is not None:
            shares = np.linspace(1.0, 0.05, 39)
            worlds = [_with(base, place, msgspec.structs.replace(change, efficiency=(float(s), float(s)))) for s in shares]
            limit = _crossing(shares, ask(worlds), measured)
            yield (
                "Today's links would have to be the limit: even at their full rate the new ones do not shorten the step."
                if limit is None
                else f"The new links must keep at least {100 * limit:.3g} % of their rate under congestion and loss."
            )


def _crossing(values: np.ndarray[Any, Any], answers: Sequence[Answer], measured: float) -> float | None:
    """Value at which the predicted step reaches the measured one, between neighbours of a grid whose first value is the best."""
    steps = np.array([np.nan if answer.predicted_ms is None else answer.predicted_ms for answer in answers])
    pays = steps < measured * (1 - 1e-6)
    if not pays[0]:
        return None
    if pays.all():
        return float(values[-1])
    last = int(np.argmin(pays)) - 1
    part = (measured - steps[last]) / (steps[last + 1] - steps[last])
    return float(values[last] + part * (values[last + 1] - values[last]))
