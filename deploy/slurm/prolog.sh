#!/bin/sh
# A Slurm prolog (Prolog= in slurm.conf, as root on each node of a job, before it): the agent of the node runs while a job
# does. Where it always runs (systemctl enable tracesmith-agent) no prolog is needed.
# A prolog that fails takes its node out of service, so this one never does.
if command -v systemctl >/dev/null && ! systemctl is-active --quiet tracesmith-agent; then
  systemctl start --no-block tracesmith-agent || logger -t tracesmith "the agent does not start: job $SLURM_JOB_ID is not recorded"
fi
exit 0
