"""What schedulers and chats read: short, escaped, and without a value where nothing is known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from netlab.issues import Issue
from netlab.report import append_step_summary, junit_xml, prometheus_text, summary_markdown, write_junit
from netlab.verdict.model import Verdict
from netlab.verdict.rows import Breakdown, SourceRow
from tests.made_run import made_run

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def _verdict(**changed: object) -> Verdict:
    return msgspec.structs.replace(made_run(ranks=4, steps=4, slow_rank=1).verdict, **changed)


def _samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_summary_has_at_most_thirty_lines_whatever_is_found() -> None:
    verdict = _verdict()
    many = [msgspec.structs.replace(verdict.findings[0], id=f"STRAGGLER-{number}") for number in range(40)]
    issues = [Issue(code=f"CODE_{number}", message="x") for number in range(40)]
    answers = [{"name": f"s{number}", "predicted_ms": 10.0, "speedup": 1.1} for number in range(40)]
    text = summary_markdown(msgspec.structs.replace(verdict, findings=many, issues=issues, what_if=answers))
    assert len(text.splitlines()) <= 30
    assert text.splitlines()[-1] == "[Report](report.html)"
    assert "34 more findings" in text


def test_a_title_that_ends_a_sentence_gets_no_second_stop() -> None:
    verdict = _verdict()
    finding = msgspec.structs.replace(verdict.findings[0], title="Rank 2 never joined.", action="Look at it.", time_lost_ms=None)
    assert "Rank 2 never joined. Look at it." in summary_markdown(msgspec.structs.replace(verdict, findings=[finding]))


def test_names_cannot_break_out_of_the_summary() -> None:
    verdict = _verdict(headline="a | b <script> `c`\n# d")
    assert r"a \| b \<script\> \`c\` \# d" in summary_markdown(verdict)


def test_step_summary_is_appended_where_github_asks_for_it(tmp_path: Path) -> None:
    target = tmp_path / "summary"
    target.write_text("before\n", "utf-8")
    append_step_summary("after\n", {"GITHUB_STEP_SUMMARY": str(target)})
    append_step_summary("nowhere\n", {})
    assert target.read_text("utf-8") == "before\nafter\n"


def test_metrics_have_the_values_of_the_verdict() -> None:
    verdict = _verdict()
    samples = _samples(prometheus_text(verdict, NOW, 3.5))
    assert samples["netlab_network_share_ratio", ()] == verdict.totals.network_share
    assert samples["netlab_network_share_threshold_ratio", ()] == 0.25
    assert samples["netlab_flag_certain", ()] in (0.0, 1.0)
    assert samples["netlab_report_last_run_timestamp_seconds", ()] == NOW.timestamp()
    assert samples["netlab_stragglers", ()] == 1.0
    assert samples["netlab_findings", (("severity", "warning"),)] == 1.0
    assert samples["netlab_findings", (("severity", "critical"),)] == 0.0
    times = [row.iteration_ms for row in verdict.by_rank_step if row.iteration_ms is not None]
    assert samples["netlab_step_time_seconds", (("quantile", "1"),)] == max(times) / 1_000


def test_unknown_values_are_left_out_and_never_zero() -> None:
    text = prometheus_text(_verdict(totals=Breakdown(), by_rank_step=[], status="inconclusive"), NOW)
    samples = _samples(text)
    assert not [
        name for name, _ in samples if name in ("netlab_network_share_ratio", "netlab_wait_share_ratio", "netlab_step_time_seconds")
    ]
    assert samples["netlab_status", (("status", "inconclusive"),)] == 1.0


def test_metrics_carry_no_timestamps() -> None:
    # node_exporter's textfile collector refuses a file with them.
    lines = [line for line in prometheus_text(_verdict(), NOW).splitlines() if line and not line.startswith("#")]
    assert all(len(line.rsplit("}", 1)[-1].split()) == (1 if "}" in line else 2) for line in lines)


def test_junit_fails_what_the_verdict_blames(tmp_path: Path) -> None:
    sources = [SourceRow(path="broken.json", status="rejected", message="TRUNCATED_JSON: ends in the middle")]
    base = _verdict()
    verdict = msgspec.structs.replace(
        base, flagged=True, run=msgspec.structs.replace(base.run, sources=sources), headline='"quoted" & <tag>\x00'
    )
    write_junit(verdict, tmp_path / "j.xml")
    suite = ElementTree.fromstring((tmp_path / "j.xml").read_text("utf-8"))
    cases = {case.get("name"): case for case in suite}
    assert cases["network_share"].find("failure") is not None
    assert cases["inputs"].find("error") is not None
    assert cases["STRAGGLER-1"].find("failure") is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "1")


def test_junit_skips_a_share_that_is_not_known() -> None:
    suite = ElementTree.fromstring(junit_xml(_verdict(totals=Breakdown(), flagged=False, findings=[])))
    assert suite[0].find("skipped") is not None
    assert suite.get("failures") == "0"
