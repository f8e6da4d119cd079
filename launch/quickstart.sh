#!/usr/bin/env bash
# Quickstart on the bundled texts: installs the environment, trains three short runs, and
# writes a report.
#
#   bash launch/quickstart.sh                       about seven minutes on two cores
#   bash launch/quickstart.sh --config.steps=40     any setting of configs/quickstart.py
#   WORKDIR=/some/folder bash launch/quickstart.sh  writes there instead of runs/quickstart
#
# The same command again resumes, or reports that everything is complete.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
WORKDIR="${WORKDIR:-$ROOT/runs/quickstart}"
case "$WORKDIR" in
  /*) ;;
  *) WORKDIR="$PWD/$WORKDIR" ;;
esac

# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv

cd "$ROOT"
# Paths in the repository are passed relative to it, as the job prints them.
exec "$VENV/bin/jepa-text" study quickstart \
  --workdir="${WORKDIR#"$ROOT/"}" "$@"
