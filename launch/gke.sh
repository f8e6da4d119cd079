#!/usr/bin/env bash
# jepa-text on Google Kubernetes Engine, as a JobSet: one pod on each host.
#
#   IMAGE=REGISTRY/jepa-text:tpu NAME=first TPU=tpu-v6e-slice TOPOLOGY=4x4 HOSTS=4 \
#     bash launch/gke.sh train --config=configs/toy.py:mlm --workdir=/data/first
#   IMAGE=REGISTRY/jepa-text:cuda NAME=first GPU=nvidia-h100-80gb WORKERS=4 \
#     bash launch/gke.sh study --config=... --workdir=gs://my-bucket/seeds
#
# Fills in launch/gke/jobset.yaml and gives it to kubectl; --dry-run prints it. The image
# is made by launch/docker.sh, the paths in the command are those inside of it.
#
#   NAME, IMAGE   required: of the JobSet; the image
#   CLAIM         the volume claim (ReadWriteMany) that is /data; if not set, jepa-text,
#                 and none where --workdir is an address
#   HOSTS         hosts of a TPU slice, or GPU nodes; 1 if not set
#   WORKERS       of evaluate or study: JobSets NAME-0, NAME-1, ..., that share --workdir
#   RESTARTS      restarts after a failure, 5 if not set; 75 and evictions do not count
#   TPU, TOPOLOGY gke-tpu-accelerator, as tpu-v6e-slice; that of the slice, as 4x4
#   SLICES        slices that train together; 1 if not set
#   GPU           value of gke-accelerator
#   CHIPS         TPU chips (4 if not set) or GPUs (8) of each host
#   SPOT          1: on spot nodes
#   ACCOUNT       service account of the pods, which opens gs://; default if not set
#   SECRET        a secret of variables for the pods, as AWS_ACCESS_KEY_ID
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
[ "${BASH_VERSINFO[0]}" -ge 4 ] || fail "gke.sh: bash $BASH_VERSION is too old; version 4 or later is needed."
read_command "$@"
read_workdir
NAME="${NAME:-}" IMAGE="${IMAGE:-}" CLAIM="${CLAIM:-}"
[ -n "$CLAIM$AT" ] || CLAIM=jepa-text
HOSTS="${HOSTS:-1}" SLICES="${SLICES:-1}" RESTARTS="${RESTARTS:-5}"
for name in NAME IMAGE; do
  [ -n "${!name}" ] || fail "gke.sh: $name is not set; --help says more."
done
names=("$NAME")
if [ -n "${WORKERS:-}" ]; then
  positive WORKERS "$WORKERS"
  shared_by_workers ''
  names=()
  for ((n = 0; n < WORKERS; n++)); do names+=("$NAME-$n"); done
fi
for name in "${names[@]}"; do
  # JobSet adds -workers-0-0 and more; a name in the cluster ends at 63 letters.
  [[ "$name" =~ ^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$ ]] || fail "gke.sh: NAME=$name is no name in a cluster: at most 40 of a-z, 0-9 and -, beginning with a letter."
done
case "$HOSTS:$SLICES:${COMMAND[0]}" in
  1:1:*) ;;
  *:evaluate | *:study) fail "gke.sh: HOSTS=$HOSTS, SLICES=$SLICES of ${COMMAND[0]}: each worker has one host. Unset both; WORKERS starts several." ;;
esac
in_data "the volume claim $CLAIM"
for name in HOSTS SLICES RESTARTS; do positive "$name" "${!name}"; done

# text WORD: as a string of JSON, which YAML reads.
text() {
  local word=${1//\\/\\\\}
  word=${word//\"/\\\"}
  printf '"%s"' "${word//$'\n'/\\n}"
}

# What stands for the $NAMES of the manifest.
declare -A value=([IMAGE]="$(text "$IMAGE")" [HOSTS]=$HOSTS [SLICES]=$SLICES
  [RESTARTS]=$RESTARTS [ANNOTATIONS]='{}' [ENVIRONMENT]='[]' [VARIABLES]='[]'
  [VOLUME]='{name: data, emptyDir: {}}' [ACCOUNT]="$(text "${ACCOUNT:-default}")")
if [ -n "$CLAIM" ]; then
  value[VOLUME]="{name: data, persistentVolumeClaim: {claimName: $(text "$CLAIM")}}"
fi
if [ -n "${SECRET:-}" ]; then value[VARIABLES]="[{secretRef: {name: $(text "$SECRET")}}]"; fi
case "${TPU:+tpu}${GPU:+gpu}" in
  tpu)
    [ -n "${TOPOLOGY:-}" ] || fail 'gke.sh: TOPOLOGY is not set: that of the slice, as TOPOLOGY=4x4.'
    CHIPS="${CHIPS:-4}"
    value[DEVICES]="{google.com/tpu: $CHIPS}"
    selector="{cloud.google.com/gke-tpu-accelerator: $(text "$TPU"), cloud.google.com/gke-tpu-topology: $(text "$TOPOLOGY")"
    # A slice to a job. The cluster tells each pod its place among hosts and slices.
    value[ANNOTATIONS]='{alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}'
    ;;
  gpu)
    [ "$SLICES" = 1 ] || fail "gke.sh: SLICES=$SLICES with GPU; slices are of TPUs. Set HOSTS."
    CHIPS="${CHIPS:-8}"
    value[DEVICES]="{nvidia.com/gpu: $CHIPS}"
    selector="{cloud.google.com/gke-accelerator: $(text "$GPU")"
    # Said in full: then jax needs neither a Kubernetes client nor rights to ask.
    place="metadata.annotations['batch.kubernetes.io/job-completion-index']"
    [ -n "${WORKERS:-}" ] || value[ENVIRONMENT]="[{name: JAX_COORDINATOR_ADDRESS, value: $(text "$NAME-workers-0-0.$NAME:8476")},
      {name: JAX_NUM_PROCESSES, value: $(text "$HOSTS")}, {name: JAX_PROCESS_ID, valueFrom: {fieldRef: {fieldPath: $(text "$place")}}}]"
    ;;
  *) fail 'gke.sh: set TPU, as TPU=tpu-v6e-slice, or GPU, as GPU=nvidia-h100-80gb, and one of them only.' ;;
esac
positive CHIPS "$CHIPS"
if [ "${SPOT:-}" = 1 ]; then selector+=', cloud.google.com/gke-spot: "true"'; fi
value[SELECTOR]="$selector}"
words=''
for word in "${COMMAND[@]}"; do words+=", $(text "$word")"; done
value[ARGUMENTS]="[${words#, }]"

# manifest NAME. At most one name a line, at its end; a $ in a value stays as it is.
manifest() {
  local line
  value[NAME]=$1
  while IFS= read -r line; do
    if [[ "$line" =~ ^([^#]*)\$([A-Z]+)$ ]]; then
      line="${BASH_REMATCH[1]}${value[${BASH_REMATCH[2]}]}"
    fi
    printf '%s\n' "$line"
  done <"$ROOT/launch/gke/jobset.yaml"
}

needs kubectl 'Install it (gcloud components install kubectl), then gcloud container clusters get-credentials CLUSTER.'
manifests() {
  local name
  for name in "${names[@]}"; do
    [ "$name" = "${names[0]}" ] || echo ---
    manifest "$name"
  done
}

if [ -n "$DRY" ]; then manifests; else manifests | kubectl apply --filename=-; fi
