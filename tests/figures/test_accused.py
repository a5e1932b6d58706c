"""The accused link stands out of its peers, with the figures of its test."""

from __future__ import annotations

import polars as pl

from netlab import figures
from netlab.schema.counters import LINK_CELLS, LINK_TESTS

LINK = {"device": "leaf", "port": "e3", "direction": "rx", "metric": "errors", "state": "localised"}
TEST = LINK | {"number": 0, "reason": "", "p_value": 0.002, "excess_ms": 5.0, "excess_low_ms": 4.0, "excess_high_ms": 6.5}
TESTS = LINK_TESTS.conform(pl.DataFrame([TEST | {"cells": 4, "cell_ms": 100.0, "detectable_r2": 0.09}]))
ROWS = {"t0_ns": [0, 1, 2, 3], "exposed_ms": [10.0, 10.0, 40.0, 40.0], "events": [0.0, 0.0, 50.0, 50.0], "peer_events": [1.0] * 4}
CELLS = LINK_CELLS.conform(pl.DataFrame(ROWS), **LINK)


def test_title_and_subtitle_give_effect_interval_n_p_and_what_could_be_seen() -> None:
    title = figures.accused_link(figures.accused_link_frame(CELLS, TESTS), TESTS).to_dict()["title"]
    told = " ".join([*([title["text"]] if isinstance(title["text"], str) else title["text"]), *title["subtitle"]])
    for words in ("leaf/e3", "5 ms per step", "4 ms to 6.5 ms", "localised", "n = 4", "p = 0.002", "9%"):
        assert words in told.replace("9 %", "9%"), (words, told)


def test_the_line_goes_through_both_levels() -> None:
    chart = figures.accused_link(figures.accused_link_frame(CELLS, TESTS), TESTS).to_dict()
    points = chart["datasets"][chart["layer"][1]["data"]["name"]]
    assert [(point["events"], point["exposed_ms"]) for point in (points[0], points[-1])] == [(0.0, 10.0), (50.0, 40.0)]


def test_nobody_named_draws_nothing() -> None:
    silent = LINK_TESTS.conform(pl.DataFrame([{"number": 0, "state": "cannot tell", "reason": "few cells", "cells": 3}]))
    assert not figures.accused_link_frame(CELLS, silent).height
