#!/usr/bin/env bash
# Runs jepa-text on this machine; the other launch scripts call it on their machines.
#
#   bash launch/local.sh train toy:mlm --workdir=runs/first
#   bash launch/local.sh --dry-run train --config=... --workdir=...
#
# All arguments except --dry-run are passed to jepa-text. Paths are relative to the
# repository. The exit code is that of jepa-text: 0 done, 1 failed, 2 cannot run, 75 stopped
# and saved, 87 hung. If an argument contains an address (gs://, s3://, https://), its
# client is installed too.
#
#   ACCELERATOR   cpu (default), cuda, cuda12 or tpu: packages of the environment
#   PROCESSES     processes that act as separate hosts, on CPUs only; by default 1
#   VENV          folder of the environment, by default .venv; created if missing
#   JEPA_TEXT     program to run instead of the environment's jepa-text
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
read_command "$@"
PROCESSES="${PROCESSES:-1}"
positive PROCESSES "$PROCESSES"
ACCELERATOR="${ACCELERATOR:-cpu}"
extra="$(extra_of "$ACCELERATOR")"
read -r -a extras <<<"$extra $ADDRESSES"
if [ "$PROCESSES" -gt 1 ] && [ "$ACCELERATOR" != cpu ]; then
  fail "local.sh: PROCESSES=$PROCESSES with ACCELERATOR=$ACCELERATOR. One process uses all devices of a machine; unset PROCESSES."
fi
cd "$ROOT"
program="${JEPA_TEXT:-$VENV/bin/jepa-text}"
if [ -z "$DRY" ] && [ -z "${JEPA_TEXT:-}" ]; then ready_venv "${extras[@]}"; fi

if [ "$PROCESSES" = 1 ]; then
  become "$program" "${COMMAND[@]}"
  exit
fi

# Each process gets the coordinator's address, as from a cluster. Each has its own process
# group; otherwise Ctrl-C and the trap's signal would both reach it, and the second means
# 'stop at once'.
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

# Combined exit code: 2 takes precedence over failures, those over 75, and 75 over 0.
answer=0
for child in "${children[@]}"; do
  await "$child"
  case "$CODE:$answer" in
    0:* | *:2) ;;
    2:* | *:0 | *:75) answer=$CODE ;;
  esac
done
exit "$answer"
