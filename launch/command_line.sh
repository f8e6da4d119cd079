# Command-line parsing and output of the launch scripts; to be sourced after ROOT is set.
#
#   read_command "$@"    parses [--dry-run] COMMAND --config=... --workdir=...
#   needs PROGRAM HOW    exits with code 2 unless the program is installed
#   perform WORDS...     runs a command, or prints it with --dry-run
#   become WORDS...      like perform, but replaces the script's process
#
# shellcheck shell=bash

: "${ROOT:?source this from a launch script}"

say() { printf 'jepa-text  %-10s %s\n' "$1" "$2"; }

fail() {
  printf '\njepa-text: %s\n' "$1" >&2
  exit 2
}

# Prints the comment at the top of the calling script.
usage() { sed -n -e 1d -e '/^#\( .*\)\{0,1\}$/!q' -e 's/^# \{0,1\}//p' "$ROOT/launch/${0##*/}"; }

# Sets the array COMMAND; DRY to 'yes' or ''; WORKDIR to its --workdir, and if that is an
# address, AT to its bucket, as gs://bucket; ADDRESSES to the extras with
# clients of addresses if an argument contains one. Checks early what would fail much later.
# shellcheck disable=SC2034 # used by callers
read_command() {
  local word config=''
  COMMAND=() DRY='' WORKDIR='' AT='' ADDRESSES=''
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
      --workdir=?*) WORKDIR=${word#*=} ;;
    esac
    case "$word" in *gs://* | *s3://* | *https://*) ADDRESSES='gs s3 https' ;; esac
  done
  if [[ "$WORKDIR" =~ ^((gs|s3)://[^/]+)/. ]]; then AT=${BASH_REMATCH[1]}; fi
  case "${0##*/}:${COMMAND[0]:-}" in
    *: | *:-*) fail "${0##*/}: no COMMAND. Pass it as to jepa-text: train toy:mlm --workdir=runs/first. See --help." ;;
    local.sh:*) return ;; # on this machine, jepa-text itself says at once what is missing
    *:export) ;; # uses the config of a run
    *)
      # The config may be the first word after the command, as for jepa-text.
      case "${COMMAND[1]:-}" in '' | -*) ;; *) config=${COMMAND[1]} ;; esac
      case " ${COMMAND[*]}" in *' --model='*) config=${config:-${COMMAND[0]}} ;; esac
      [ -n "$config" ] || fail "${0##*/}: the config is missing. Pass the name of a shipped one or a file: ${COMMAND[0]} toy:mlm --workdir=runs/first."
      has_config "${config%%:*}"
      ;;
  esac
  # `plan` writes nothing.
  [ -n "$WORKDIR" ] || [ "${COMMAND[0]}" = plan ] || fail "${0##*/}: --workdir is missing. Pass the folder to write to, as --workdir=runs/first."
}

# Exits unless the config $1 is where COMMAND reads it.
has_config() {
  local script=${0##*/} file=$1
  case "$script:$file" in
    gke.sh:/data/*.py | sky.sh:/data/*.py) return ;; # cannot be seen from here
    docker.sh:/data/*.py) file="$DATA/${file#/data/}" ;;
    *:configs/*.py) file="$ROOT/$file" ;;
    docker.sh:*.py | gke.sh:*.py) fail "$script: config file $1 is not in the container, which has those of configs/ when its image was built, and /data." ;;
    *:/*) ;;
    *:*.py) file="$ROOT/$file" ;;
    *) file="$ROOT/configs/$file.py" ;;
  esac
  [ -f "$file" ] || fail "$script: config file $file does not exist. Paths are relative to the repository."
}

# Exits if $2, the value of the variable named $1, is more than one node, unless COMMAND is
# `train`, the only one whose processes join. $3 runs members on several nodes.
one_node() {
  case "$2:${COMMAND[0]}" in
    1:* | *:train) ;;
    *) fail "${0##*/}: $1=$2 with ${COMMAND[0]}, which would run as often; only train joins several nodes. Unset $1; for members of study, evaluate and analyze on several nodes, use $3." ;;
  esac
}

# Exits unless what COMMAND writes is below /data, the persistent storage $1, or at an address
# that it can write to. What it reads is found missing by jepa-text.
in_data() {
  local word addresses="below /data, which is $1" stores=none
  case "${COMMAND[0]}" in
    train | finetune | tokenizer) stores='gs' addresses+=', or at gs://' ;;
    prepare | export) stores='gs|s3' addresses+=', or at gs:// or s3://' ;;
  esac
  for word in "${COMMAND[@]}"; do
    case "${COMMAND[0]}:$word" in
      *:--*=/data/?* | export:--workdir=*) ;; # which export reads
      *:--workdir=* | *:--to=*)
        [[ "$word" =~ =($stores)://[^/]*/. ]] || fail "${0##*/}: $word is lost with the machine, or not a place that ${COMMAND[0]} writes to. Use a folder $addresses: ${word%%=*}=/data/first."
        ;;
    esac
  done
}

# Prints a command with shell quoting where needed.
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

# With exec, signals reach the program, and the script has its exit code.
become() {
  if [ -z "$DRY" ]; then exec "$@"; fi
  quoted "$@"
}

# Waits for a child and sets CODE to its exit code. A trapped signal interrupts `wait`, but
# not the child; if that ends while the trap runs, its code is still to be asked for.
# shellcheck disable=SC2034 # used by the caller
await() {
  local asked
  while :; do
    CODE=0
    wait "$1" || CODE=$?
    kill -0 "$1" 2>/dev/null || break
  done
  asked=0
  wait "$1" 2>/dev/null || asked=$?
  # 127: `wait` has already given the code.
  [ "$asked" = 127 ] || CODE=$asked
}

# Exits unless $2, the value of the variable named $1, is a whole number above 0.
positive() {
  case "$2" in '' | 0* | *[!0-9]*) fail "${0##*/}: $1=$2 is not a whole number above 0." ;; esac
}

# Prints the extra that ACCELERATOR (cpu, cuda, cuda12 or tpu) needs.
extra_of() {
  case "$1" in
    cpu) printf eval ;; # part of every environment
    cuda | cuda12 | tpu) printf %s "$1" ;;
    *) fail "${0##*/}: unknown ACCELERATOR=$1; use cpu, cuda, cuda12 or tpu." ;;
  esac
}
