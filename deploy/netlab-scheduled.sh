#!/usr/bin/env bash
# One scheduled report: report, trend, metrics. Called by cron, systemd and the Slurm queue.
#
#   netlab-scheduled.sh [-n] SCHEDULE RUN REPORTS
#
#   SCHEDULE  name of the series, for example llama-70b; the trend compares reports of one name
#   RUN       folder of one recorded run; with -n a folder of runs, of which the newest is taken
#   REPORTS   reports go to REPORTS/SCHEDULE/<UTC time>, the trend to REPORTS/SCHEDULE/history
#
# Environment (all optional):
#   FAIL_ON       netlab report --fail-on: what makes the exit code 1; default flagged
#   TREND_FAIL_ON netlab history --fail-on: default warning (flagged, or worse than the past); never to keep the trend out of the exit code
#   TEXTFILE_DIR  folder of node_exporter's textfile collector
#   NETLAB_LIMITS_NETWORK_SHARE and the like: configuration of netlab
#
# Exit code: the higher of netlab report's and netlab history's; 5 if the same schedule is still at work.
set -euo pipefail

newest=false
while getopts n option; do
  case $option in
    n) newest=true ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if (($# != 3)); then
  echo "usage: netlab-scheduled.sh [-n] SCHEDULE RUN REPORTS" >&2
  exit 2
fi
schedule=$1 run=$2 reports=$3
if [[ ! $schedule =~ ^[A-Za-z0-9_-]+$ ]]; then
  echo "netlab-scheduled.sh: the schedule '$schedule' may hold only letters, digits, - and _." >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mkdir -p "$reports/$schedule"
exec 9> "$reports/$schedule/.lock"
if ! flock -n 9; then
  echo "netlab-scheduled.sh: $schedule is still at work; nothing was done." >&2
  exit 5
fi

if $newest; then
  run=$(find "$run" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-)
fi

# Reports of one schedule share one name, or every run would be a series of its own and none would have a past.
export NETLAB_RUN_NAME=$schedule

out=$reports/$schedule/$(date -u +%Y%m%dT%H%M%SZ)
code=0
netlab report "$run" --out "$out" --fail-on "${FAIL_ON:-flagged}" --quiet || code=$?

if [[ -n ${TEXTFILE_DIR:-} ]]; then
  "$here/netlab-textfile.sh" "$schedule" "$out/netlab.prom" "$TEXTFILE_DIR"
fi

if ((code <= 1)); then
  past=0
  netlab history "$reports/$schedule" --fail-on "${TREND_FAIL_ON:-warning}" --quiet || past=$?
  code=$((past > code ? past : code))
fi
exit "$code"
