#!/usr/bin/env bash
# Builds the documentation in runs/site; warnings are errors. Arguments go to mkdocs.
#
#   bash launch/docs.sh
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv test
cd "$ROOT"
# Disables the theme's notice about mkdocs 2, which is not used here.
export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
# Not with --quiet: mkdocs fails only for warnings that it prints.
"$VENV/bin/python" -m mkdocs build "$@"
say ready "$ROOT/runs/site/index.html"
