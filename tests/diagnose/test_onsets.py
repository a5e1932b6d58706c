"""A change of the steps is told with what began on a link at that step, and with nothing that began elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from netlab.diagnose.localise import localise
from netlab.diagnose.onsets import Onset, link_onset, told_with
from netlab.findings import Finding, Subject
from tests.diagnose.test_localise import CELLS, job

CHANGE = 70


def change_at(step: int) -> Finding:
    return Finding(
        code="CHANGE_POINT", title="Steps are slower", detail="d.", action="Look.", source="s", subject=Subject(steps=[step, step + 1])
    )


@pytest.fixture(scope="module")
def onset() -> Onset:
    slow = np.arange(CELLS) >= CHANGE
    run = job(slow, {3: slow * 50})
    found = link_onset(run, localise(run))
    assert found is not None
    return found


def test_what_began_with_the_change_is_told(onset: Onset) -> None:
    assert onset.ports[0].endswith("/e3")
    told = told_with(change_at(CHANGE), onset)
    assert told.title == f"Steps are slower; at the same time {onset.began}"
    assert told.evidence[-1]["localisation"] == "associated"
    assert told.action.startswith(f"Look at {onset.ports[0]} first.")


def test_a_change_elsewhere_is_told_alone(onset: Onset) -> None:
    elsewhere = change_at(max(onset.steps) + 5)
    assert told_with(elsewhere, onset) == elsewhere
    assert told_with(change_at(CHANGE), None) == change_at(CHANGE)


def test_no_onset_without_a_lasting_change() -> None:
    run = job(np.zeros(CELLS, bool), {3: np.full(CELLS, 5)})
    assert link_onset(run, localise(run)) is None
