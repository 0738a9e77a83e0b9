#!/bin/bash
# down.sh DIR: cancels the jobs, ends only the daemons whose pid files lie in DIR and what they have started, removes DIR
D=$1; export SLURM_CONF="$D/slurm.conf"; timeout 5 scancel -u root 2>/dev/null
for _ in $(seq 80); do [ -n "$(timeout 5 squeue -h -t all -o %T 2>/dev/null | grep -E 'RUNNING|COMPLETING|SUSPENDED')" ] || break; sleep .1; done
P=$(cat "$D"/run/slurmd-*.pid "$D"/run/ctld.pid "$D"/run/munged.pid 2>/dev/null)
kill $P 2>/dev/null
for _ in $(seq 50); do kill -0 $P 2>/dev/null || break; sleep .1; done   # slurmd can linger while it cannot reach the controller
kill -9 $P 2>/dev/null
# A slurmstepd outlives its slurmd, and waits for a controller that is gone; what it watches has its id in its environment.
for e in /proc/[0-9]*/environ; do
  p=${e//[!0-9]/}
  [ "$p" != $$ ] && [ "$p" != $PPID ] && [ "$(cat "/proc/$p/comm" 2>/dev/null)" = slurmstepd ] &&
    grep -qzxF "SLURM_CONF=$D/slurm.conf" "$e" 2>/dev/null && kill -9 "$p" $(pgrep -P "$p") 2>/dev/null
done
rm -rf "$D"
