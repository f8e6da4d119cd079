#!/usr/bin/env bash
# jepa-text as a SLURM job: one process on each node, which drives all its devices.
#
#   bash launch/slurm.sh train --config=configs/toy.py:mlm --workdir=/shared/first
#   SEEDS='0 1 2' PRESETS='mlm clm_mlm' bash launch/slurm.sh train ...   an array of six
#
# It submits itself, and --dry-run prints how. Paths are relative to the repository, which
# the nodes must see too. Stopped before the time limit, or preempted with a grace time,
# the run saves its state, ends with 75, and is queued again. So is a run that failed (1)
# or hung (87), or that was killed (137), but no more than RESTARTS times from one stop to
# the next; other codes end the job. To do so by hand: scancel --signal=USR1 --batch JOB.
#
#   NODES, GPUS   nodes (1 if not set), GPUs of each (none)
#   CPUS          cores of each node; if not set, whole nodes (--exclusive)
#   TIME          the time limit, as 24:00:00
#   SEEDS         an array: --config.seed=S, in WORKDIR/seed_S
#   PRESETS       an array: --config=FILE:PRESET, in WORKDIR/PRESET
#   WORKERS       an array: so many tasks alike that share WORKDIR, of `evaluate` or `study`
#   LIST          an array: a file, each line more words for one task, in WORKDIR/task_N
#   RESTARTS      how often a job that failed or hung is queued again (5; 0 never)
#   MAX_TASKS     the most tasks of an array that run at once
#   SBATCH_...    what sbatch reads itself: SBATCH_PARTITION, SBATCH_ACCOUNT, ...
#   ACCELERATOR, VENV, JEPA_TEXT   as in launch/local.sh; cuda where GPUS is set
#SBATCH --job-name=jepa-text
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
# To this script alone, and not TERM: of that, SLURM sends one to all when it cancels, and
# jepa-text takes a second for 'end at once'.
#SBATCH --signal=B:USR1@120
set -euo pipefail

# Within a job this is a copy of the script in a folder of SLURM's.
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
if [ -n "${WORKERS:-}" ]; then
  positive WORKERS "$WORKERS"
  [ -z "${SEEDS:-}${PRESETS:-}${LIST:-}" ] || fail 'slurm.sh: WORKERS share one folder; unset SEEDS, PRESETS and LIST.'
  shared_by_workers ': SEEDS, PRESETS or LIST'
fi
[ -z "${MAX_TASKS:-}" ] || positive MAX_TASKS "$MAX_TASKS"
RESTARTS="${RESTARTS:-5}"
[ "$RESTARTS" = 0 ] || positive RESTARTS "$RESTARTS"
if [ -n "${LIST:-}" ]; then
  [ -z "${SEEDS:-}${PRESETS:-}" ] || fail 'slurm.sh: LIST says all words of each task; unset SEEDS and PRESETS.'
  grep -q '^[^#]' "$LIST" || fail "slurm.sh: LIST=$LIST has no line that is no comment, or is no file."
fi
if [ -n "${GPUS:-}" ]; then export ACCELERATOR="${ACCELERATOR:-cuda}"; fi

# One line for each task of the array: folder, preset, then words. None without an array.
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
  for ((n = 0; n < ${WORKERS:-0}; n++)); do echo '- -'; done
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

# COMMAND with the folder, the preset and the words of one line of tasks.
specialize() {
  local folder preset words word rest i
  read -r folder preset words <<<"$1"
  for i in "${!COMMAND[@]}"; do
    word=${COMMAND[$i]}
    case "$word" in
      --workdir=*) [ "$folder" = - ] || COMMAND[i]="${word%/}/$folder" ;;
      --config=*)
        # What follows the preset, as a size, stays unless the preset brings its own.
        rest=''
        case "$preset" in *,*) ;; *) case "$word" in *:*,*) rest=",${word#*:*,}" ;; esac ;; esac
        [ "$preset" = - ] || COMMAND[i]="${word%%:*}:$preset$rest"
        ;;
    esac
  done
  # Of a list, quoted as a shell would read them, but nothing is expanded or run.
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
    # Here and not in the job: nodes may have no network, and tasks would wait in turn.
    if [ -z "${JEPA_TEXT:-}" ]; then bash launch/venv.sh "$(kind_of "${ACCELERATOR:-cpu}")" "$ADDRESSES"; fi
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
    [ -n "$line" ] || fail "slurm.sh: task $SLURM_ARRAY_TASK_ID of the array has no line in SEEDS, PRESETS, WORKERS or LIST; they give $(tasks | wc -l)."
    specialize "$line"
  fi
  # Not to srun: at a signal it kills the processes without warning.
  trap 'scancel --signal=TERM "$SLURM_JOB_ID"' USR1
  # SLURM sends this to all when it cancels. Not trapped: with two traps pending, bash
  # may lose one.
  trap '' TERM
  say job "$SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST:-?}"
  say command "$(quoted "${COMMAND[@]}")"
  cores="${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}"
  (
    trap - TERM
    # A process that ends first leaves the others time to save.
    exec srun --ntasks-per-node=1 --cpus-per-task="$cores" --kill-on-bad-exit=0 \
      --wait=300 bash launch/local.sh "${COMMAND[@]}"
  ) &
  await $!
  # One that somebody cancelled runs no more.
  state="$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T || :)"
  if [ "$state" = RUNNING ]; then queue_again; fi
  exit "$CODE"
}

# Stopped with its state saved: always. Failed, hung or killed: a machine may be better.
queue_again() {
  local failures="runs/slurm-$SLURM_JOB_ID.failures" count=0
  case "$CODE" in
    75)
      rm -f "$failures"
      say queued "again: job $SLURM_JOB_ID stopped with its state saved"
      ;;
    # Of those that a signal killed: aborted, killed, a fault of memory.
    1 | 87 | 134 | 135 | 137 | 139)
      mkdir -p runs
      # SLURM's own count has the stops in it, too.
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
