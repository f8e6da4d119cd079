# Creates the virtual environment of the launch scripts; sourced, or run with extras:
#
#   ready_venv                packages of the main job: the extras eval and viz
#   ready_venv test           also those of the tests
#   ready_venv cuda gs ray    also those of other extras of setup.py
#
# Creates or completes $VENV (by default ROOT/.venv) with the versions and hashes of
# launch/requirements/, and does nothing if they are installed and neither those files nor
# setup.py changed. PYTHON names the interpreter; by default it is a Python 3.12, else 3.13,
# else 3.11, on the PATH or among those that pyenv, uv, mise or asdf installed.
# shellcheck shell=bash

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/command_line.sh
source "$ROOT/launch/command_line.sh"
VENV="${VENV:-.venv}"
[[ "$VENV" = /* ]] || VENV="$ROOT/$VENV" # the scripts change to ROOT
MARK="$VENV/made-by-launch" # Only a folder with this file is ever deleted.

# These would make pip install elsewhere, or find packages outside of the venv.
unset PIP_USER PIP_TARGET PIP_PREFIX PYTHONHOME PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# Prints the version, as 3.12, of an interpreter that is new enough and can create venvs.
version_of() {
  "$1" -c '
import sys
import ensurepip, venv
assert sys.version_info >= (3, 11)
print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# Prints interpreters that may be Python $1: first those on the PATH, where the first may be
# a version manager's broken shim, then those that version managers installed.
interpreters() {
  local folder
  type -ap "python$1" python3 python || :
  for folder in "${PYENV_ROOT:-$HOME/.pyenv}/versions/" "$HOME/.asdf/installs/python/" \
    "$HOME/.local/share/mise/installs/python/" "$HOME/.local/share/uv/python/cpython-"; do
    compgen -G "$folder$1*/bin/python3" || :
  done
}

# Prints the first interpreter that is Python $1 and can create venvs; fails without one.
python_of() {
  local candidate IFS=$'\n'
  for candidate in $(interpreters "$1"); do
    if [ "$(version_of "$candidate")" = "$1" ]; then
      printf '%s' "$candidate"
      return
    fi
  done
  return 1
}

# Sets INTERPRETER to the one to use.
find_python() {
  local version
  if [ -n "${PYTHON:-}" ]; then
    version_of "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON does not run, is older than 3.11, or lacks the modules venv and ensurepip. Set PYTHON to another interpreter, or unset it."
    INTERPRETER=$PYTHON
    return
  fi
  for version in 3.12 3.13 3.11 3.14; do
    if INTERPRETER="$(python_of "$version")"; then return; fi
  done
  fail 'found no Python 3.11 or later that can create virtual environments. Install Python 3.12 (on Debian and Ubuntu also the package python3-venv), or set PYTHON=/path/to/python3.'
}

# Prints the file of versions and hashes for an interpreter; nothing if it has none.
lock_for() {
  case "$(version_of "$1")" in
    3.11) echo "$ROOT/launch/requirements/py311.txt" ;;
    3.12 | 3.13) echo "$ROOT/launch/requirements/py312.txt" ;;
  esac
}

# Prints a hash of all that an installation depends on: files, folder, interpreter.
digest() {
  "$1" - "$ROOT" "$ROOT/setup.py" "$(lock_for "$1")" <<'PYTHON'
import hashlib
import pathlib
import sys

total = hashlib.sha256(f'{sys.version} {sys.argv[1]}'.encode())
for path in filter(None, sys.argv[2:]):
    total.update(hashlib.sha256(pathlib.Path(path).read_bytes()).digest())
print(total.hexdigest())
PYTHON
}

# Whether the venv has the current packages of all extras given.
has() {
  local stamp="$VENV/installed" python="$VENV/bin/python" extra extras
  [ -f "$stamp" ] && "$python" -c '' 2>/dev/null || return 1
  [ "$(head -n 1 "$stamp")" = "$(digest "$python")" ] || return 1
  [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$python")" ] || return 1
  extras=" $(tail -n 1 "$stamp") "
  for extra in "$@"; do
    case "$extras" in *" $extra "*) ;; *) return 1 ;; esac
  done
}

