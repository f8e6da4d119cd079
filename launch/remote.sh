#!/usr/bin/env bash
# The tests that read and write at addresses, against servers of S3, Google Cloud Storage
# and the web as processes of their own: those with the marker `remote`. Their clients and
# servers want an older python-dateutil than the rest, so they lie in an environment of
# their own, $VENV-remote, over that of the tests. Arguments go to pytest.
#
#   bash launch/remote.sh
#   bash launch/remote.sh -k s3
#
# Fails when a test fails, and when none ran or one is skipped.
#
#   RESULTS        a file for the results, as JUnit XML
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv test
cd "$ROOT"

lock="$(lock_for remote "$VENV/bin/python")"
wanted="$(digest "$VENV/bin/python" "$lock")"
under="$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
VENV="$VENV-remote"
MARK="$VENV/made-by-launch"
if [ ! -f "$VENV/stamp-remote" ] || [ "$(cat "$VENV/stamp-remote")" != "$wanted" ]; then
  if [ -e "$VENV" ] && [ ! -e "$MARK" ]; then
    fail "$VENV exists and was not made by this script. Move it away, or set VENV to another folder."
  fi
  rm -rf "$VENV"
  mkdir -p "$VENV"
  touch "$MARK"
  "${VENV%-remote}/bin/python" -m venv "$VENV"
  # What is there in the wanted version is not installed again.
  "$VENV/bin/python" -c 'import sys, sysconfig
with open(sysconfig.get_path("purelib") + "/under.pth", "w") as file:
    print(sys.argv[1], file=file)' "$under"
  say packages "${lock##*/}, what the tests' environment lacks of it"
  if [ -n "$lock" ]; then
    install --require-hashes --only-binary :all: --no-binary promise,seqeval -r "$lock"
  else
    install "${ROOT}[gs,s3,https,stores]"
  fi
  printf '%s' "$wanted" >"$VENV/stamp-remote"
fi

results="${RESULTS:-$VENV/results.xml}"
failed=''
rm -f "$results"
PYTHONPATH="$ROOT" "$VENV/bin/python" -m pytest -m remote -n 2 --dist loadscope "$@" --junitxml="$results" || failed=yes
"$VENV/bin/python" - "$results" <<'PYTHON' || failed=yes
import sys
import xml.etree.ElementTree

cases = list(xml.etree.ElementTree.parse(sys.argv[1]).iter('testcase'))
skipped = [case.get('name') for case in cases if case.find('skipped') is not None]
print(f'remote tests: {len(cases)}; skipped: {", ".join(skipped) or "none"}')
sys.exit(bool(skipped) or not cases)
PYTHON
if [ -n "$failed" ]; then
  say FAILED remote
  exit 1
fi
