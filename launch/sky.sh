#!/usr/bin/env bash
# jepa-text on any cloud, by SkyPilot, as a managed job that survives lost machines.
#
#   BUCKET=gs://my-bucket GPUS=H100:8 bash launch/sky.sh train \
#     --config=configs/toy.py:mlm --workdir=/data/first
#
# Starts launch/sky.yaml, with the files of this folder; --dry-run prints the command.
#
#   BUCKET   required: becomes /data, where --workdir must lie; s3://, gs://, r2://, ...
#   GPUS     accelerators of each node, as A100:8, H200:1, or tpu-v6e-8; H100:8 if not set
#   NODES    1 if not set
#   NAME     of the job; jepa-text if not set
#   SPOT     0: on machines that are not taken away, at their price
#   INFRA    where, as gcp/us-central1; if not set, the cheapest that SkyPilot finds
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
cd "$ROOT"
read_command "$@"
[ -n "${BUCKET:-}" ] || fail 'sky.sh: BUCKET is not set: where the run is kept, as BUCKET=gs://my-bucket.'
NODES="${NODES:-1}" GPUS="${GPUS:-H100:8}"
positive NODES "$NODES"
in_data "$BUCKET"
ACCELERATOR=cuda spot=--use-spot
case "$GPUS" in tpu-*) ACCELERATOR=tpu ;; esac
if [ "${SPOT:-}" = 0 ]; then spot=--no-use-spot; fi
needs sky "Install SkyPilot (pip install 'skypilot[gcp]', or another cloud) and run sky check."
become sky jobs launch --yes --name="${NAME:-jepa-text}" --num-nodes="$NODES" \
  --gpus="$GPUS" "$spot" ${INFRA:+--infra="$INFRA"} --env="BUCKET=$BUCKET" \
  --env="ACCELERATOR=$ACCELERATOR" --env="COMMAND=$(quoted "${COMMAND[@]}")" launch/sky.yaml
