#!/usr/bin/env bash
# Runs jepa-text on a TPU VM or pod of Google Cloud, with one process per host.
#
#   NAME=first ZONE=us-east5-b TYPE=v6e-8 bash launch/tpu_vm.sh train \
#     --config=configs/toy.py:mlm --workdir=/data/first
#
# Creates the machine if needed, copies the committed files of this repository, installs,
# and runs; --dry-run prints the commands. The same command again resumes the run. The run
# survives a lost connection; its output is in jepa-text.log on each host. The machine
# exists, and costs money, until it is deleted; the last line of output shows how.
#
#   NAME, ZONE, TYPE   required: name and zone of the machine; its type, as v5litepod-16
#   VERSION            version of the runtime; by default the one for TYPE
#   QUEUED             1: wait in a queue for the machine (queued-resources)
#   SPOT               1: use a spot machine, which is cheaper but may be preempted
#   BEFORE             shell command to run on every host first, such as installing Python
#                      3.12 or mounting a disk: all hosts need the file system of --workdir
#   PROJECT            Google Cloud project; by default the one configured in gcloud
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
cd "$ROOT"
read_command "$@"
NAME="${NAME:-}" ZONE="${ZONE:-}" TYPE="${TYPE:-}"
for name in NAME ZONE TYPE; do
  [ -n "${!name}" ] || fail "tpu_vm.sh: $name is not set, as NAME=first ZONE=us-east5-b TYPE=v6e-8."
done
case "$TYPE" in
  v5litepod-*) version=v2-alpha-tpuv5-lite ;;
  v5p-*) version=v2-alpha-tpuv5 ;;
  v6e-*) version=v2-alpha-tpuv6e ;;
  *) version='' ;;
esac
VERSION="${VERSION:-$version}"
[ -n "$VERSION" ] || fail "tpu_vm.sh: no runtime version is known for TYPE=$TYPE. Set VERSION; gcloud compute tpus tpu-vm versions list --zone=$ZONE lists them."
needs gcloud 'Install the Google Cloud CLI (cloud.google.com/sdk) and run gcloud auth login.'
needs git 'Install git.'

place=(--zone="$ZONE" ${PROJECT:+--project="$PROJECT"})
machine=(--accelerator-type="$TYPE" "${place[@]}")
if [ "${SPOT:-}" = 1 ]; then machine+=(--spot); fi

# state KIND FIELD: prints READY, ACTIVE, ...; nothing if the machine does not exist.
state() {
  gcloud compute tpus "$1" describe "$NAME" "${place[@]}" --format="value($2)" 2>/dev/null || :
}

make_queued() {
  local now=''
  [ -n "$DRY" ] || now="$(state queued-resources state.state)"
  if [ -z "$now" ]; then
    perform gcloud compute tpus queued-resources create "$NAME" --node-id="$NAME" \
      --runtime-version="$VERSION" "${machine[@]}"
  fi
  while [ -z "$DRY" ]; do
    now="$(state queued-resources state.state)"
    case "$now" in
      ACTIVE) return ;;
      FAILED | SUSPEND*) fail "tpu_vm.sh: the queued resource $NAME is $now. Delete it (gcloud compute tpus queued-resources delete $NAME --force --zone=$ZONE), then run this command again." ;;
    esac
    say waiting "queued resource $NAME: ${now:-unknown}"
    sleep "${POLL:-30}"
  done
}

make_now() {
  local now=''
  [ -n "$DRY" ] || now="$(state tpu-vm state)"
  case "$now" in
    READY) return ;;
    '') ;;
    *) fail "tpu_vm.sh: the machine $NAME is $now. Delete it (gcloud compute tpus tpu-vm delete $NAME --zone=$ZONE), then run this command again: the run resumes." ;;
  esac
  perform gcloud compute tpus tpu-vm create "$NAME" --version="$VERSION" "${machine[@]}"
}

on_all() {
  perform gcloud compute tpus tpu-vm ssh "$NAME" --worker=all "${place[@]}" --command="$1"
}

if [ "${QUEUED:-}" = 1 ]; then make_queued; else make_now; fi
archive=jepa-text.tar.gz
if [ -z "$DRY" ]; then
  scratch="$(mktemp -d)"
  trap 'rm -rf "$scratch"' EXIT
  archive="$scratch/$archive"
fi
perform git archive --format=tar.gz --output="$archive" HEAD
perform gcloud compute tpus tpu-vm scp "$archive" "$NAME:" --worker=all "${place[@]}"
on_all "${BEFORE:+$BEFORE && }mkdir -p jepa-text && tar -xzf jepa-text.tar.gz -C jepa-text && bash jepa-text/launch/venv.sh tpu $ADDRESSES"
# The run survives the end of the connection, while its output is shown and its exit code
# returned.
answer=0
on_all ": >jepa-text.log; ACCELERATOR=tpu nohup bash jepa-text/launch/local.sh $(quoted "${COMMAND[@]}") >>jepa-text.log 2>&1 </dev/null & tail -n +1 -f --pid=\$! jepa-text.log; wait \$!" || answer=$?
delete=(tpu-vm delete "$NAME")
if [ "${QUEUED:-}" = 1 ]; then delete=(queued-resources delete "$NAME" --force); fi
say delete "gcloud compute tpus $(quoted "${delete[@]}" "${place[@]}")"
exit "$answer"
