#!/usr/bin/env bash
# The tests against other people's code: installs torch and transformers, and what else
# reads an exported model or what a launcher writes, into the environment of the tests and
# runs those with the marker `peer`. Arguments go to pytest.
#
#   bash launch/peers.sh
#   TORCH=2.12.0 bash launch/peers.sh -k rope
#
# Exit code 77: there is no torch for this Python and machine, and no test ran. Otherwise
# it fails when a test fails, and when none ran or one is skipped, too, except for want of
# what is not torch or transformers, of which some machines have no package that fits.
#
#   RESULTS        a file for the results, as JUnit XML
#   TORCH          version of torch, 2.13.0 if not set
#   PIP_INDEX_URL  and what else pip reads: on Linux the default index brings CUDA with
#                  torch, several GB; PyTorch documents one with CPU builds
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv test
cd "$ROOT"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Nothing that is there may move: the same versions are tested as without the peers.
"$VENV/bin/python" -m pip freeze --all --exclude-editable |
  grep -v -E '^(torch|transformers)==' >"$scratch/versions.txt"
peers=("torch==${TORCH:-2.13.0}" 'transformers>=5.3,<6')
say peers "${peers[*]}"
if ! "$VENV/bin/python" -m pip install --constraint "$scratch/versions.txt" "${peers[@]}" >"$scratch/log" 2>&1; then
  tail -n 20 "$scratch/log" >&2
  # An index that cannot be reached has nothing that matches, either.
  if grep -q 'No matching distribution found for torch' "$scratch/log" && ! grep -q 'connection broken' "$scratch/log"; then
    say skipped "no ${peers[0]} for this Python and machine: the peer tests did not run"
    exit 77
  fi
  fail "pip could not install ${peers[*]}; the lines above end its log."
fi

missing=''
# Notes that a package is missing; fails if it is there and cannot be installed.
without() {
  grep -q 'No matching distribution found' "$scratch/log" || {
    tail -n 20 "$scratch/log" >&2
    fail "pip could not install $1; the lines above end its log."
  }
  say missing "$1: its tests do not run"
  missing="$missing ${1//-/_}"
}
for more in sentencepiece tiktoken sentence-transformers mteb onnxscript onnxruntime kubernetes-validate datasketch; do
  say peers "$more"
  "$VENV/bin/python" -m pip install --constraint "$scratch/versions.txt" "$more" >"$scratch/log" 2>&1 ||
    without "$more"
done

# In a folder of its own, with all it needs: other versions than ours.
say peers skypilot
if "$VENV/bin/python" -m pip install --target "$scratch/sky" 'skypilot>=0.14' >"$scratch/log" 2>&1; then
  export SKYPILOT="$scratch/sky"
else
  without skypilot
fi

failed=''
results="${RESULTS:-$scratch/results.xml}"
rm -f "$results"
"$VENV/bin/python" -m pytest -m peer -n 2 "$@" --junitxml="$results" || failed=yes
"$VENV/bin/python" - "$results" "$missing" <<'PYTHON' || failed=yes
import sys
import xml.etree.ElementTree

cases = list(xml.etree.ElementTree.parse(sys.argv[1]).iter('testcase'))
skipped = [case.get('name') for case in cases if case.find('skipped') is not None]
print(f'peer tests: {len(cases)}; skipped: {", ".join(skipped) or "none"}')
reasons = [skip.get('message') for case in cases for skip in case.findall('skipped')]
excused = [any(name in reason for name in sys.argv[2].split()) for reason in reasons]
sys.exit(not all(excused) or not cases)
PYTHON
if [ -n "$failed" ]; then
  say FAILED peers
  exit 1
fi
