"""A nightly netlab notebook and verdict in Airflow 3.

Needs the providers ``papermill`` and ``standard``, and netlab in the environment of the worker. The notebook comes from
``netlab notebooks /srv/netlab/notebooks``. A notebook alone has no exit code for a verdict, so ``netlab check`` decides beside it;
it takes the parsed files from the cache.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.papermill.operators.papermill import PapermillOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

RUN = "/data/traces/llama-70b/{{ ds }}"
REPORTS = "/srv/netlab/reports/llama-70b"
DAY = REPORTS + "/{{ ds }}"

with DAG(
    dag_id="netlab_llama_70b",
    schedule="30 4 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=10), "execution_timeout": timedelta(hours=1)},
    tags=["netlab"],
) as dag:
    notebook = PapermillOperator(
        task_id="notebook",
        input_nb="/srv/netlab/notebooks/run_report.ipynb",
        output_nb=REPORTS + "/{{ ds }}.ipynb",
        parameters={"run": RUN, "threshold": "0.25"},
    )
    verdict = BashOperator(
        task_id="verdict",
        # Exit code 1 is a verdict and would be the same a second time: the task fails at once, without a retry.
        bash_command=f"mkdir -p {DAY} && netlab check {RUN} --threshold 0.25 --fail-on certain --json {DAY}/verdict.json",
        # One name for all nights, or none would have a past: netlab history {REPORTS} shows the trend.
        env={"NETLAB_RUN_NAME": "llama-70b"},
        append_env=True,
        retries=0,
    )
    notebook >> verdict
