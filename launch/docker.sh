#!/usr/bin/env bash
# Builds a container image of jepa-text and runs it on this machine.
#
#   bash launch/docker.sh train toy:mlm --workdir=/data/first
#   ACCELERATOR=cuda PUSH=1 IMAGE=REGISTRY/jepa-text:cuda bash launch/docker.sh build
#
# --dry-run prints the commands. The local folder DATA is mounted at /data; configs are
# those in the image, or below /data. The container runs as the calling user, who owns the
# files that it writes. Credentials for addresses (gs://, s3://) are passed on from the
# environment: AWS_ACCESS_KEY_ID and others, and GOOGLE_APPLICATION_CREDENTIALS with its
# file.
#
#   ACCELERATOR   cpu (default), cuda, cuda12 (both need NVIDIA's container toolkit) or tpu
#   IMAGE         name of the image, by default jepa-text:ACCELERATOR
#   DATA          local folder for /data, by default runs/ in the repository
#   PUSH          1: push the image after building it
#   ENGINE        docker (default) or podman
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
DATA="${DATA:-$ROOT/runs}" run=yes
# Without a slash, it would be the name of a volume.
[[ "$DATA" = /* ]] || DATA="$PWD/$DATA"
cd "$ROOT"
case "$*" in
  build) run='' DRY='' ;;
  'build --dry-run' | '--dry-run build') run='' DRY=yes ;;
  *)
    read_command "$@"
    in_data "$DATA"
    ;;
esac
ACCELERATOR="${ACCELERATOR:-cpu}"
extra="$(extra_of "$ACCELERATOR")"
ENGINE="${ENGINE:-docker}" IMAGE="${IMAGE:-jepa-text:$ACCELERATOR}"
needs "$ENGINE" 'Install Docker Engine (docs.docker.com/engine/install), or set ENGINE=podman.'

perform "$ENGINE" build --build-arg=EXTRA="$extra" --file=launch/docker/Dockerfile --tag="$IMAGE" .
if [ "${PUSH:-}" = 1 ]; then perform "$ENGINE" push "$IMAGE"; fi
[ -n "$run" ] || exit 0

# --init forwards SIGTERM; the stop timeout leaves time to save a checkpoint.
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
