#!/usr/bin/env bash
# Runs the tests with the markers KIND..., after installing what only they need. Further
# arguments are passed to pytest.
#
#   bash launch/apart.sh remote         addresses, with local servers of S3, Google Cloud
#                                       Storage and HTTP
#   bash launch/apart.sh ray            a Ray cluster of two nodes on this machine
#   bash launch/apart.sh browser        pages in a Chromium, installed if this is a Debian
#                                       whose root runs it, else skipped
#   bash launch/apart.sh remote ray     both, in less time
#   bash launch/apart.sh remote -k s3
#
# Fails if a test fails or is skipped, or if no test ran.
#
#   RESULTS        file for the results, as JUnit XML
#   PAGES          folders of the pages, as in PATH: runs/site, which launch/docs.sh builds
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
markers='' extras=()
while [ $# -gt 0 ]; do
  case "$1" in
    remote) extras+=(gs s3 https stores) ;;
    ray) extras+=(ray) ;;
    browser)
      if ! command -v chromium chromium-browser google-chrome >/dev/null &&
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium || true
      fi
      ;;
    *) break ;;
  esac
  markers="${markers:+$markers or }$1"
  shift
done
if [ -z "$markers" ]; then
  fail "apart.sh: unknown kind '${1:-}'; use remote, ray or browser: bash launch/apart.sh remote"
fi
ready_venv test "${extras[@]}"
cd "$ROOT"
run_marked "$markers" "${RESULTS:-$VENV/results.xml}" chromium --dist loadscope "$@"
