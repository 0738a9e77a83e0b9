#!/bin/bash
# down.sh DIR: cancels the jobs, ends only the daemons whose pid files lie in DIR, removes DIR
D=$1; export SLURM_CONF="$D/slurm.conf"; timeout 5 scancel -u root 2>/dev/null
P=$(cat "$D"/run/slurmd-*.pid "$D"/run/ctld.pid "$D"/run/munged.pid 2>/dev/null)
kill $P 2>/dev/null
for _ in $(seq 50); do kill -0 $P 2>/dev/null || break; sleep .1; done   # slurmd can linger while it cannot reach the controller
kill -9 $P 2>/dev/null; rm -rf "$D"
