"""What lies in deploy/ parses, runs, and names only metrics, options and parameters that netlab has."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
import yaml
from prometheus_client.parser import text_string_to_metric_families

import netlab.cli.judging
import netlab.cli.tools  # noqa: F401 -- both register their commands
from netlab.cli.common import app
from netlab.report import prometheus_text
from netlab.report.notebooks import declared_parameters
from netlab.verdict.model import ClockSummary, RunSummary, Verdict
from netlab.verdict.rows import Breakdown, CollectiveRow, RankStepRow

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SCRIPTS = sorted(DEPLOY.rglob("*.sh"))


def _metrics() -> str:
    shares = dict.fromkeys(
        ("network_share", "network_share_low", "network_share_high", "comm_share", "wait_share", "fabric_share", "network_delay_share"), 0.3
    )
    verdict = Verdict(
        netlab_version="0",
        created_at="2026-11-30T12:00:00Z",
        run=RunSummary(
            name="r",
            world_size=2,
            ranks=[0],
            missing_ranks=[1],
            hosts={},
            steps=[3],
            excluded_steps=[],
            window="step",
            backend="device",
            sources=[],
        ),
        clock=ClockSummary(aligned=True, offsets_ms={}, max_error_ms=0.0),
        threshold=0.25,
        status="flagged",
        flagged=True,
        cause="fabric",
        headline="h",
        split="measured",
        basis="transfer",
        totals=Breakdown(**shares, overlap_efficiency=0.5, exposed_comm_ms=3.0, flagged=True, flag_certain=True),
        by_rank_step=[RankStepRow(rank=0, step=3, iteration_ms=10.0)],
        collectives=[CollectiveRow(group=[0, 1], op="all_reduce", count=1, busbw_gb_per_s=100.0, split="measured")],
    )
    return prometheus_text(verdict, datetime(2026, 11, 30, 12, tzinfo=UTC), 3.0)


def _labels() -> dict[str, dict[str, set[str]]]:
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(_metrics()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for key, value in sample.labels.items():
                labels.setdefault(key, set()).add(value)
    return found


def _rule_expressions() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus/netlab.rules.yml").read_text("utf-8"))
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def _panel_expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana/netlab.json").read_text("utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_can_be_executed(path: Path) -> None:
    subprocess.run(["bash", "-n", path], check=True)
    assert os.access(path, os.X_OK)


def test_yaml_and_python_parse() -> None:
    for path in DEPLOY.rglob("*.yml"):
        assert yaml.safe_load(path.read_text("utf-8")), path
    for path in DEPLOY.rglob("*.py"):
        ast.parse(path.read_text("utf-8"))


@pytest.mark.parametrize("expression", [*_rule_expressions(), *_panel_expressions()])
def test_rules_and_panels_use_only_series_that_a_report_writes(expression: str) -> None:
    known = _labels()
    for name, matchers in re.findall(r"(netlab_\w+)(?:\{([^}]*)\})?", expression):
        assert name in known
        for label, operator, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
            if label == "schedule":  # what netlab-textfile.sh adds
                continue
            values = value.split("|") if operator == "=~" else [value]
            assert set(values) <= known[name][label], (name, label)


def _told_options() -> list[tuple[str, str]]:
    texts = [path for path in [*DEPLOY.rglob("*"), ROOT / "docs/schedules.md"] if path.suffix in {".sh", ".yml", ".py", ".md"}]
    told = []
    for path in texts:
        text = path.read_text("utf-8").replace("\\\n", " ")
        lines = [
            re.split(r"\|\||&&|`", line)[0] for line in re.findall(r"\bnetlab ((?:report|check|history|compare|ingest|whatif) .*)", text)
        ]
        told += [(line.split()[0], option) for line in lines for option in re.findall(r"(?<=\s)--[a-z-]+", line)]
    return told


def test_commands_use_only_options_that_exist() -> None:
    commands = typer.main.get_command(app).commands
    told = _told_options()
    assert len(told) > 5
    for command, option in told:
        assert option in {name for parameter in commands[command].params for name in parameter.opts}, (command, option)


def test_parameters_of_the_dag_are_declared_by_the_notebook() -> None:
    tree = ast.parse((DEPLOY / "airflow/netlab_dag.py").read_text("utf-8"))
    given = [word.value for word in ast.walk(tree) if isinstance(word, ast.keyword) and word.arg == "parameters"]
    assert len(given) == 1
    names = {key.value for key in given[0].keys}
    assert names
    assert names <= set(declared_parameters(ROOT / "notebooks/run_report.ipynb"))


def test_textfile_has_every_series_once_under_its_schedule(tmp_path: Path) -> None:
    source = tmp_path / "netlab.prom"
    source.write_text(_metrics(), "utf-8")
    subprocess.run([DEPLOY / "netlab-textfile.sh", "llama", source, tmp_path], check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["netlab-llama.prom", "netlab.prom"]
    copied = (tmp_path / "netlab-llama.prom").read_text("utf-8")
    want = [(s.name, {**s.labels, "schedule": "llama"}, s.value) for f in text_string_to_metric_families(_metrics()) for s in f.samples]
    assert [(s.name, s.labels, s.value) for f in text_string_to_metric_families(copied) for s in f.samples] == want


def test_a_run_without_metrics_replaces_old_numbers_by_a_failure(tmp_path: Path) -> None:
    (tmp_path / "netlab-x.prom").write_text("netlab_network_share_ratio 0.1\n", "utf-8")
    subprocess.run([DEPLOY / "netlab-textfile.sh", "x", tmp_path / "absent", tmp_path], check=True)
    text = (tmp_path / "netlab-x.prom").read_text("utf-8")
    assert text.splitlines()[-1] == 'netlab_report_success{schedule="x"} 0'
    assert "share" not in text


@pytest.mark.parametrize(("report", "trend", "want"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (3, 0, 3), (4, 1, 4)])
def test_exit_code_of_a_schedule_is_the_higher_one(tmp_path: Path, report: int, trend: int, want: int) -> None:
    stub = tmp_path / "bin/netlab"
    stub.parent.mkdir()
    stub.write_text(
        f'#!/bin/sh\necho "$NETLAB_RUN_NAME $*" >> {tmp_path}/calls\n[ "$1" = report ] && exit {report}\nexit {trend}\n', "utf-8"
    )
    stub.chmod(0o755)
    (tmp_path / "runs/new").mkdir(parents=True)
    environment = {"PATH": f"{stub.parent}:{os.environ['PATH']}", "TEXTFILE_DIR": str(tmp_path)}
    command = [DEPLOY / "netlab-scheduled.sh", "-n", "llama", tmp_path / "runs", tmp_path / "reports"]
    assert subprocess.run(command, env=environment, check=False).returncode == want
    assert (tmp_path / "calls").read_text("utf-8").startswith(f"llama report {tmp_path}/runs/new --out {tmp_path}/reports/llama/")
    assert (tmp_path / "netlab-llama.prom").exists()


def test_epilog_never_fails(tmp_path: Path) -> None:
    for job in ("", "17", "../x"):
        subprocess.run([DEPLOY / "slurm/epilog.sh"], env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": job}, check=True)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian package prometheus)")
def test_promtool_accepts_rules_and_panels(tmp_path: Path) -> None:
    folder = DEPLOY / "prometheus"
    subprocess.run(["promtool", "check", "rules", folder / "netlab.rules.yml"], check=True, capture_output=True)
    subprocess.run(["promtool", "test", "rules", folder / "netlab.rules.test.yml"], check=True, capture_output=True)
    panels = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(_panel_expressions())]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": panels}]}), "utf-8")
    subprocess.run(["promtool", "check", "rules", tmp_path / "panels.yml"], check=True, capture_output=True)
