# The virtual environment of the launch scripts; sourced, or called with a kind:
#
#   ready_venv run      what the main job needs
#   ready_venv test     that, and what the tests need
#   ready_venv cuda     that of run, and jax for NVIDIA GPUs
#   ready_venv cuda12   the same for drivers before 580, which know no CUDA 13
#   ready_venv tpu      that of run, and jax for TPUs
#
# A second word, addresses, adds the clients of gs://, s3:// and https:// to any of them.
#
# Makes or completes $VENV (ROOT/.venv unless set) from launch/requirements/, checks every
# file's hash, and does nothing when setup.py and the requirements have not changed since.
# PYTHON names the interpreter; otherwise the first that works is taken, and one with a
# requirements file of its own (3.11, 3.12) before a newer one.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
VENV="${VENV:-$ROOT/.venv}"
MARK="$VENV/made-by-launch" # Only a folder with this file is ever deleted.

# What would make pip install elsewhere, or find packages that are not in the venv.
unset PIP_USER PIP_TARGET PIP_PREFIX PYTHONHOME PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# The version, as 3.11, of an interpreter that runs, is new enough and can make venvs.
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
    # All on the PATH, not only the first: a version manager's shim may not run.
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
  [ -n "$any" ] || fail 'found no Python of version 3.11 or later that can make virtual environments. Install Python 3.12 (on Debian and Ubuntu also the package python3-venv), or set PYTHON=/path/to/python3.'
  FOUND=$any
}

# The requirements file of a kind for an interpreter; nothing when there is none.
lock_for() {
  local file
  file="$ROOT/launch/requirements/$1-py$("$2" -c 'import sys; print("%d%d" % sys.version_info[:2])').txt"
  if [ -f "$file" ]; then printf '%s' "$file"; fi
}

# What an installation depends on, as one hash: files, folder, interpreter.
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

# Whether the venv holds a kind as the files describe it now.
current() {
  local stamp="$VENV/stamp-$1" python="$VENV/bin/python"
  [ -f "$stamp" ] && "$python" -c '' 2>/dev/null || return 1
  [ "$(cat "$stamp")" = "$(digest "$python" "$(lock_for "$1" "$python")")" ] || return 1
  [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$python")" ]
}

# pip, with its talk in a file that is shown when it fails.
install() {
  local log="$VENV/install.log"
  "$VENV/bin/python" -m pip install "$@" </dev/null >>"$log" 2>&1 && return
  tail -n 20 "$log" >&2
  fail "pip could not install the packages; the lines above end its log, $log. The same command tries again from the start."
}

make_venv() {
  if [ -e "$VENV" ] && [ ! -e "$MARK" ]; then
    fail "$VENV exists and was not made by this script. Move it away, or set VENV to another folder."
  fi
  find_python
  say python "$("$FOUND" -c 'import platform; print(platform.python_version())')  $FOUND"
  rm -rf "$VENV"
  mkdir -p "$VENV"
  touch "$MARK"
  "$FOUND" -m venv "$VENV" || fail "$FOUND could not make a virtual environment in $VENV; the lines above say why."
  install --require-hashes -r "$ROOT/launch/requirements/build.txt"
}

install_kind() {
  local extras=$2 lock began=$SECONDS
  rm -f "$VENV/stamp-addresses" # They share packages, in other versions.
  lock="$(lock_for "$1" "$VENV/bin/python")"
  if [ -n "$lock" ]; then
    say packages "$(grep -c '^[a-zA-Z0-9].*==' "$lock") of ${lock##*/}, hash-checked (minutes the first time)"
    # Wheels only: nothing of others runs while it is installed. These two have none.
    install --require-hashes --only-binary :all: --no-binary promise,seqeval \
      --no-build-isolation --use-pep517 --no-compile -r "$lock"
    # On all cores, as pip would not; a file of another Python's syntax is no error.
    "$VENV/bin/python" -m compileall -qq -j 0 "$VENV/lib" || :
    install --no-deps --no-build-isolation -e "$ROOT"
  else
    say packages 'no requirements file for this Python: newest versions that setup.py allows'
    install --no-build-isolation -e "${ROOT}[$extras]"
  fi
  digest "$VENV/bin/python" "$lock" >"$VENV/stamp-$1"
  say ready "$VENV after $((SECONDS - began)) s"
}

# Whether the venv has all of a kind; the others contain what run needs.
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
    *) fail "$2 can not be added to an environment; addresses can." ;;
  esac
  case "$1" in
    run) extras=eval,viz ;;
    test | cuda | cuda12 | tpu) extras=eval,viz,$1 ;;
    *) fail "$1 is no kind of environment; there are run, test, cuda, cuda12 and tpu." ;;
  esac
  # One at a time; a file system without locks goes on without.
  if command -v flock >/dev/null; then
    exec 9<"$ROOT/launch/venv.sh"
    if ! flock -n 9; then
      say waiting 'for another launch script that installs packages'
      flock 9 || say waiting 'is not possible on this file system'
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

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  ready_venv "${1:-run}" "${2:-}"
fi
