# Creates the virtual environment of the launch scripts; sourced, or run with a kind:
#
#   ready_venv run      packages of the main job
#   ready_venv test     packages of run, and those of the tests
#   ready_venv cuda     packages of run, and jax for NVIDIA GPUs
#   ready_venv cuda12   the same for drivers before 580, which lack CUDA 13
#   ready_venv tpu      packages of run, and jax for TPUs
#
# A second argument, addresses, adds the clients for gs://, s3:// and https://.
#
# Creates or completes $VENV (by default ROOT/.venv) from launch/requirements/, verifies all
# hashes, and does nothing if setup.py and the requirements have not changed. PYTHON names
# the interpreter; by default it is the first that works, preferring versions with their
# own requirements file (3.11, 3.12).
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
VENV="${VENV:-$ROOT/.venv}"
MARK="$VENV/made-by-launch" # Only a folder with this file is ever deleted.

# These would make pip install elsewhere, or find packages outside of the venv.
unset PIP_USER PIP_TARGET PIP_PREFIX PYTHONHOME PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# Prints the version, as 3.11, of an interpreter that is new enough and can create venvs.
version_of() {
  "$1" -c '
import sys
import ensurepip, venv
assert sys.version_info >= (3, 11)
print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# Sets FOUND to the interpreter to use.
find_python() {
  local name candidate any='' IFS=$'\n'
  if [ -n "${PYTHON:-}" ]; then
    version_of "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON does not run, is older than 3.11, or lacks the modules venv and ensurepip. Set PYTHON to another interpreter, or unset it."
    FOUND=$PYTHON
    return
  fi
  for name in python3.12 python3.11 python3 python python3.13 python3.14; do
    # All on the PATH, not only the first, which may be a version manager's broken shim.
    for candidate in $(type -ap "$name"); do
      case "$(version_of "$candidate")" in
        '') ;;
        3.11 | 3.12)
          FOUND=$candidate
          return
          ;;
        *) any=${any:-$candidate} ;;
      esac
    done
  done
  [ -n "$any" ] || fail 'found no Python 3.11 or later that can create virtual environments. Install Python 3.12 (on Debian and Ubuntu also the package python3-venv), or set PYTHON=/path/to/python3.'
  FOUND=$any
}

# Prints the requirements file of a kind for an interpreter; nothing if it has none.
lock_for() {
  local file
  file="$ROOT/launch/requirements/$1-py$("$2" -c 'import sys; print("%d%d" % sys.version_info[:2])').txt"
  if [ -f "$file" ]; then printf '%s' "$file"; fi
}

# Prints a hash of everything that an installation depends on: files, folder, interpreter.
digest() {
  "$1" - "$ROOT" "$ROOT/setup.py" "${@:2}" <<'PYTHON'
import hashlib
import pathlib
import sys

total = hashlib.sha256(f'{sys.version} {sys.argv[1]}'.encode())
for path in filter(None, sys.argv[2:]):
    total.update(hashlib.sha256(pathlib.Path(path).read_bytes()).digest())
print(total.hexdigest())
PYTHON
}

# Whether the venv has the current packages of a kind.
current() {
  local stamp="$VENV/stamp-$1" python="$VENV/bin/python"
  [ -f "$stamp" ] && "$python" -c '' 2>/dev/null || return 1
  [ "$(cat "$stamp")" = "$(digest "$python" "$(lock_for "$1" "$python")")" ] || return 1
  [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$python")" ]
}

# Runs pip; its output goes to a log whose end is shown after a failure.
install() {
  local log="$VENV/install.log"
  "$VENV/bin/python" -m pip install "$@" </dev/null >>"$log" 2>&1 && return
  tail -n 20 "$log" >&2
  fail "pip could not install the packages; see the end of its log above, or $log. Run the same command again to retry."
}

# Creates an empty environment $VENV with an interpreter, instead of an older one.
empty_venv() {
  if [ -e "$VENV" ] && [ ! -e "$MARK" ]; then
    fail "$VENV exists but was not created by this script. Move it away, or set VENV to another folder."
  fi
  rm -rf "$VENV"
  mkdir -p "$VENV"
  touch "$MARK"
  "$1" -m venv "$VENV" || fail "$1 could not create a virtual environment in $VENV; see its output above."
}

