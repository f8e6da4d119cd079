#!/usr/bin/env bash
# Runs jepa-text as a SLURM job, with one process per node for all of its devices.
#
#   bash launch/slurm.sh train --config=configs/toy.py:mlm --workdir=/shared/first
#   SEEDS='0 1 2' PRESETS='mlm clm_mlm' bash launch/slurm.sh train ...   an array of six
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
#   SEEDS         array over seeds: --config.seed=S, in WORKDIR/seed_S
#   PRESETS       array over presets: --config=FILE:PRESET, in WORKDIR/PRESET
#   LIST          array over the lines of a file: further arguments, in WORKDIR/task_N
#   RESTARTS      maximum number of restarts after failures; by default 5
#   MAX_TASKS     maximum number of array tasks that run at the same time
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
NODES="${NODES:-${SLURM_JOB_NUM_NODES:-1}}"
positive NODES "$NODES"
[ -z "${GPUS:-}" ] || positive GPUS "$GPUS"
[ -z "${CPUS:-}" ] || positive CPUS "$CPUS"
[ -z "${MAX_TASKS:-}" ] || positive MAX_TASKS "$MAX_TASKS"
RESTARTS="${RESTARTS:-5}"
[ "$RESTARTS" = 0 ] || positive RESTARTS "$RESTARTS"
if [ -n "${LIST:-}" ]; then
  [ -z "${SEEDS:-}${PRESETS:-}" ] || fail 'slurm.sh: LIST has all arguments of each task: unset SEEDS and PRESETS.'
  grep -q '^[^#]' "$LIST" || fail "slurm.sh: LIST=$LIST has no line except comments, or is not a file."
fi
if [ -n "${GPUS:-}" ]; then export ACCELERATOR="${ACCELERATOR:-cuda}"; fi

# Prints a line for each task of the array: folder, preset, arguments. Nothing without an
# array.
tasks() {
  local seed preset n=0 line
  if [ -n "${LIST:-}" ]; then
    while IFS= read -r line || [ -n "$line" ]; do
      case "$line" in '' | '#'*) continue ;; esac
      printf '%s\n' "task_$n - $line"
      n=$((n + 1))
    done <"$LIST"
    return
  fi
  for preset in ${PRESETS:--}; do
    for seed in ${SEEDS:--}; do
      case "$preset $seed" in
        '- -') ;;
        *' -') printf '%s\n' "$preset $preset" ;;
        '- '*) printf '%s\n' "seed_$seed - --config.seed=$seed" ;;
        *) printf '%s\n' "$preset/seed_$seed $preset --config.seed=$seed" ;;
      esac
    done
  done
}

# Applies the folder, preset and arguments of a line of `tasks` to COMMAND.
specialize() {
  local folder preset words word rest i
  read -r folder preset words <<<"$1"
  for i in "${!COMMAND[@]}"; do
    word=${COMMAND[$i]}
    case "$word" in
      --workdir=*) [ "$folder" = - ] || COMMAND[i]="${word%/}/$folder" ;;
      --config=*)
        # Keeps what follows the preset, such as a size, unless the preset has its own.
        rest=''
        case "$preset" in *,*) ;; *) case "$word" in *:*,*) rest=",${word#*:*,}" ;; esac ;; esac
        [ "$preset" = - ] || COMMAND[i]="${word%%:*}:$preset$rest"
        ;;
    esac
  done
  # Splits the arguments of a LIST line with shell quoting, without expanding or running
  # anything.
  while IFS= read -r -d '' word; do
    COMMAND+=("$word")
  done < <(printf '%s' "$words" | xargs -r printf '%s\0')
}

submit() {
  local count options line
  count=$(tasks | wc -l)
  options=(--chdir="$ROOT" --nodes="$NODES" --output=runs/slurm-%j.out)
  if [ "$count" -gt 0 ]; then options+=(--array="0-$((count - 1))${MAX_TASKS:+%$MAX_TASKS}"); fi
  if [ -n "${CPUS:-}" ]; then options+=(--cpus-per-task="$CPUS"); else options+=(--exclusive); fi
  if [ -n "${GPUS:-}" ]; then options+=(--gpus-per-node="$GPUS"); fi
  if [ -n "${TIME:-}" ]; then options+=(--time="$TIME"); fi
  needs sbatch 'Run this on a login node of a SLURM cluster (Debian: apt install slurm-client).'
  if [ -z "$DRY" ]; then
    mkdir -p runs
    # Installs here and not in the job: nodes may have no network, and tasks would wait for
    # each other.
    extra="$(extra_of "${ACCELERATOR:-cpu}")"
    read -r -a extras <<<"$extra $ADDRESSES"
    if [ -z "${JEPA_TEXT:-}" ]; then bash launch/venv.sh "${extras[@]}"; fi
  fi
  perform sbatch "${options[@]}" launch/slurm.sh "${COMMAND[@]}"
  if [ -n "$DRY" ]; then
    tasks | while IFS= read -r line; do
      (
        specialize "$line"
        quoted bash launch/local.sh "${COMMAND[@]}"
      )
    done
  fi
}

run_job() {
  local line cores state
  if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    line="$(tasks | sed -n "$((SLURM_ARRAY_TASK_ID + 1))p")"
    [ -n "$line" ] || fail "slurm.sh: task $SLURM_ARRAY_TASK_ID of the array has no line: SEEDS, PRESETS or LIST define $(tasks | wc -l) tasks."
    specialize "$line"
  fi
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
