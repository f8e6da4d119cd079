#!/usr/bin/env bash
# jepa-text on this machine; the other launch scripts call it on theirs.
#
#   bash launch/local.sh train --config=configs/toy.py:mlm --workdir=runs/first
#   bash launch/local.sh --dry-run train --config=... --workdir=...
#
# All words but --dry-run go to jepa-text. Paths are relative to the repository. The exit
# code is that of jepa-text: 0 done, 1 failed, 2 cannot run, 75 stopped and saved, 87 hung.
# Where a word has an address (gs://, s3://, https://), its clients are installed, too.
#
#   ACCELERATOR   cpu (if not set), cuda, cuda12 or tpu: which packages the environment gets
#   PROCESSES     1 (if not set); more of them act as so many hosts, on the CPU only
#   VENV          the environment's folder, .venv if not set; made when it is missing
#   JEPA_TEXT     the program to run instead of that environment's jepa-text
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
read_command "$@"
PROCESSES="${PROCESSES:-1}"
positive PROCESSES "$PROCESSES"
ACCELERATOR="${ACCELERATOR:-cpu}"
kind="$(kind_of "$ACCELERATOR")"
if [ "$PROCESSES" -gt 1 ] && [ "$ACCELERATOR" != cpu ]; then
  fail "local.sh: PROCESSES=$PROCESSES with ACCELERATOR=$ACCELERATOR. One process drives all devices of a machine; unset PROCESSES."
fi
cd "$ROOT"
program="${JEPA_TEXT:-$VENV/bin/jepa-text}"
if [ -z "$DRY" ] && [ -z "${JEPA_TEXT:-}" ]; then ready_venv "$kind" "$ADDRESSES"; fi

if [ "$PROCESSES" = 1 ]; then
  become "$program" "${COMMAND[@]}"
  exit
fi

# Several: each is told the others' meeting point, as by a cluster. Each has a process
# group: of Ctrl-C and the trap's signal they would take the second for 'end at once'.
set -m
port=$((20000 + $$ % 20000))
children=()
trap 'kill -TERM "${children[@]}" 2>/dev/null || :' TERM INT
for ((i = 0; i < PROCESSES; i++)); do
  words=(env JAX_PLATFORMS=cpu "JAX_COORDINATOR_ADDRESS=localhost:$port"
    "JAX_NUM_PROCESSES=$PROCESSES" "JAX_PROCESS_ID=$i" "$program" "${COMMAND[@]}")
  if [ -n "$DRY" ]; then
    quoted "${words[@]}"
  else
    "${words[@]}" &
    children+=("$!")
  fi
done

# One answer for all: 2 before a failure before 75 before 0.
answer=0
for child in "${children[@]}"; do
  await "$child"
  case "$CODE:$answer" in
    0:* | *:2) ;;
    2:* | *:0 | *:75) answer=$CODE ;;
  esac
done
exit "$answer"
