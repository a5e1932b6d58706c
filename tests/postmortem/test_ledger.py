"""The ledger of a comparison: its parts add up to the change of the step, and one fault on some of the same ports is one fault."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from netlab.findings import Subject
from netlab.postmortem.ledger import ledger
from netlab.postmortem.series import PARTS, difference
from netlab.run import Run
from netlab.schema import TABLES
from netlab.verdict.model import FindingRow, Verdict
from tests.made_run import made_run
from tests.postmortem.test_beside import MS, run

MADE = made_run(ranks=4, steps=4, slow_rank=1)


def moving(steps: dict[int, tuple[int, int]], layer: str) -> Run:
    """Steps of (ms, of them exposed transfer) over links of a layer."""
    made = run({step: whole for step, (whole, _) in steps.items()})
    exposed = pl.col("step").replace_strict({step: part * MS for step, (_, part) in steps.items()}, return_dtype=pl.Int64)
    names = ("exposed_transfer_ns", "exposed_comm_ns", "comm_ns", f"exposed_transfer_{layer}_ns")
    frame = made.frame("breakdown").with_columns([exposed.alias(name) for name in names])
    whole = frame.with_columns(compute_ns=pl.col("step_ns") - exposed)
    spans = whole.unique("rank").select(name for name in TABLES["spans"].schema if name in whole.columns)
    return made.with_frames({"breakdown": whole, "spans": TABLES["spans"].conform(spans, start_ns=0, end_ns=MS)})


def rows(base: Run, slow: Run, old: Verdict = MADE.verdict, new: Verdict = MADE.verdict, cause: str = "fabric") -> pl.DataFrame:
    return ledger(base, old, slow, new, [], cause)


@pytest.mark.parametrize("layer", ["inter_node", "intra_node", "unplaced"])
def test_parts_and_layers_add_up_to_the_change_of_the_step(layer: str) -> None:
    warm = {0: (900, 500)}
    base = moving(warm | {step: (100, 10 + step % 2) for step in range(1, 9)}, layer)
    slow = moving(warm | {step: (120 + step % 3, 34) for step in range(1, 9)}, layer)
    found = difference(base, slow)
    assert found is not None
    whole = rows(base, slow)
    assert whole["delta_ns"].sum() / MS == pytest.approx(found.step_ms), "each part once, and the warm-up in none"
    moved = whole.filter(pl.col("area") == "transfer")
    assert moved["delta_ns"].sum() / MS == pytest.approx(found.delta_ms["exposed_transfer"]) == pytest.approx(34 - 10.5)
    assert sum(found.delta_ms[part] for part in PARTS) == pytest.approx(found.step_ms)


def test_communication_that_is_not_told_from_waiting_is_called_so() -> None:
    base, slow = moving({1: (100, 10), 2: (100, 10)}, "unplaced"), moving({1: (130, 40), 2: (130, 40)}, "unplaced")
    unknown = msgspec.structs.replace(MADE.verdict, split="unknown")
    assert "not told from waiting" in rows(base, slow, unknown).filter(pl.col("area") == "transfer")["what"].item()
    assert "layer unknown" in rows(base, slow).filter(pl.col("area") == "transfer")["what"].item()


def errors(*ports: str, code: str = "LINK_ERRORS") -> Verdict:
    row = FindingRow(
        id=f"{code}-1", code=code, severity="warning", title=f"Errors on {', '.join(ports)}", detail="", action="", source="",
        subject=Subject(ports=list(ports)), evidence=[], time_lost_ms=None,
    )  # fmt: skip
    return msgspec.structs.replace(MADE.verdict, findings=[row])


def test_a_link_fault_on_the_same_ports_is_no_difference_and_on_more_ports_is_one() -> None:
    same = run({1: 100, 2: 100})

    def links(old: Verdict, new: Verdict) -> list[tuple[str, str | None, str | None]]:
        return rows(same, same, old, new).filter(pl.col("area") == "links").select("what", "base", "run").rows()

    assert links(errors("leaf1:1"), errors("leaf1:1")) == []
    assert links(errors("leaf1:1", "leaf1:2"), errors("leaf1:1")) == []
    assert links(errors("leaf1:1"), errors("leaf1:1", "leaf1:2")) == [("LINK_ERRORS on more ports: leaf1:2", "1 port", "2 ports")]
    assert sorted(links(errors("leaf1:1"), errors("leaf2:1"))) == [
        ("Errors on leaf1:1", "found", "not there"),
        ("Errors on leaf2:1", "not there", "found"),
    ]
