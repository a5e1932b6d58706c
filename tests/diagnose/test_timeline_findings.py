"""Timeline findings: each on its planted cause, all silent on a clean run."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import polars as pl
import pytest

from netlab.attribute import Attribution
from netlab.diagnose import Conclusion, judge
from netlab.findings import Finding
from netlab.run import RunFacts
from tests.timelines import Timelines

FACTS = RunFacts(name="made", world_size=4)


def _judge(figures: Attribution, facts: RunFacts = FACTS) -> Conclusion:
    return judge(figures, facts)


def _codes(verdict: Conclusion) -> list[str]:
    return [finding.code for finding in verdict.findings]


def _found(verdict: Conclusion, code: str) -> Finding:
    return next(finding for finding in verdict.findings if finding.code == code)


def _steps(hosts: list[str], compute: dict[int, float], transfer: float, count: int = 6, *, overlap: float = 0.5) -> Timelines:
    """Steps of compute and one all-reduce of which half runs under compute, so a clean run has nothing to complain about."""
    made = Timelines(hosts)
    at = 0.0
    for step in range(count):
        arrivals = {rank: compute.get(rank, 40.0) for rank in range(len(hosts))}
        last = max(arrivals.values())
        covered = transfer * overlap
        made.step(step, at, at + last + transfer)
        for rank, length in arrivals.items():
            made.kernel(rank, at, at + length, launch=at - 1)
            made.kernel(rank, at + last, at + last + covered, launch=at - 0.5)
        made.collective({rank: at + length for rank, length in arrivals.items()}, at + last + transfer, size=64_000_000)
        at += last + transfer
    return made


def test_a_clean_run_passes_without_any_finding() -> None:
    verdict = _judge(_steps(["a", "a", "b", "b"], {}, 6).figures(declared_gbps={"inter_node": 100, "intra_node": 400}))
    assert (verdict.status, verdict.cause, verdict.findings) == ("pass", "none", [])
    assert verdict.headline == "Network share 6.5 % is not above 25 %, and nothing of weight was found."


def test_transfer_above_the_threshold_is_flagged_as_its_layer() -> None:
    figures = _steps(["a", "a", "b", "b"], {}, 60).figures()
    verdict = _judge(figures)
    assert (verdict.status, verdict.flagged, verdict.cause) == ("flagged", True, "fabric")
    finding = _found(verdict, "NETWORK_SHARE")
    assert finding.severity == "critical"
    assert finding.subject.ranks == [0, 1, 2, 3]
    assert finding.time_lost_ms == figures.totals["exposed_transfer_ms"] == pytest.approx(30)
    assert verdict.headline.startswith("Network share 30.0 % is above 25 %: data moves on the fabric")
    assert _judge(_steps(["a", "a"], {}, 60).figures()).cause == "intra_node"


def test_a_flag_without_a_known_layer_has_an_unknown_cause() -> None:
    verdict = _judge(_steps([None, None], {}, 60).figures())
    assert (verdict.status, verdict.cause) == ("flagged", "unknown")


def test_one_rank_of_two_is_flagged_as_an_upper_bound_only() -> None:
    made = Timelines(["a"], world=2)
    made.step(1, 0, 20)
    made.kernel(0, 0, 11)
    made.collective({0: 11}, 20, members=[0, 1])
    verdict = _judge(made.figures(), RunFacts(name="x", world_size=2, ranks=[0], missing_ranks=[1]))
    assert (verdict.status, verdict.cause) == ("flagged", "unknown")
    assert _found(verdict, "NETWORK_SHARE").severity == "warning"
    assert _found(verdict, "NETWORK_SHARE").time_lost_ms is None
    assert "rank 1 is missing" in verdict.headline
    assert "cannot be told" in verdict.headline


def test_one_flagged_step_is_a_finding_but_not_the_flag() -> None:
    made = _steps(["a", "b"], {}, 6)
    made.step(99, 1000, 1050)
    for rank in (0, 1):
        made.kernel(rank, 1000, 1030, launch=999)
    made.collective({0: 1030, 1: 1030}, 1050)
    verdict = _judge(made.figures())
    assert (verdict.status, verdict.flagged) == ("warn", False)
    finding = _found(verdict, "NETWORK_SHARE")
    assert (finding.severity, finding.subject.steps) == ("warning", [99])
    assert "step 99" in finding.title


def test_a_straggler_is_named_with_its_steps_reason_and_cost() -> None:
    verdict = _judge(_steps(["a", "a", "b", "b"], {2: 60.0}, 6).figures())
    assert (verdict.status, verdict.cause) == ("warn", "straggler")
    assert verdict.headline.startswith("Mostly waiting for rank 2:")
    finding = _found(verdict, "STRAGGLER")
    assert (finding.subject.ranks, finding.subject.steps) == ([2], [0, 1, 2, 3, 4, 5])
    assert "its own compute" in finding.title
    assert finding.time_lost_ms == pytest.approx(20)
    codes = _codes(verdict)
    assert codes.index("STRAGGLER") + 1 == codes.index("MOSTLY_WAITING")
    assert all(finding.severity != "critical" for finding in verdict.findings)


def test_a_slow_host_is_one_finding_about_the_host() -> None:
    """Each of its four ranks causes 3.6 % of pooled step time in waits, together they cause 14 %."""
    made = Timelines(["a"] * 4 + ["b"] * 4)
    at = 0.0
    for step in range(20):
        made.step(step, at, at + 68)
        for rank in range(8):
            made.kernel(rank, at, at + (60 if rank > 3 else 40), launch=at - 1)
        for rank in range(4):
            made.collective({rank: at + 40, rank + 4: at + 60}, at + 66, size=64_000_000)
        made.collective(dict.fromkeys(range(8), at + 66.0), at + 68, size=4)
        at += 68
    verdict = _judge(made.figures())
    finding = _found(verdict, "STRAGGLER")
    assert (finding.subject.hosts, finding.subject.ranks) == (["b"], [4, 5, 6, 7])
    assert finding.title.startswith("Host b (ranks 4-7) is a straggler")
    assert _codes(verdict).count("STRAGGLER") == 1
    assert (verdict.cause, finding.time_lost_ms) == ("straggler", pytest.approx(20))


def test_rare_lateness_is_no_straggler() -> None:
    made = _steps(["a", "a", "b", "b"], {}, 6, count=12)
    at = 2000.0
    for step, late in ((50, 0), (51, 1), (52, 2), (53, 3)):
        made.step(step, at, at + 56)
        for rank in range(4):
            made.kernel(rank, at, at + (50 if rank == late else 40), launch=at - 1)
        made.collective({rank: at + (50 if rank == late else 40) for rank in range(4)}, at + 56)
        at += 56
    assert "STRAGGLER" not in _codes(_judge(made.figures()))


def test_slow_transfer_elsewhere_is_a_network_fault_of_its_pair() -> None:
    made = Timelines(["a", "b", "c", "d"])
    made.step(1, 0, 60)
    for rank in range(4):
        made.kernel(rank, 0, 20, launch=-1)
    made.collective({0: 20, 1: 20}, 40, size=8_000_000, name="pair")
    made.collective({2: 20, 3: 20}, 22, size=8_000_000, name="pair")
    made.collective({0: 40, 1: 40, 2: 22, 3: 22}, 44, name="all")
    for rank in range(4):
        made.kernel(rank, 44, 60, launch=0)
    figures = made.figures(threshold=Fraction(3, 10))
    verdict = _judge(figures)
    assert (verdict.status, verdict.flagged, verdict.cause) == ("warn", False, "fabric")
    finding = _found(verdict, "SLOW_TRANSFER_ELSEWHERE")
    assert (finding.subject.groups, finding.subject.ranks) == (["0,1"], [0, 1])
    assert finding.time_lost_ms == pytest.approx(18)
    assert "ranks 0 and 1" in verdict.headline
    assert "STRAGGLER" not in _codes(verdict)
    assert figures.totals["network_delay_share"] > 0.3 > figures.totals["network_share"]


def test_a_pipeline_bubble_is_the_schedule_and_no_straggler() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 40)
    made.kernel(0, 0, 30, launch=-1)
    made.message(0, 1, 30, 0, 31)
    made.kernel(0, 31, 40, launch=-1)
    made.kernel(1, 31, 40, launch=-1)
    verdict = _judge(made.figures())
    assert (verdict.status, verdict.cause) == ("warn", "schedule")
    assert "PIPELINE_BUBBLE" in _codes(verdict)
    assert "STRAGGLER" not in _codes(verdict)
    assert "pipeline" in verdict.headline


def test_idle_with_an_empty_queue_is_the_hosts() -> None:
    made = Timelines(["a"])
    made.step(1, 0, 100)
    for start in range(0, 100, 10):
        made.kernel(0, start + 4, start + 10, launch=start + 3.9)
    verdict = _judge(made.figures())
    assert (verdict.status, verdict.cause) == ("warn", "host")
    assert _found(verdict, "HOST_BOUND").time_lost_ms == pytest.approx(39)
    assert "hosts 39.0 % of the step" in verdict.headline


def test_idle_while_work_is_queued_is_not_the_hosts() -> None:
    made = Timelines(["a"])
    made.step(1, 0, 100)
    for start in range(0, 100, 10):
        made.kernel(0, start + 4, start + 10, launch=-1)
    assert _judge(made.figures()).status == "pass"


def test_host_copies_above_a_tenth_of_the_step_are_named() -> None:
    made = _steps(["a", "a"], {}, 6)
    made.step(50, 1000, 1100)
    for rank in (0, 1):
        made.kernel(rank, 1000, 1100, launch=999)
    made.kernel(1, 1010, 1025, kind="memory", name="Memcpy DtoH (Device -> Pageable)")
    finding = _found(_judge(made.figures()), "HOST_COPIES")
    assert (finding.severity, finding.subject.ranks, finding.subject.steps) == ("info", [1], [50])
    assert "15.0 %" in finding.title
    heavy = Timelines(["a"])
    heavy.step(1, 0, 100)
    heavy.kernel(0, 0, 85, launch=-1)
    heavy.kernel(0, 85, 100, kind="memory", name="Memcpy HtoD (Pinned -> Device)", launch=-1)
    verdict = _judge(heavy.figures())
    assert (verdict.status, verdict.cause) == ("warn", "host")
    assert _found(verdict, "HOST_COPIES").time_lost_ms == pytest.approx(15)


def test_a_copy_of_exactly_a_tenth_is_not_named() -> None:
    made = Timelines(["a"])
    made.step(1, 0, 100)
    made.kernel(0, 0, 90, launch=-1)
    made.kernel(0, 90, 100, kind="memory", name="Memcpy HtoD (Pinned -> Device)", launch=-1)
    assert _judge(made.figures()).findings == []


def _gradients(parts: int, parallelism: str | None = None) -> Timelines:
    """80 ms of compute, then 20 ms of transfer in one or several collectives."""
    made = Timelines(["a", "b"])
    for step in range(3):
        at = 100.0 * step
        made.step(step, at, at + 100)
        for rank in (0, 1):
            made.kernel(rank, at, at + 80, launch=at - 1)
        for part in range(parts):
            begin = at + 80 + 20 * part / parts
            made.collective({0: begin, 1: begin}, begin + 20 / parts, size=64_000_000, parallelism=parallelism)
    return made


def test_gradients_in_the_open_could_overlap_but_tensor_parallel_ones_could_not() -> None:
    verdict = _judge(_gradients(4).figures())
    assert (verdict.status, verdict.cause) == ("warn", "schedule")
    assert _found(verdict, "NO_OVERLAP").time_lost_ms == pytest.approx(20)
    assert "NO_OVERLAP" not in _codes(_judge(_gradients(4, "TP").figures()))


def test_transfer_in_the_open_of_a_group_without_a_description_may_stand_on_the_path() -> None:
    figures = _gradients(4).figures()
    assert "group_desc" in _found(_judge(figures), "NO_OVERLAP").detail
    said = replace(figures, groups=figures.groups.with_columns(description=pl.lit("data_parallel")))
    assert "group_desc" not in _found(_judge(said), "NO_OVERLAP").detail


def test_transfer_of_ranks_that_are_not_selected_is_not_set_against_the_selected_ones() -> None:
    whole = _gradients(4).figures()
    chosen = replace(whole, pooled=whole.pooled.filter(pl.col("rank") == 0))
    finding = _found(_judge(chosen), "NO_OVERLAP")
    assert finding.time_lost_ms == pytest.approx(20)
    assert "20.0 % of the step" in finding.title


def test_a_single_collective_in_the_open_is_no_warning() -> None:
    verdict = _judge(_gradients(1).figures())
    assert (verdict.status, verdict.cause) == ("pass", "none")
    assert _found(verdict, "NO_OVERLAP").severity == "info"


def test_a_slow_phase_is_named_from_its_first_step_and_by_what_grew() -> None:
    made = Timelines(["a", "b"])
    at = 0.0
    for step in range(24):
        transfer = 10 if step < 12 else 24
        made.step(step, at, at + 60 + transfer)
        for rank in (0, 1):
            made.kernel(rank, at, at + 60 + step % 3 * 0.1, launch=at - 1)
        made.collective({0: at + 58, 1: at + 58}, at + 60 + transfer)
        at += 60 + transfer
    verdict = _judge(made.figures())
    finding = _found(verdict, "CHANGE_POINT")
    assert finding.subject.steps == list(range(12, 24))
    assert (finding.cause, finding.time_lost_ms) == ("fabric", pytest.approx(7))
    assert "exposed transfer" in finding.title


def test_low_bandwidth_is_told_from_the_declared_link_and_from_peers() -> None:
    figures = _steps(["a", "b"], {}, 40).figures(declared_gbps={"inter_node": 100})
    finding = _found(_judge(figures), "LOW_BUS_BANDWIDTH")
    assert "12.5 GB/s" in finding.title
    made = Timelines([f"h{rank}" for rank in range(8)])
    made.step(1, 0, 100)
    for first in range(0, 8, 2):
        made.kernel(first, 0, 60, launch=-1)
        made.kernel(first + 1, 0, 60, launch=-1)
        made.collective({first: 60, first + 1: 60}, 90 if first == 4 else 66, size=64_000_000)
    finding = _found(_judge(made.figures()), "LOW_BUS_BANDWIDTH")
    assert finding.subject.groups == ["4,5"]


@pytest.mark.parametrize(("at_once", "low"), [(True, False), (False, True)])
def test_two_transfers_at_once_share_a_link_and_are_not_each_slow(at_once: bool, low: bool) -> None:
    # 250 MB in 40 ms are 6.25 GB/s, half of the link's 12.5 (and a little less); two at once fill it.
    made = Timelines(["a", "b"])
    made.step(1, 0, 200)
    for rank in (0, 1):
        made.kernel(rank, 0, 100, launch=-1)
    made.collective({0: 100, 1: 100}, 140, size=240_000_000)
    again = 100 if at_once else 145
    made.collective({0: again, 1: again}, again + 40, size=240_000_000, stream=21)
    verdict = _judge(made.figures(declared_gbps={"inter_node": 100}))
    assert ("LOW_BUS_BANDWIDTH" in _codes(verdict)) is low


@pytest.mark.parametrize(
    ("gbps", "transfer_ms", "size", "says"),
    [
        # Between two ranks bus bandwidth is bytes over time: 240 MB in 60 ms are 4 GB/s.
        (None, 60, 240_000_000, "reaches 4 GB/s. Whether that is slow, only its link can tell: give inter_node_gbps"),
        (40, 60, 240_000_000, "reaches 4 GB/s, 80 % of the declared link: the link does its part"),
        (320, 60, 240_000_000, "reaches 4 GB/s, 10 % of the declared link. Find out what holds it back"),
        (320, 60, 6_000_000, "reaches 0.1 GB/s, 0.2 % of the declared link: messages of 6 MB cannot fill it"),
    ],
)
def test_the_action_on_transfer_is_told_by_how_far_the_link_is_used(gbps: float | None, transfer_ms: float, size: int, says: str) -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 100)
    for rank in (0, 1):
        made.kernel(rank, 0, 40, launch=-1)
    made.collective({0: 40, 1: 40}, 40 + transfer_ms, size=size)
    verdict = _judge(made.figures(declared_gbps={"inter_node": gbps} if gbps else {}))
    action = _found(verdict, "NETWORK_SHARE").action
    assert action.startswith(f"all_reduce between ranks 0 and 1 holds 100 % of the exposed transfer and {says}")


def test_transfer_of_unknown_size_is_part_of_the_whole() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 100)
    for rank in (0, 1):
        made.kernel(rank, 0, 40, launch=-1)
    made.collective({0: 40, 1: 40}, 55, size=240_000_000)
    made.collective({0: 55, 1: 55}, 100, size=None)
    action = _found(_judge(made.figures()), "NETWORK_SHARE").action
    assert action.startswith("all_reduce between ranks 0 and 1 holds 25 % of the exposed transfer and reaches 16 GB/s.")


def test_small_messages_are_the_schedule_and_no_slow_link() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 100)
    for rank in (0, 1):
        made.kernel(rank, 0, 80, launch=-1)
    for k in range(20):
        made.collective({0: 80 + k, 1: 80 + k}, 81 + k, size=2_000_000)
    verdict = _judge(made.figures(declared_gbps={"inter_node": 400}))
    assert _found(verdict, "SMALL_MESSAGES").cause == "schedule"
    assert "LOW_BUS_BANDWIDTH" not in _codes(verdict)


def test_faster_than_the_declared_link_doubts_the_declaration() -> None:
    figures = _steps(["a", "b"], {}, 4).figures(declared_gbps={"inter_node": 12.5})
    finding = _found(_judge(figures), "BUSBW_ABOVE_LINE_RATE")
    assert "inter_node_gbps" in finding.action
    assert finding.time_lost_ms is None


def test_a_message_without_its_counterpart_is_named() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 40)
    made.kernel(0, 0, 40, launch=-1)
    made.kernel(1, 0, 40, launch=-1)
    made.kernel(1, 10, 12, kind="communication", name="ncclDevKernel_SendRecv", op="recv", group="0,1", split="unknown", step=1)
    assert _found(_judge(made.figures()), "P2P_UNMATCHED").subject.ranks == [1]


def test_send_that_a_captured_partner_never_receives_is_unmatched() -> None:
    made = Timelines(["a", "a"])
    made.step(1, 0, 100)
    made.kernel(0, 0, 50, launch=-1)
    made.kernel(1, 0, 90, launch=-1)
    made.collective({0: 50}, 60, members=[0, 1], op="send")
    found = _found(_judge(made.figures()), "P2P_UNMATCHED")
    assert (found.subject.ranks, found.subject.groups) == ([0], ["0,1"])


def test_send_to_a_rank_without_trace_is_not_called_unmatched() -> None:
    made = Timelines(["a"], world=2)
    made.step(1, 0, 100)
    made.kernel(0, 0, 50, launch=-1)
    made.collective({0: 50}, 60, members=[0, 1], op="send")
    assert "P2P_UNMATCHED" not in {finding.code for finding in _judge(made.figures()).findings}


def test_waiting_less_than_transferring_is_not_called_mostly_waiting() -> None:
    made = Timelines(["a", "b"])
    made.step(1, 0, 100)
    made.kernel(0, 0, 66, launch=-1)
    made.kernel(1, 0, 80, launch=-1)
    made.collective({0: 66, 1: 80}, 100)
    verdict = _judge(made.figures())
    assert verdict.status == "warn"
    assert "Mostly" not in _found(verdict, "MOSTLY_WAITING").title
    assert "Mostly" not in verdict.headline


def test_no_trace_is_inconclusive_or_warns_by_its_findings() -> None:
    empty = Timelines([]).figures()
    assert _judge(empty).status == "inconclusive"
    fault = Finding(code="SOCKET_FALLBACK", title="nodeb uses sockets", detail="", action="", source="", cause="fabric")
    verdict = judge(empty, FACTS, [fault])
    assert (verdict.status, verdict.cause, verdict.flagged) == ("warn", "fabric", False)
    assert verdict.headline.startswith("nodeb uses sockets")


@pytest.mark.parametrize(("word", "named"), [("localised", True), ("associated", False)])
def test_the_headline_of_a_slow_fabric_names_the_link_that_was_localised_and_no_other(word: str, named: bool) -> None:
    evidence = [{"port": "leaf1/swp2", "localisation": word}]
    fault = Finding(code="LINK_ERRORS", title="leaf1/swp2 has errors", detail="", action="", source="", cause="fabric", evidence=evidence)
    slow = _steps(["a", "b"], {}, 60).figures()
    assert judge(slow, FACTS, [fault]).headline.endswith("; the slow steps follow leaf1/swp2.") is named
    # Inside one host no link of the fabric can be guilty.
    assert "leaf1" not in judge(_steps(["a", "a"], {}, 60).figures(), FACTS, [fault]).headline
