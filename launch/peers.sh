#!/usr/bin/env bash
# Runs the tests against other libraries (marker `peer`). Installs torch, transformers and
# other packages that read exported models or launcher output into the test environment.
# Arguments are passed to pytest.
#
#   bash launch/peers.sh
#   TORCH=2.12.0 bash launch/peers.sh -k rope
#
# Exits with 77, without running tests, if no torch exists for this Python and machine.
# Otherwise fails if a test fails, if no test ran, or if a test is skipped, unless for
# lack of a package other than torch and transformers, as some do not exist for every
# machine.
#
#   RESULTS        file for the results, as JUnit XML
#   TORCH          version of torch, by default 2.13.0
#   PIP_INDEX_URL  package index, as for pip: on Linux, torch from the default index
#                  includes several GB of CUDA; PyTorch documents an index of CPU builds
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
ready_venv test
cd "$ROOT"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Installed packages keep their versions, so that the same ones are tested.
"$VENV/bin/python" -m pip freeze --all --exclude-editable |
  grep -v -E '^(torch|transformers)==' >"$scratch/versions.txt"
same=(--constraint "$scratch/versions.txt")
# Installs what pip is given; of these packages, only what tests import is compiled.
add() { "$VENV/bin/python" -m pip install --no-compile "$@" >"$scratch/log" 2>&1; }

peers=("torch==${TORCH:-2.13.0}" 'transformers>=5.24,<6')
say peers "${peers[*]}"
if ! add "${same[@]}" "${peers[@]}"; then
  tail -n 20 "$scratch/log" >&2
  # pip reports no match also if the index cannot be reached.
  if grep -q 'No matching distribution found for torch' "$scratch/log" && ! grep -q 'connection broken' "$scratch/log"; then
    say skipped "no ${peers[0]} for this Python and machine: the peer tests did not run"
    exit 77
  fi
  fail "pip could not install ${peers[*]}; see the end of its log above."
fi

missing=''
# Records that no package exists for this machine; fails for other errors of pip.
without() {
  grep -q 'No matching distribution found' "$scratch/log" || {
    tail -n 20 "$scratch/log" >&2
    fail "pip could not install $1; see the end of its log above."
  }
  say missing "$1: its tests do not run"
  missing="$missing ${1//-/_}"
}
more=(sentencepiece tiktoken sentence-transformers onnxscript onnxruntime)
more+=(kubernetes-validate spacy fasteners orjson datatrove)
say peers "${more[*]}"
# All at once, in less time; one by one if some do not exist for this machine.
add "${same[@]}" "${more[@]}" || for one in "${more[@]}"; do
  say peers "$one"
  add "${same[@]}" "$one" || without "$one"
done

# In a separate folder, as its dependencies have other versions than ours.
say peers skypilot
if add --target "$scratch/sky" 'skypilot>=0.14'; then
  export SKYPILOT="$scratch/sky"
else
  without skypilot
fi

run_marked peer "${RESULTS:-$scratch/results.xml}" "$missing" "$@"
