#!/usr/bin/env bash
# Makes the reports of the jobs that epilog.sh noted, one after the other. Run it from cron or a timer, as an ordinary user, away from the GPU nodes.
#
#   queue.sh QUEUE REPORTS
#
# A note moves to QUEUE/done, whatever the report says: a job is reported once. What failed shows in the exit code (the highest one), in the
# log of the scheduler, and in netlab_report_success. To report a job again, move its note back.
set -euo pipefail

if (($# != 2)); then
  echo "usage: queue.sh QUEUE REPORTS" >&2
  exit 2
fi
queue=$1 reports=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shopt -s nullglob

mkdir -p "$queue/done"
exec 8> "$queue/.lock"
flock -n 8 || exit 0

worst=0
for note in "$queue"/*.job; do
  { read -r name && read -r run; } < "$note"
  job=$(basename "$note" .job)
  code=0
  "$here/../netlab-scheduled.sh" "$name" "$run" "$reports" || code=$?
  echo "job $job ($name): exit code $code"
  if ((code == 5)); then
    continue
  fi
  mv -f "$note" "$queue/done/$job"
  worst=$((code > worst ? code : worst))
done
exit "$worst"