make_venv() {
  find_python
  say python "$("$FOUND" -c 'import platform; print(platform.python_version())')  $FOUND"
  empty_venv "$FOUND"
  install --require-hashes -r "$ROOT/launch/requirements/build.txt"
}

install_kind() {
  local extras=$2 lock began=$SECONDS
  rm -f "$VENV/stamp-addresses" # They share packages, with other versions.
  lock="$(lock_for "$1" "$VENV/bin/python")"
  if [ -n "$lock" ]; then
    say packages "$(grep -c '^[a-zA-Z0-9].*==' "$lock") of ${lock##*/}, hash-checked (minutes the first time)"
    # Wheels only, so that no foreign code runs during installation; two have no wheel.
    install --require-hashes --only-binary :all: --no-binary promise,seqeval \
      --no-build-isolation --use-pep517 --no-compile -r "$lock"
    # Compiles on all cores, unlike pip. Files with syntax of other Pythons may fail.
    "$VENV/bin/python" -m compileall -qq -j 0 "$VENV/lib" || :
    install --no-deps --no-build-isolation -e "$ROOT"
  else
    say packages 'no requirements file for this Python: installing the newest versions that setup.py allows'
    install --no-build-isolation -e "${ROOT}[$extras]"
  fi
  digest "$VENV/bin/python" "$lock" >"$VENV/stamp-$1"
  say ready "$VENV after $((SECONDS - began)) s"
}

# Whether the venv has all packages of a kind; every other kind includes those of run.
has() {
  local kind kinds=("$1")
  if [ "$1" = run ]; then kinds=(run test cuda cuda12 tpu); fi
  for kind in "${kinds[@]}"; do
    if current "$kind"; then return; fi
  done
  return 1
}

ready_venv() {
  local extras
  case "${2:-}" in
    '' | addresses) ;;
    *) fail "unknown addition $2 to an environment; use addresses." ;;
  esac
  case "$1" in
    run) extras=eval,viz ;;
    test | cuda | cuda12 | tpu) extras=eval,viz,$1 ;;
    *) fail "unknown kind $1 of environment; use run, test, cuda, cuda12 or tpu." ;;
  esac
  # One installation at a time, if the file system supports locks.
  if command -v flock >/dev/null; then
    exec 9<"$ROOT/launch/venv.sh"
    if ! flock -n 9; then
      say waiting 'for another launch script that is installing packages'
      flock 9 || say waiting 'is not possible: the file system has no locks'
    fi
  fi
  if ! has "$1"; then
    has run || make_venv
    install_kind "$1" "$extras"
  fi
  if [ "${2:-}" = addresses ] && ! current addresses; then
    install_kind addresses eval,viz,gs,s3,https
  fi
  if command -v flock >/dev/null; then exec 9<&-; fi
}

# run_marked MARKER RESULTS PACKAGES ARGUMENTS...: runs the tests with a marker, and writes
# RESULTS as JUnit XML. Exits with 1 if a test fails, if no test ran, or if a test is
# skipped, unless for lack of one of the PACKAGES, separated by spaces.
run_marked() {
  local marker=$1 results=$2 packages=$3 failed=''
  shift 3
  rm -f "$results"
  "$VENV/bin/python" -m pytest -m "$marker" -n 2 "$@" --junitxml="$results" || failed=yes
  "$VENV/bin/python" - "$marker" "$results" "$packages" <<'PYTHON' || failed=yes
import sys
import xml.etree.ElementTree

marker, results, packages = sys.argv[1:]
cases = list(xml.etree.ElementTree.parse(results).iter('testcase'))
skipped = [case.get('name') for case in cases if case.find('skipped') is not None]
print(f'{marker} tests: {len(cases)}; skipped: {", ".join(skipped) or "none"}')
reasons = [skip.get('message') for case in cases for skip in case.findall('skipped')]
excused = [any(name in reason for name in packages.split()) for reason in reasons]
sys.exit(not all(excused) or not cases)
PYTHON
  if [ -n "$failed" ]; then
    say FAILED "$marker"
    exit 1
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  ready_venv "${1:-run}" "${2:-}"
fi
