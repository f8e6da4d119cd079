#!/usr/bin/env bash
# Runs jepa-text on this machine; the other launch scripts call it on their machines.
#
#   bash launch/local.sh train toy:mlm --workdir=runs/first
#   bash launch/local.sh --dry-run train toy:mlm --workdir=runs/first
#
# All arguments except --dry-run and --help are passed to jepa-text. Paths are relative to the
# repository. The exit code is that of jepa-text: 0 done, 1 failed, 2 cannot run, 75 stopped
# and saved, 87 hung. If an argument contains an address (gs://, s3://, https://), its
# client is installed too.
#
#   ACCELERATOR   cpu (default), cuda, cuda12 or tpu: packages of the environment
#   VENV          folder of the environment, by default .venv; created if missing
#   JEPA_TEXT     program to run instead of the environment's jepa-text
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
read_command "$@"
ACCELERATOR="${ACCELERATOR:-cpu}"
extra="$(extra_of "$ACCELERATOR")"
read -r -a extras <<<"$extra $ADDRESSES"
cd "$ROOT"
program="${JEPA_TEXT:-$VENV/bin/jepa-text}"
if [ -z "$DRY" ] && [ -z "${JEPA_TEXT:-}" ]; then ready_venv "${extras[@]}"; fi

become "$program" "${COMMAND[@]}"
