#!/usr/bin/env bash
# Runs jepa-text on any cloud with SkyPilot, as a managed job that survives preemption.
#
#   BUCKET=gs://my-bucket GPUS=H100:8 bash launch/sky.sh train \
#     --config=toy:mlm --workdir=/data/first
#
# Starts launch/sky.yaml with the files of this folder; --dry-run prints the command. The
# workdir is below /data, or at gs:// for train, finetune, tokenizer, prepare and export.
#
#   BUCKET   mounted at /data: s3://, gs://, r2://, ...; by default the bucket of --workdir
#   GPUS     accelerators per node, as A100:8, H200:1 or tpu-v6e-8; by default H100:8
#   NODES    number of nodes; by default 1
#   NAME     name of the job; by default jepa-text
#   SPOT     0: use on-demand instead of spot machines
#   INFRA    location, as gcp/us-central1; by default the cheapest that SkyPilot finds
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
cd "$ROOT"
read_command "$@"
BUCKET="${BUCKET:-$AT}"
[ -n "$BUCKET" ] || fail 'sky.sh: BUCKET is not set. Set the bucket for the run, as BUCKET=gs://my-bucket.'
NODES="${NODES:-1}" GPUS="${GPUS:-H100:8}" NAME="${NAME:-jepa-text}"
positive NODES "$NODES"
in_data "$BUCKET"
one_node NODES "$NODES" launch/ray_sky.yaml
ACCELERATOR=cuda spot=--use-spot
case "$GPUS" in tpu-*) ACCELERATOR=tpu ;; esac
if [ "${SPOT:-}" = 0 ]; then spot=--no-use-spot; fi
needs sky "Install SkyPilot (pip install 'skypilot[gcp]', or another cloud) and run sky check."
words=(--num-nodes="$NODES" --gpus="$GPUS" "$spot" ${INFRA:+--infra="$INFRA"}
  --env="BUCKET=$BUCKET" --env="ACCELERATOR=$ACCELERATOR"
  --env="COMMAND=$(quoted "${COMMAND[@]}")" launch/sky.yaml)
become sky jobs launch --yes --name="$NAME" "${words[@]}"
