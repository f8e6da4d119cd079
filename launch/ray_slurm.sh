#!/usr/bin/env bash
# Runs the members of a study, an evaluation or an analysis on all nodes of a SLURM job, with
# a Ray cluster of its own: one process drives them, on the first node.
#
#   sbatch --nodes=4 --gpus-per-node=8 launch/ray_slurm.sh study \
#     --config=quickstart --workdir=/shared/seeds --config.engine.gpus=1
#
# Submit it from the repository, which all nodes see, after `bash launch/venv.sh cuda ray`
# (or `cpu ray`). The workdir is a folder that all nodes see. If the job is preempted or a
# node fails, SLURM queues it again, and members resume from their last checkpoints.
#
#   VENV   environment with jepa-text and ray; by default .venv
#SBATCH --job-name=jepa-text
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=runs/slurm-%j.out
set -euo pipefail

if [ -z "${SLURM_JOB_ID:-}" ] || [ $# = 0 ]; then
  echo 'ray_slurm.sh: submit it with a command: sbatch --nodes=4 launch/ray_slurm.sh study quickstart --workdir=/shared/seeds' >&2
  exit 2
fi
PATH="$(realpath "${VENV:-.venv}")/bin:$PATH"
export PATH RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300
nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
exec srun --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" \
  ray symmetric-run --address "${nodes%%$'\n'*}:6379" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
  jepa-text "$@" --engine=ray
