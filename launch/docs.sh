#!/usr/bin/env bash
# Builds the documentation into runs/site, every warning an error; arguments go to mkdocs.
#
#   bash launch/docs.sh
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv test
cd "$ROOT"
# The theme's notice about a version of mkdocs that is not installed here.
export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
# Not with --quiet: mkdocs counts the warnings that it prints, and passes if it prints none.
"$VENV/bin/python" -m mkdocs build "$@"
say ready "$ROOT/runs/site/index.html"
