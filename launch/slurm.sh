#!/usr/bin/env bash
# Runs jepa-text as a SLURM job, with one process per node for all of its devices.
#
#   bash launch/slurm.sh train toy:mlm --workdir=/shared/first
#
# Submits itself; --dry-run prints the commands. Paths are relative to the repository, which
# must be visible on the nodes. Before the time limit, or if preempted with a grace period,
# the run saves its state, exits with 75, and is requeued. Runs that failed (1), hung (87)
# or were killed (137) are requeued at most RESTARTS times between two saved stops; other
# codes end the job. To requeue manually: scancel --signal=USR1 --batch JOB.
#
#   NODES, GPUS   nodes (by default 1), GPUs per node (by default none)
#   CPUS          cores per node; by default whole nodes (--exclusive)
#   TIME          time limit, as 24:00:00
#   RESTARTS      maximum number of restarts after failures; by default 5
#   SBATCH_...    read by sbatch itself: SBATCH_PARTITION, SBATCH_ACCOUNT, ...
#   ACCELERATOR, VENV, JEPA_TEXT   as in launch/local.sh; by default cuda if GPUS is set
#SBATCH --job-name=jepa-text
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
# Sent to this script only. Not TERM, which SLURM also sends to all processes when it
# cancels a job: jepa-text interprets a second TERM as 'stop at once'.
#SBATCH --signal=B:USR1@120
set -euo pipefail

# In a job, SLURM runs a copy of this script from its own folder.
if [ -n "${SLURM_JOB_ID:-}" ]; then ROOT=$PWD; else ROOT="$(cd "$(dirname "$0")/.." && pwd)"; fi
if [ ! -f "$ROOT/launch/command_line.sh" ]; then
  echo "jepa-text: $ROOT is not the repository; submit launch/slurm.sh from there." >&2
  exit 2
fi
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
cd "$ROOT"
read_command "$@"
[ -z "${SEEDS-}${PRESETS-}${LIST-}" ] || fail 'slurm.sh: SEEDS, PRESETS and LIST were removed: start a study with launch/ray_slurm.sh, or a job for each (docs/removed.md).'
NODES="${NODES:-${SLURM_JOB_NUM_NODES:-1}}"
positive NODES "$NODES"
one_node NODES "$NODES" launch/ray_slurm.sh
[ -z "${GPUS:-}" ] || positive GPUS "$GPUS"
[ -z "${CPUS:-}" ] || positive CPUS "$CPUS"
RESTARTS="${RESTARTS:-5}"
[ "$RESTARTS" = 0 ] || positive RESTARTS "$RESTARTS"
if [ -n "${GPUS:-}" ]; then export ACCELERATOR="${ACCELERATOR:-cuda}"; fi

submit() {
  local options
  options=(--chdir="$ROOT" --nodes="$NODES" --output=runs/slurm-%j.out)
  if [ -n "${CPUS:-}" ]; then options+=(--cpus-per-task="$CPUS"); else options+=(--exclusive); fi
  if [ -n "${GPUS:-}" ]; then options+=(--gpus-per-node="$GPUS"); fi
  if [ -n "${TIME:-}" ]; then options+=(--time="$TIME"); fi
  needs sbatch 'Run this on a login node of a SLURM cluster (Debian: apt install slurm-client).'
  if [ -z "$DRY" ]; then
    mkdir -p runs
    # Installs here and not in the job: nodes may have no network.
    extra="$(extra_of "${ACCELERATOR:-cpu}")"
    read -r -a extras <<<"$extra $ADDRESSES"
    if [ -z "${JEPA_TEXT:-}" ]; then bash launch/venv.sh "${extras[@]}"; fi
  fi
  perform sbatch "${options[@]}" launch/slurm.sh "${COMMAND[@]}"
}

run_job() {
  local cores state
  # scancel and not srun, which on a signal kills the processes without warning.
  trap 'scancel --signal=TERM "$SLURM_JOB_ID"' USR1
  # SLURM sends TERM to all processes when it cancels. It is ignored, not trapped: with two
  # pending traps, bash may lose one.
  trap '' TERM
  say job "$SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST:-?}"
  say command "$(quoted "${COMMAND[@]}")"
  cores="${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}"
  (
    trap - TERM
    # When one process ends first, the others have time to save.
    exec srun --ntasks-per-node=1 --cpus-per-task="$cores" --kill-on-bad-exit=0 \
      --wait=300 bash launch/local.sh "${COMMAND[@]}"
  ) &
  await $!
  # A cancelled job is not requeued.
  state="$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T || :)"
  if [ "$state" = RUNNING ]; then queue_again; fi
  exit "$CODE"
}

# Requeues a job that stopped with its state saved; after failures at most RESTARTS times,
# as another machine may work.
queue_again() {
  local failures="runs/slurm-$SLURM_JOB_ID.failures" count=0
  case "$CODE" in
    75)
      rm -f "$failures"
      say queued "again: job $SLURM_JOB_ID stopped with its state saved"
      ;;
    # Failed, hung, or killed by SIGABRT, SIGBUS, SIGKILL or SIGSEGV.
    1 | 87 | 134 | 135 | 137 | 139)
      mkdir -p runs
      # SLURM's own count includes saved stops.
      [ ! -f "$failures" ] || count=$(wc -l <"$failures")
      if [ "$count" -ge "$RESTARTS" ]; then
        say ended "with $CODE: job $SLURM_JOB_ID was queued again $count times after failures (RESTARTS=$RESTARTS)"
        return
      fi
      echo "$CODE" >>"$failures"
      say queued "again: job $SLURM_JOB_ID ended with $CODE, restart $((count + 1)) of $RESTARTS"
      ;;
    *) return ;;
  esac
  scontrol requeue "$SLURM_JOB_ID"
}

if [ -n "${SLURM_JOB_ID:-}" ]; then run_job; else submit; fi
