#!/usr/bin/env bash
# Puts netlab.prom of a report where node_exporter's textfile collector reads it.
#
#   netlab-textfile.sh SCHEDULE FILE DIR
#
# FILE is netlab.prom of a report. Without it ("" or no such file: netlab ended before it wrote one) only netlab_report_success 0 is written,
# so that no number of an earlier run passes for one of this run.
# Every series gets the label schedule="SCHEDULE": two schedules on one host would otherwise collide, and the collector then drops both.
set -euo pipefail

if (($# != 3)); then
  echo "usage: netlab-textfile.sh SCHEDULE FILE DIR" >&2
  exit 2
fi
schedule=$1 file=$2 dir=$3
if [[ ! $schedule =~ ^[A-Za-z0-9_-]+$ ]]; then
  echo "netlab-textfile.sh: the schedule '$schedule' may hold only letters, digits, - and _." >&2
  exit 2
fi

# The collector reads *.prom only, so it never sees the half-written file; a rename within one folder is atomic.
temp=$(mktemp "$dir/.netlab-$schedule.XXXXXX")
trap 'rm -f "$temp"' EXIT
if [[ -f $file ]]; then
  sed -E "/^#/!{s/^([A-Za-z_:][A-Za-z0-9_:]*)\{/\1{schedule=\"$schedule\",/;t;s/^([A-Za-z_:][A-Za-z0-9_:]*) /\1{schedule=\"$schedule\"} /}" "$file" > "$temp"
else
  printf '%s\n' \
    '# HELP netlab_report_success 1 if the report was made whole.' \
    '# TYPE netlab_report_success gauge' \
    "netlab_report_success{schedule=\"$schedule\"} 0" > "$temp"
fi
chmod 644 "$temp"
mv -f "$temp" "$dir/netlab-$schedule.prom"
