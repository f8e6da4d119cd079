#!/usr/bin/env bash
# jepa-text in a container: builds the image, and runs it on this machine.
#
#   bash launch/docker.sh train --config=configs/toy.py:mlm --workdir=/data/first
#   ACCELERATOR=cuda PUSH=1 IMAGE=REGISTRY/jepa-text:cuda bash launch/docker.sh build
#
# --dry-run prints the commands. /data in the container is the folder DATA here; configs
# are those in the image. The user in it is the caller, who owns what it writes. What opens
# addresses (gs://, s3://) is handed on from the environment: AWS_ACCESS_KEY_ID and others,
# and GOOGLE_APPLICATION_CREDENTIALS with its file.
#
#   ACCELERATOR   cpu (if not set), cuda, cuda12 (both need NVIDIA's container toolkit) or tpu
#   IMAGE         name of the image; jepa-text:ACCELERATOR if not set
#   DATA          the folder that is /data; runs/ of the repository if not set
#   PUSH          1: push the image after it is built
#   ENGINE        docker (if not set) or podman
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
cd "$ROOT"
DATA="${DATA:-$ROOT/runs}" run=yes
case "$*" in
  build) run='' DRY='' ;;
  'build --dry-run' | '--dry-run build') run='' DRY=yes ;;
  *)
    read_command "$@"
    read_workdir
    in_data "$DATA"
    ;;
esac
ACCELERATOR="${ACCELERATOR:-cpu}"
kind="$(kind_of "$ACCELERATOR")"
ENGINE="${ENGINE:-docker}" IMAGE="${IMAGE:-jepa-text:$ACCELERATOR}"
needs "$ENGINE" 'Install Docker Engine (docs.docker.com/engine/install), or set ENGINE=podman.'

perform "$ENGINE" build --build-arg=KIND="$kind" --file=launch/docker/Dockerfile --tag="$IMAGE" .
if [ "${PUSH:-}" = 1 ]; then perform "$ENGINE" push "$IMAGE"; fi
[ -n "$run" ] || exit 0

# --init passes SIGTERM on; then there is time to save.
options=(--rm --init --stop-timeout=120 --user="$(id -u):$(id -g)" --volume="$DATA:/data")
case "$ACCELERATOR" in
  cuda*) options+=(--gpus=all --shm-size=8g) ;;
  tpu) options+=(--privileged --network=host) ;;
esac
for name in AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_ENDPOINT_URL \
  AWS_DEFAULT_REGION "${!FSSPEC_@}" GOOGLE_APPLICATION_CREDENTIALS; do
  if [ -n "${!name:-}" ]; then options+=(--env="$name"); fi
done
key="${GOOGLE_APPLICATION_CREDENTIALS:-}"
if [ -n "$key" ]; then options+=(--volume="$key:$key:ro"); fi
if [ -z "$DRY" ]; then mkdir -p "$DATA"; fi
become "$ENGINE" run "${options[@]}" "$IMAGE" "${COMMAND[@]}"
