# What the launch scripts read and print; sourced, after ROOT is set.
#
#   read_command "$@"    [--dry-run] COMMAND --config=... --workdir=... into COMMAND, DRY
#   needs PROGRAM HOW    ends with exit code 2 unless the program is there
#   perform WORDS...     runs them; after --dry-run prints them instead
#   become WORDS...      the same, in place of the script, at its end
#
# shellcheck shell=bash

: "${ROOT:?source this from a launch script}"

say() { printf 'jepa-text  %-10s %s\n' "$1" "$2"; }

fail() {
  printf '\njepa-text: %s\n' "$1" >&2
  exit 2
}

# The comment at the top of the script that was called.
usage() { sed -n -e 1d -e '/^#\( .*\)\{0,1\}$/!q' -e 's/^# \{0,1\}//p' "$ROOT/launch/${0##*/}"; }

# Sets the array COMMAND, DRY to 'yes' or '', and ADDRESSES to 'addresses' where a word has
# one whose client is no part of every environment. Looks at what would fail much later.
read_command() {
  local word config='' workdir=''
  COMMAND=() DRY='' ADDRESSES=''
  for word in "$@"; do
    case "$word" in
      --dry-run) DRY=yes ;;
      -h | --help)
        usage
        exit 0
        ;;
      *) COMMAND+=("$word") ;;
    esac
    case "$word" in
      --config=?*) config=${word#*=} ;;
      --workdir=?*) workdir=${word#*=} ;;
    esac
    # shellcheck disable=SC2034 # callers read it
    case "$word" in *gs://* | *s3://* | *https://*) ADDRESSES=addresses ;; esac
  done
  case "${COMMAND[0]:-}" in
    '' | -*) fail "${0##*/}: no COMMAND. Write it as for jepa-text: train --config=configs/toy.py:mlm --workdir=runs/first; --help says more." ;;
  esac
  case "${COMMAND[0]}" in
    export) config=-- ;; # Its run knows it.
    plan) workdir=-- ;;  # It writes nothing.
  esac
  [ -n "$config" ] || fail "${0##*/}: --config is missing: a config file, as --config=configs/toy.py:mlm."
  [ -n "$workdir" ] || fail "${0##*/}: --workdir is missing: the folder to write to, as --workdir=runs/first."
  [ "$config" != -- ] || return 0
  config=${config%%:*}
  case "$config" in /*) ;; *) config="$ROOT/$config" ;; esac
  [ -f "$config" ] || fail "${0##*/}: config file $config does not exist. Paths are relative to the repository."
}

# Sets WORKDIR to that of COMMAND, and AT to its bucket, as gs://bucket, where it is an
# address.
read_workdir() {
  local word
  WORKDIR='' AT=''
  for word in "${COMMAND[@]}"; do
    case "$word" in --workdir=*) WORKDIR=${word#*=} ;; esac
  done
  if [[ "$WORKDIR" =~ ^((gs|s3)://[^/]+)/. ]]; then AT=${BASH_REMATCH[1]}; fi
}

# Ends unless WORKDIR is an address or lies below /data, which is WHAT and stays.
in_data() {
  [ -z "$AT" ] || return 0
  case "$WORKDIR" in
    /data/?*) ;;
    *) fail "${0##*/}: --workdir=$WORKDIR is lost with the machine. Put it below /data, which is $1, as --workdir=/data/first, or at an address, as --workdir=gs://bucket/first." ;;
  esac
}

# Ends unless COMMAND is one that WORKERS of one folder may share.
shared_by_workers() {
  case "${COMMAND[0]}" in
    evaluate | study) ;;
    *) fail "${0##*/}: WORKERS is of evaluate and study, whose members are claimed one by one; ${COMMAND[0]} needs a folder for each task$1." ;;
  esac
}

# Prints words so that a shell reads them back; only those that need it are quoted.
quoted() {
  local word text=''
  for word in "$@"; do
    case "$word" in
      '' | *[!a-zA-Z0-9_@%+=:,./-]*) text+=" $(printf %q "$word")" ;;
      *) text+=" $word" ;;
    esac
  done
  printf '%s\n' "${text# }"
}

needs() {
  [ -n "$DRY" ] || command -v "$1" >/dev/null || fail "${0##*/}: $1 is missing. $2"
}

perform() {
  if [ -n "$DRY" ]; then quoted "$@"; else "$@"; fi
}

# A signal then reaches the program, and its exit code is the script's.
become() {
  if [ -z "$DRY" ]; then exec "$@"; fi
  quoted "$@"
}

# Sets CODE to the exit code of a child. A trapped signal ends `wait`, not the child.
# shellcheck disable=SC2034 # the caller reads it
await() {
  while :; do
    CODE=0
    wait "$1" || CODE=$?
    kill -0 "$1" 2>/dev/null || return 0
  done
}

# A whole number of at least 1, or the end.
positive() {
  case "$2" in '' | 0* | *[!0-9]*) fail "${0##*/}: $1=$2 is not a whole number above 0." ;; esac
}

# cpu, cuda, cuda12 or tpu to the kind of environment that launch/venv.sh makes.
kind_of() {
  case "$1" in
    cpu) printf run ;;
    cuda | cuda12 | tpu) printf %s "$1" ;;
    *) fail "${0##*/}: ACCELERATOR=$1; there are cpu, cuda, cuda12 and tpu." ;;
  esac
}
