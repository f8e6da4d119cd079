#!/usr/bin/env bash
# jepa-text on any cloud, by SkyPilot, as a managed job that survives lost machines.
#
#   BUCKET=gs://my-bucket GPUS=H100:8 bash launch/sky.sh train \
#     --config=configs/toy.py:mlm --workdir=/data/first
#
#   WORKERS=4 bash launch/sky.sh study --config=configs/quickstart.py \
#     --workdir=gs://my-bucket/seeds
#
# Starts launch/sky.yaml, with the files of this folder; --dry-run prints the command. The
# workdir is an address (gs://, s3://) or lies below /data; that of a study is an address, as
# workers agree by what a mounted bucket does not know.
#
#   BUCKET   becomes /data: s3://, gs://, r2://, ...; if not set, the bucket of --workdir
#   WORKERS  so many jobs alike that share the workdir, of `evaluate` or `study`; 1 if not set
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
read_workdir
BUCKET="${BUCKET:-$AT}"
[ -n "$BUCKET" ] || fail 'sky.sh: BUCKET is not set: where the run is kept, as BUCKET=gs://my-bucket.'
NODES="${NODES:-1}" GPUS="${GPUS:-H100:8}" NAME="${NAME:-jepa-text}"
positive NODES "$NODES"
in_data "$BUCKET"
[ -z "${WORKERS:-}" ] || positive WORKERS "$WORKERS"
case "${COMMAND[0]}" in
  evaluate | study)
    [ "$NODES" = 1 ] || fail "sky.sh: NODES=$NODES of ${COMMAND[0]}: each worker has one node. Unset NODES; WORKERS=$NODES starts so many."
    [ -n "$AT" ] || fail "sky.sh: --workdir=$WORKDIR lies in a mounted bucket, which has no hard links, by which workers agree. Give the address, as --workdir=gs://bucket/first."
    ;;
esac
ACCELERATOR=cuda spot=--use-spot
case "$GPUS" in tpu-*) ACCELERATOR=tpu ;; esac
if [ "${SPOT:-}" = 0 ]; then spot=--no-use-spot; fi
if [ -n "${WORKERS:-}" ]; then shared_by_workers ''; fi
needs sky "Install SkyPilot (pip install 'skypilot[gcp]', or another cloud) and run sky check."
words=(--num-nodes="$NODES" --gpus="$GPUS" "$spot" ${INFRA:+--infra="$INFRA"}
  --env="BUCKET=$BUCKET" --env="ACCELERATOR=$ACCELERATOR"
  --env="COMMAND=$(quoted "${COMMAND[@]}")" launch/sky.yaml)
[ -n "${WORKERS:-}" ] || become sky jobs launch --yes --name="$NAME" "${words[@]}"
for ((n = 0; n < ${WORKERS:-0}; n++)); do
  perform sky jobs launch --yes --name="$NAME-$n" --detach-run "${words[@]}"
done
