"""Since when a run is slow: a phase that ended is no "since", and a run that is slow from its start has none."""

from __future__ import annotations

import pytest

from netlab.postmortem.phase import Phase, slow_phase
from tests.postmortem.test_beside import run

GOOD = run(dict.fromkeys(range(40), 100))


def steps(*stretches: tuple[int, int]) -> dict[int, int]:
    """Stretches of (steps, ms), one after the other, with a little variation that a change must stand out from."""
    lengths = [ms for count, ms in stretches for _ in range(count)]
    return {step: ms + (step % 2) for step, ms in enumerate(lengths)}


@pytest.mark.parametrize(
    ("stretches", "expected", "words"),
    [
        ([(20, 100), (20, 130)], Phase(20), "since step 20"),
        ([(12, 100), (14, 130), (14, 100)], Phase(12, 25), "in steps 12 to 25"),
        ([(40, 130)], Phase(0, whole=True), ""),
        ([(40, 100)], None, None),
    ],
)
def test_the_slow_phase_and_its_words(stretches: list[tuple[int, int]], expected: Phase | None, words: str | None) -> None:
    found = slow_phase(GOOD, run(steps(*stretches)))
    assert found == expected
    assert (None if found is None else found.words) == words


def test_the_warm_up_is_not_the_start_of_a_slow_run() -> None:
    found = slow_phase(GOOD, run({0: 900} | {step: 130 + step % 2 for step in range(1, 40)}))
    assert found == Phase(1, whole=True)