# Runs pip; its output goes to a log whose end is shown after a failure.
install() {
  local log="$VENV/install.log"
  "$VENV/bin/python" -m pip install "$@" </dev/null >>"$log" 2>&1 && return
  tail -n 20 "$log" >&2
  fail "pip could not install the packages; see the end of its log above, or $log. Run the same command again to retry."
}

# Creates an environment $VENV with pip and what builds packages, instead of an older one.
make_venv() {
  local lock
  find_python
  say python "$("$INTERPRETER" -c 'import platform; print(platform.python_version())')  $INTERPRETER"
  if [ -e "$VENV" ] && [ ! -e "$MARK" ]; then
    fail "$VENV exists but was not created by this script. Move it away, or set VENV to another folder."
  fi
  rm -rf "$VENV"
  mkdir -p "$VENV"
  touch "$MARK"
  "$INTERPRETER" -m venv "$VENV" || fail "$INTERPRETER could not create a virtual environment in $VENV; see its output above."
  lock="$(lock_for "$VENV/bin/python")"
  if [ -n "$lock" ]; then
    # First pip itself, as older ones take no hashes from a file of constraints.
    awk '/^[a-z]/ { ours = /^pip==/ } ours' "$lock" >"$VENV/wanted.txt"
    install --require-hashes --requirement "$VENV/wanted.txt"
  fi
  printf '%s\n' setuptools setuptools-scm >"$VENV/wanted.txt"
  install ${lock:+--require-hashes --constraint "$lock"} --requirement "$VENV/wanted.txt"
}

# Prints the requirements of the package and of the extras given.
requirements_of() {
  "$VENV/bin/python" - "$ROOT/setup.py" "$@" <<'PYTHON'
import runpy
import setuptools
import sys

given, wanted = {}, sys.argv[2:]
setuptools.setup = lambda **all_given: given.update(all_given)
runpy.run_path(sys.argv[1])
extras = given['extras_require']
if unknown := ' '.join(sorted({*wanted} - {*extras})):
    sys.exit(f'\njepa-text: there is no extra {unknown}; use some of {", ".join(extras)}.')
for lines in (given['install_requires'], *map(extras.get, wanted)):
    print(*lines, sep='\n')
PYTHON
}

install_extras() {
  local lock began=$SECONDS
  requirements_of "$@" >"$VENV/wanted.txt"
  lock="$(lock_for "$VENV/bin/python")"
  if [ -n "$lock" ]; then
    say packages "with the hashes of ${lock##*/} (minutes the first time)"
    # Wheels only, so that no foreign code runs during installation; two have no wheel.
    install --require-hashes --constraint "$lock" --only-binary :all: \
      --no-binary promise,seqeval --no-build-isolation --no-compile \
      --requirement "$VENV/wanted.txt"
    # Compiles on all cores, unlike pip. Files with syntax of other Pythons may fail.
    "$VENV/bin/python" -m compileall -qq -j 0 "$VENV/lib" || :
  else
    say packages 'no requirements file for this Python: installing the newest versions that setup.py allows'
    install --no-build-isolation --requirement "$VENV/wanted.txt"
  fi
  install --no-deps --no-build-isolation -e "$ROOT"
  printf '%s\n%s\n' "$(digest "$VENV/bin/python")" "$*" >"$VENV/installed"
  say ready "$VENV after $((SECONDS - began)) s"
}

ready_venv() {
  local extras=(eval viz "$@")
  # One installation at a time, if the file system supports locks.
  if command -v flock >/dev/null; then
    exec 9<"$ROOT/launch/venv.sh"
    if ! flock -n 9; then
      say waiting 'for another launch script that is installing packages'
      flock 9 || say waiting 'is not possible: the file system has no locks'
    fi
  fi
  if ! has "${extras[@]}"; then
    if has; then
      read -r -a extras <<<"$(tail -n 1 "$VENV/installed") $*"
    else
      make_venv
    fi
    install_extras "${extras[@]}"
  fi
  if command -v flock >/dev/null; then exec 9<&-; fi
}

# run_marked MARKERS RESULTS PACKAGES ARGUMENTS...: runs the tests with markers, and writes
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
  ready_venv "$@"
fi
