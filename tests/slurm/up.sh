#!/bin/bash
# up.sh DIR [NODES=1] [GPUS=0]: a SLURM of one's own on the loopback, as root; all its state lies in DIR, its ports are
# 16817 and 16821 up. Needs slurmctld, slurmd, slurm-client and munge. down.sh DIR ends it.
set -euo pipefail
D=$1; NODES=${2:-1}; GPUS=${3:-0}; H=$(hostname -s)
mkdir -p "$D"/{ctld,log,run,munge}; chmod 755 "$D" "$D"/{ctld,log,run}; chmod 700 "$D/munge"
head -c 1024 /dev/urandom > "$D/munge/key"; chmod 600 "$D/munge/key"
munged --key-file="$D/munge/key" --socket="$D/run/munge.sock" --pid-file="$D/run/munged.pid" \
       --log-file="$D/munge/log" --seed-file="$D/munge/seed" --force
nodes=""; names=""
for i in $(seq "$NODES"); do
  mkdir -p "$D/d/n$i"; g=""; [ "$GPUS" -gt 0 ] && g=" Gres=gpu:$GPUS"
  nodes+="NodeName=n$i NodeHostname=$H NodeAddr=127.0.0.1 Port=$((16820+i)) CPUs=$(nproc) RealMemory=4000$g State=UNKNOWN
"; names+="n$i,"
done
if [ "$GPUS" -gt 0 ]; then
  for i in $(seq 0 $((GPUS-1))); do mknod "$D/fakegpu$i" c 1 3; done      # twins of /dev/null: scheduled, never opened
  echo "Name=gpu File=$D/fakegpu[0-$((GPUS-1))] Flags=nvidia_gpu_env" > "$D/gres.conf"; nodes="GresTypes=gpu
$nodes"
fi
cat > "$D/slurm.conf" <<C
ClusterName=ts
SlurmctldHost=$H(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/run/munge.sock
CredType=cred/munge
SlurmctldPort=16817
StateSaveLocation=$D/ctld
SlurmdSpoolDir=$D/d/%n
SlurmctldPidFile=$D/run/ctld.pid
SlurmdPidFile=$D/run/slurmd-%n.pid
SlurmctldLogFile=$D/log/ctld.log
SlurmdLogFile=$D/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=5
SlurmdTimeout=5
OverTimeLimit=0
MinJobAge=3600
${nodes}PartitionName=debug Nodes=${names%,} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
C
export SLURM_CONF="$D/slurm.conf"
slurmctld -f "$SLURM_CONF"
for i in $(seq "$NODES"); do slurmd -N "n$i" -f "$SLURM_CONF"; done
for _ in $(seq 100); do [ "$(sinfo -h -o %T 2>/dev/null | sort -u)" = idle ] && break; sleep .2; done
sinfo -N -o "%N %T %G"
