#!/usr/bin/env bash
# Runs jepa-text on Google Kubernetes Engine as a JobSet with one pod per host.
#
#   IMAGE=REGISTRY/jepa-text:tpu NAME=first TPU=tpu-v6e-slice TOPOLOGY=4x4 HOSTS=4 \
#     bash launch/gke.sh train toy:mlm --workdir=/data/first
#
# Fills in launch/gke/jobset.yaml and passes it to kubectl; --dry-run prints it. The image
# is built by launch/docker.sh; paths in the command are paths in the image.
#
#   NAME, IMAGE   required: names of the JobSet and of the image
#   CLAIM         volume claim (ReadWriteMany) for /data, by default jepa-text; by default
#                 none if --workdir is an address
#   HOSTS         hosts of a TPU slice, or GPU nodes; by default 1
#   RESTARTS      restarts after failures, by default 5; exit code 75 and evictions are free
#   TPU, TOPOLOGY gke-tpu-accelerator, as tpu-v6e-slice, and slice topology, as 4x4
#   GPU           gke-accelerator, as nvidia-h100-80gb
#   CHIPS         TPU chips (by default 4) or GPUs (8) per host
#   SPOT          1: use spot nodes
#   ACCOUNT       service account of the pods, for access to gs://; by default `default`
#   SECRET        secret with environment variables for the pods, as AWS_ACCESS_KEY_ID
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
[ "${BASH_VERSINFO[0]}" -ge 4 ] || fail "gke.sh: bash $BASH_VERSION is too old; version 4 or later is needed."
read_command "$@"
[ -z "${SLICES-}" ] || fail 'gke.sh: SLICES was removed: a job has one slice (docs/removed.md).'
NAME="${NAME:-}" IMAGE="${IMAGE:-}" CLAIM="${CLAIM:-}"
[ -n "$CLAIM$AT" ] || CLAIM=jepa-text
HOSTS="${HOSTS:-1}" RESTARTS="${RESTARTS:-5}"
for name in NAME IMAGE; do
  [ -n "${!name}" ] || fail "gke.sh: $name is not set; see --help."
done
# JobSet appends -workers-0-0 and more; names in a cluster have at most 63 characters.
[[ "$NAME" =~ ^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$ ]] || fail "gke.sh: NAME=$NAME is not a valid name in a cluster: use at most 40 characters of a-z, 0-9 and -, starting with a letter."
in_data "the volume claim ${CLAIM:-jepa-text}"
positive HOSTS "$HOSTS"
[ "$RESTARTS" = 0 ] || positive RESTARTS "$RESTARTS"
one_node HOSTS "$HOSTS" launch/ray_job.yaml

# text WORD: prints it as a JSON string, which is valid YAML.
text() {
  local word=${1//\\/\\\\}
  word=${word//\"/\\\"}
  printf '"%s"' "${word//$'\n'/\\n}"
}

# Values of the $NAMES in the manifest.
declare -A value=([IMAGE]="$(text "$IMAGE")" [HOSTS]=$HOSTS
  [RESTARTS]=$RESTARTS [ANNOTATIONS]='{}' [ENVIRONMENT]='[]' [VARIABLES]='[]'
  [VOLUME]='{name: data, emptyDir: {}}' [ACCOUNT]="$(text "${ACCOUNT:-default}")")
if [ -n "$CLAIM" ]; then
  value[VOLUME]="{name: data, persistentVolumeClaim: {claimName: $(text "$CLAIM")}}"
fi
if [ -n "${SECRET:-}" ]; then value[VARIABLES]="[{secretRef: {name: $(text "$SECRET")}}]"; fi
case "${TPU:+tpu}${GPU:+gpu}" in
  tpu)
    [ -n "${TOPOLOGY:-}" ] || fail 'gke.sh: TOPOLOGY is not set. Set the topology of the slice, as TOPOLOGY=4x4.'
    CHIPS="${CHIPS:-4}"
    value[DEVICES]="{google.com/tpu: $CHIPS}"
    selector="{cloud.google.com/gke-tpu-accelerator: $(text "$TPU"), cloud.google.com/gke-tpu-topology: $(text "$TOPOLOGY")"
    # One slice per job. The cluster tells each pod its index among hosts.
    value[ANNOTATIONS]='{alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}'
    ;;
  gpu)
    CHIPS="${CHIPS:-8}"
    value[DEVICES]="{nvidia.com/gpu: $CHIPS}"
    selector="{cloud.google.com/gke-accelerator: $(text "$GPU")"
    # With these variables jax needs neither a Kubernetes client nor cluster permissions.
    place="metadata.annotations['batch.kubernetes.io/job-completion-index']"
    value[ENVIRONMENT]="[{name: JAX_COORDINATOR_ADDRESS, value: $(text "$NAME-workers-0-0.$NAME:8476")},
      {name: JAX_NUM_PROCESSES, value: $(text "$HOSTS")}, {name: JAX_PROCESS_ID, valueFrom: {fieldRef: {fieldPath: $(text "$place")}}}]"
    ;;
  *) fail 'gke.sh: set TPU, as TPU=tpu-v6e-slice, or GPU, as GPU=nvidia-h100-80gb, but not both.' ;;
esac
positive CHIPS "$CHIPS"
if [ "${SPOT:-}" = 1 ]; then selector+=', cloud.google.com/gke-spot: "true"'; fi
value[SELECTOR]="$selector}"
words=''
for word in "${COMMAND[@]}"; do words+=", $(text "$word")"; done
value[ARGUMENTS]="[${words#, }]"

# Prints the manifest. Replaces at most one $NAME per line, at its end; a $ in a value is
# unchanged.
manifest() {
  local line
  value[NAME]=$NAME
  while IFS= read -r line; do
    if [[ "$line" =~ ^([^#]*)\$([A-Z]+)$ ]]; then
      line="${BASH_REMATCH[1]}${value[${BASH_REMATCH[2]}]}"
    fi
    printf '%s\n' "$line"
  done <"$ROOT/launch/gke/jobset.yaml"
}

needs kubectl 'Install it (gcloud components install kubectl), then gcloud container clusters get-credentials CLUSTER.'
if [ -n "$DRY" ]; then manifest; else manifest | kubectl apply --filename=-; fi
