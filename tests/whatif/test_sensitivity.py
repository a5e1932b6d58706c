"""What an answer hangs on: swings by hand, conditions by their own closed form."""

from __future__ import annotations

import pytest

from netlab.errors import ScenarioError
from netlab.run import Run
from netlab.whatif import Compression, Rates, Scenario, Topology, what_if
from netlab.whatif.codec_costs import CodecCosts
from netlab.whatif.sensitivity import Sensitivity, sensitivity
from tests.whatif.makers import Kernel, make_run

_ELEMENTS = 16 * 2**20
_COSTS = CodecCosts(
    device="a", gpu=True, elements=1, torch_version="", encode_ns_per_element={"fp16": 0.05}, decode_ns_per_element={"fp16": 0.05}
)


def busy_run() -> Run:
    """Two ranks: 10 ms of compute, then an all-reduce of 64 MiB in 40 ms, nothing hidden."""
    kernels = []
    for rank in (0, 1):
        kernels += [Kernel(rank, 0, 10), Kernel(rank, 10, 50, stream=20, instance=0, bytes=4 * _ELEMENTS, launch=0.01)]
    return make_run(kernels, [(rank, 1, 0, 50) for rank in (0, 1)])


def ask(*changes: object, links: Rates | None = None) -> Sensitivity:
    return sensitivity(busy_run(), Scenario(name="x", changes=changes), links=links, codecs=_COSTS)  # type: ignore[arg-type]


def swing(found: Sensitivity, words: str) -> tuple[float, float]:
    (row,) = [row for row in found.swings if words in row.assumption]
    return row.low_ms, row.high_ms


def test_the_codec_swings_by_its_own_cost() -> None:
    codec_ms = 0.1 * _ELEMENTS / 1e6
    found = ask(Compression(method="fp16"))
    assert found.predicted_ms == pytest.approx(10 + 20 + codec_ms)
    assert swing(found, "encoding") == (pytest.approx(30 + codec_ms / 2), pytest.approx(30 + 2 * codec_ms))


def test_a_codec_pays_until_it_costs_what_it_saves() -> None:
    found = ask(Compression(method="fp16"))
    (limit,) = [text for text in found.pays_if if "Encoding" in text]
    assert float(limit.split("less than ")[1].split(" ms")[0]) == pytest.approx(20, rel=0.01)


def test_codecs_of_a_link_that_sends_halves_already_never_pay() -> None:
    found = ask(Compression(ratio=1.0, codec_ms=1.0))
    assert "Even free encoding would not make it faster." in found.pays_if


def test_an_upgrade_swings_by_what_congestion_leaves_and_pays_down_to_todays_rate() -> None:
    # 64 MiB in 40 ms are 13.4 Gbit/s of bus bandwidth: a link of 14 is the limit, and twice the rate halves the transfer.
    found = ask(Topology(inter_node_gbps=28.0), links=Rates(inter_node_gbps=14.0))
    assert found.predicted_ms == pytest.approx(30)
    assert swing(found, "congestion") == (pytest.approx(30), pytest.approx(10 + 20 / 0.85))
    (limit,) = [text for text in found.pays_if if "keep at least" in text]
    assert float(limit.split("at least ")[1].split(" %")[0]) == pytest.approx(50, rel=0.02)


def test_an_upgrade_of_idle_links_says_what_would_have_to_be_true() -> None:
    found = ask(Topology(inter_node_gbps=800.0), links=Rates(inter_node_gbps=400.0))
    assert found.predicted_ms == pytest.approx(50)
    assert any("would have to be the limit" in text for text in found.pays_if)


def test_swings_come_widest_first_and_the_replays_own_error_is_one_of_them() -> None:
    found = ask(Compression(method="fp16"), Topology(oversubscription=4.0))
    widths = [abs(row.high_ms - row.low_ms) for row in found.swings]
    assert widths == sorted(widths, reverse=True)
    assert swing(found, "replay's error")[0] < found.predicted_ms
    assert swing(found, "below one leaf") == (pytest.approx(30 + 0.1 * _ELEMENTS / 1e6), pytest.approx(90 + 0.1 * _ELEMENTS / 1e6))


def test_moving_an_assumption_agrees_with_asking_that_question() -> None:
    asked = what_if(busy_run(), [Scenario(name="y", changes=(Topology(oversubscription=4.0, hosts_per_leaf=1),))]).scenarios[0]
    assert swing(ask(Topology(oversubscription=4.0)), "below one leaf")[1] == asked.predicted_ms


def test_a_refused_question_hangs_on_nothing() -> None:
    with pytest.raises(ScenarioError, match="not known"):
        ask(Topology(inter_node_gbps=800.0))


def test_an_answer_gives_back_its_question() -> None:
    scenario = Scenario(name="x", changes=(Compression(method="fp16"), Topology(efficiency=(0.5, 0.8), rank_order=[1, 0])))
    document = what_if(busy_run(), [scenario])
    assert document.question("x") == scenario
    with pytest.raises(ScenarioError, match="did you mean 'x'"):
        document.question("xx")
