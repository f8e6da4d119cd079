#!/usr/bin/env bash
# Runs the tests with the marker KIND, whose packages conflict with those of other tests, in
# an environment of their own ($VENV-remote, $VENV-beam) on top of the test environment.
# Further arguments are passed to pytest.
#
#   bash launch/apart.sh remote         addresses, with local servers of S3, Google Cloud
#                                       Storage and HTTP
#   bash launch/apart.sh beam           Apache Beam's local runner
#   bash launch/apart.sh remote -k s3
#
# Fails if a test fails or is skipped, or if no test ran.
#
#   RESULTS        file for the results, as JUnit XML
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
KIND="${1:-}"
case "$KIND" in
  remote) EXTRAS=gs,s3,https,stores ;;
  beam) EXTRAS=beam ;;
  *) fail "apart.sh: unknown kind '$KIND'; use remote or beam: bash launch/apart.sh remote" ;;
esac
shift
ready_venv test
cd "$ROOT"

lock="$(lock_for "$KIND" "$VENV/bin/python")"
wanted="$(digest "$VENV/bin/python" "$lock")"
under="$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
VENV="$VENV-$KIND"
MARK="$VENV/made-by-launch"
if [ ! -f "$VENV/stamp-$KIND" ] || [ "$(cat "$VENV/stamp-$KIND")" != "$wanted" ]; then
  if [ -e "$VENV" ] && [ ! -e "$MARK" ]; then
    fail "$VENV exists but was not created by this script. Move it away, or set VENV to another folder."
  fi
  rm -rf "$VENV"
  mkdir -p "$VENV"
  touch "$MARK"
  "${VENV%-"$KIND"}/bin/python" -m venv "$VENV"
  # Packages of the test environment that have the required version are not reinstalled.
  "$VENV/bin/python" -c 'import sys, sysconfig
with open(sysconfig.get_path("purelib") + "/under.pth", "w") as file:
    print(sys.argv[1], file=file)' "$under"
  say packages "${lock##*/}, those missing from the test environment"
  if [ -n "$lock" ]; then
    install --require-hashes --only-binary :all: --no-binary promise,seqeval -r "$lock"
  else
    install "${ROOT}[$EXTRAS]"
  fi
  printf '%s' "$wanted" >"$VENV/stamp-$KIND"
fi

results="${RESULTS:-$VENV/results.xml}"
failed=''
rm -f "$results"
PYTHONPATH="$ROOT" "$VENV/bin/python" -m pytest -m "$KIND" -n 2 --dist loadscope "$@" --junitxml="$results" || failed=yes
"$VENV/bin/python" - "$results" "$KIND" <<'PYTHON' || failed=yes
import sys
import xml.etree.ElementTree

cases = list(xml.etree.ElementTree.parse(sys.argv[1]).iter('testcase'))
skipped = [case.get('name') for case in cases if case.find('skipped') is not None]
print(f'{sys.argv[2]} tests: {len(cases)}; skipped: {", ".join(skipped) or "none"}')
sys.exit(bool(skipped) or not cases)
PYTHON
if [ -n "$failed" ]; then
  say FAILED "$KIND"
  exit 1
fi
