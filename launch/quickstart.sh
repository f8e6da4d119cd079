#!/usr/bin/env bash
# The main job on the bundled texts: an environment, three short runs, and a report.
#
#   bash launch/quickstart.sh                       about seven minutes on two cores
#   bash launch/quickstart.sh --config.steps=40     any setting of configs/quickstart.py
#   WORKDIR=/some/folder bash launch/quickstart.sh  elsewhere than runs/quickstart
#
# Again with the same settings: goes on where it stopped, or says that it is complete.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
WORKDIR="${WORKDIR:-$ROOT/runs/quickstart}"
case "$WORKDIR" in
  /*) ;;
  *) WORKDIR="$PWD/$WORKDIR" ;;
esac

# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv run

cd "$ROOT"
# Below the repository the short name; it is what the job prints.
exec "$VENV/bin/jepa-text" study --config=configs/quickstart.py \
  --workdir="${WORKDIR#"$ROOT/"}" "$@"
