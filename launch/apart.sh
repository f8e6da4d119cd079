#!/usr/bin/env bash
# Runs the tests with the marker KIND, after installing what only they need. Further
# arguments are passed to pytest.
#
#   bash launch/apart.sh remote         addresses, with local servers of S3, Google Cloud
#                                       Storage and HTTP
#   bash launch/apart.sh ray            a Ray cluster of two nodes on this machine
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
  remote) extras=(gs s3 https stores) ;;
  ray) extras=(ray) ;;
  *) fail "apart.sh: unknown kind '$KIND'; use remote or ray: bash launch/apart.sh remote" ;;
esac
shift
ready_venv test "${extras[@]}"
cd "$ROOT"
run_marked "$KIND" "${RESULTS:-$VENV/results.xml}" '' --dist loadscope "$@"
