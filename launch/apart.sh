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
  empty_venv "${VENV%-"$KIND"}/bin/python"
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

PYTHONPATH="$ROOT" run_marked "$KIND" "${RESULTS:-$VENV/results.xml}" '' --dist loadscope "$@"
