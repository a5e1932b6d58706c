"""Thresholds of the rules about links, each with its source. Those that no source gives say so."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LINK_THRESHOLDS", "LinkThresholds", "Threshold"]


@dataclass(frozen=True)
class Threshold:
    """A limit and where it comes from."""

    value: float
    source: str


@dataclass(frozen=True)
class LinkThresholds:
    """All limits of link rules besides ``[limits]`` of netlab.toml."""

    loss_ratio: Threshold = Threshold(
        1e-4, "0.01 % of packets: rule of thumb for go-back-N transports; UFM's PDR plugin is stricter (1e-12 for errors)"
    )
    symbol_errors: Threshold = Threshold(
        2.88, "UFM PDR plugin: 2.88 symbol errors in 12 min of NDR (1e-14), scaled by link rate; beyond 125 min 1e-15"
    )
    error_ratio: Threshold = Threshold(1e-12, "UFM PDR plugin, MAX_PDR: packet error rate 1e-12")
    pre_fec_ber: Threshold = Threshold(1e-7, "Arista ANTA VerifyInterfacesBER: 1e-7 before FEC, any uncorrected codeword fails")
    pause_ratio: Threshold = Threshold(0.01, "1 % of the time: netlab's own rule of thumb, no published limit is known")
    ecn_ratio: Threshold = Threshold(0.01, "1 % of packets: netlab's own rule of thumb, no published limit is known")
    wait_ratio: Threshold = Threshold(0.10, "10 % of the time: netlab's own rule of thumb; XmitWait is relative, compare like devices")
    imbalance: Threshold = Threshold(
        1.5, "largest load 1.5 times the mean: netlab's own rule of thumb; a saturated group is slowed by max/mean"
    )
    rail_imbalance: Threshold = Threshold(
        1.2, "largest rail 1.2 times the mean: netlab's own rule of thumb; rails of one job should be equal"
    )
    post_fec_ber: Threshold = Threshold(1e-12, "ibdiagnet --ber_thresh: bit error rate after correction 1e-12")
    temperature_c: Threshold = Threshold(70, "UFM PDR plugin: module temperature 70 C, or 10 C more than before")
    temperature_rise_c: Threshold = Threshold(10, "UFM PDR plugin: module temperature 70 C, or 10 C more than before")
    queue_us: Threshold = Threshold(
        100, "100 to 200 us of the link's bandwidth: netlab's rule of thumb for what a queue may hold before it delays collectives"
    )
    queue_full_us: Threshold = Threshold(
        200, "100 to 200 us of the link's bandwidth: netlab's rule of thumb for what a queue may hold before it delays collectives"
    )
    traffic_excess: Threshold = Threshold(
        0.05, "5 % beyond headers: netlab's own margin for control traffic and messages at the window's borders"
    )
    class_agreement: Threshold = Threshold(0.75, "three quarters of like ports agree on one class: netlab's own rule of thumb")
    storm_share: Threshold = Threshold(
        0.9, "SONiC pfcwd: a queue that is paused without a break for 200 ms is a storm; here 90 % of the last poll"
    )


LINK_THRESHOLDS = LinkThresholds()
