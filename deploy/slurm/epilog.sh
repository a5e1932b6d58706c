#!/usr/bin/env bash
# Slurm epilog: leaves a note that a job has ended, nothing else. The report is made elsewhere by queue.sh.
#
# In slurm.conf: EpilogSlurmctld=/etc/netlab/slurm/epilog.sh (once per job, knows the job's name), or Epilog= (on every node).
# Slurm waits for an epilog, drains the node of one that fails, and wants no Slurm command in it: so this one only makes a file, in
# milliseconds, and always ends well.

queue=/var/spool/netlab      # on a file system that the machine of queue.sh sees too; writable for this script only
traces=/data/traces          # a job records into <traces>/<job id>

job=${SLURM_JOB_ID:-}
if [[ $job =~ ^[0-9]+$ && -d $traces/$job && -d $queue && ! -e $queue/done/$job ]]; then
  # The name is what a user typed: it becomes the name of the schedule, so only harmless signs stay.
  name=$(printf '%s' "${SLURM_JOB_NAME:-slurm}" | tr -c 'A-Za-z0-9_-' '-' | cut -c 1-60)
  printf '%s\n%s\n' "${name:-slurm}" "$traces/$job" > "$queue/.$job.${SLURMD_NODENAME:-ctld}" \
    && mv -f "$queue/.$job.${SLURMD_NODENAME:-ctld}" "$queue/$job.job"
fi
exit 0
