#!/usr/bin/env bash
# Checks format, lint (Python, shell, YAML, Dockerfile), unused code, types of the public API
# and packages, and runs the tests. Arguments are passed to pytest.
#
#   bash launch/test.sh
#   bash launch/test.sh tests/losses -n 0 -k cosine
#   bash launch/test.sh -m slow        tests that take two seconds or more; -m long: half a
#                                      minute or more
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv test
cd "$ROOT"

YAML_RULES='{extends: default, rules: {line-length: {max: 90}, document-start: disable}}'

# All checks run even if some fail.
failed=''
check() {
  local name=$1
  shift
  say "$name" "$*"
  "$VENV/bin/$1" "${@:2}" || failed="$failed $name"
}
# The types take longest of the checks of one core, and wait for nothing.
"$VENV/bin/mypy" >"$VENV/types.log" 2>&1 &
types=$!
check format ruff format --check
check lint ruff check
check scripts shellcheck -x launch/*.sh .ci/run
check yaml yamllint --strict -d "$YAML_RULES" launch
check docker hadolint launch/docker/Dockerfile
say unused 'vulture, except config keys'
found="$("$VENV/bin/vulture")" || [ $? = 3 ] # 3: unused code found
if grep -Ev '^$|unused (attribute|variable)' <<<"$found"; then
  failed="$failed unused"
fi
check packages python -m pip check
check tests python -m pytest -n 2 --dist loadfile -m 'not slow and not long and not peer and not remote and not ray and not browser' "$@"
say types mypy
wait "$types" || failed="$failed types"
cat "$VENV/types.log"
if [ -n "$failed" ]; then
  say FAILED "${failed# }"
  exit 1
fi
