#!/usr/bin/env bash
# Format, lint, consistent packages, tests. Arguments go to pytest:
#
#   bash launch/test.sh
#   bash launch/test.sh tests/test_losses.py -n 0 -k cosine
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv test
cd "$ROOT"

# All of them, so that a wrong blank line does not hide a wrong number.
failed=''
check() {
  local name=$1
  shift
  say "$name" "$*"
  "$VENV/bin/python" -m "$@" || failed="$failed $name"
}
check format ruff format --check
check lint ruff check
check packages pip check
check tests pytest -n 2 "$@"
if [ -n "$failed" ]; then
  say FAILED "${failed# }"
  exit 1
fi
