"""The evidence of a localisation is kept, cell by cell, with the reason where nobody is named."""

from __future__ import annotations

import numpy as np
import pytest

from netlab.diagnose.link_cells import link_evidence
from netlab.diagnose.localise import localise
from netlab.run import Run, RunFacts
from netlab.schema.counters import LINK_CELLS, LINK_TESTS
from tests.diagnose.test_localise import CELLS, job, slow_steps


def test_cells_of_the_accused_link_hold_its_events_and_those_of_its_peers() -> None:
    slow = slow_steps()
    other = (np.arange(CELLS) % 9 == 0) * 7
    run = job(slow, {3: slow * 50, 4: other})
    tables = link_evidence(run, localise(run))
    LINK_TESTS.validate(tables["link_tests"])
    LINK_CELLS.validate(tables["link_cells"])
    own = tables["link_cells"].filter(port="e3").sort("t0_ns")
    assert tables["link_tests"]["port"][0] == "e3"
    assert own["events"].to_list() == pytest.approx((slow * 50.0).tolist())
    assert own["peer_events"].to_list() == pytest.approx((other / 7).tolist())  # 7 events of one of seven peers
    assert own["exposed_ms"].to_list() == pytest.approx(np.where(slow, 40.0, 10.0).tolist())


def test_where_nobody_is_named_the_reason_stands_alone() -> None:
    for run in (Run.from_frames({}, RunFacts(name="none")), job(slow_steps(), {3: np.full(CELLS, 50)})):
        result = localise(run)
        tables = link_evidence(run, result)
        assert tables["link_tests"].select("device", "state", "reason").rows() == [(None, result.state, result.reason)]
        assert not tables["link_cells"].height
