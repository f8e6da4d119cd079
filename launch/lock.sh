#!/usr/bin/env bash
# Writes launch/requirements/: every package with version and hashes, for each Python.
#
#   bash launch/lock.sh             keeps the versions that setup.py still allows
#   bash launch/lock.sh --upgrade   takes the newest that it allows
#
# Needs uv (in the extra `dev`) and a package index; neither index nor path is written.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
UV="${UV:-$(command -v uv || echo "$ROOT/.venv/bin/uv")}"
if ! "$UV" --version >/dev/null 2>&1; then
  echo "lock.sh: uv is missing. pip install 'jepa-text[dev]', or set UV=/path/to/uv." >&2
  exit 2
fi
cd "$ROOT"
most="$(mktemp)"
trap 'rm -f "$most"' EXIT

# lock OUTPUT PYTHON ARGUMENTS...: one version for all platforms and later Pythons.
lock() {
  local output="launch/requirements/$1" python=$2
  shift 2
  "$UV" pip compile --no-config --quiet --universal --fork-strategy fewest \
    --python-version "$python" --generate-hashes --no-emit-index-url \
    --no-emit-find-links --custom-compile-command 'bash launch/lock.sh' \
    --output-file "$output" "$@"
  echo "$output: $(grep -c '^[a-zA-Z0-9].*==' "$output") packages"
}

# What installs the rest; the same for all. seqeval, which has no wheel, asks the last one
# for its version.
printf 'pip>=25\nsetuptools>=77\nsetuptools-scm>=8\n' |
  lock build.txt 3.11 "$@" -
for python in 3.11 3.12; do
  tag="py${python/./}"
  lock "test-$tag.txt" "$python" --constraints launch/requirements/build.txt \
    --extra eval --extra viz --extra test "$@" setup.py
  # The same versions, so that one venv serves all.
  for kind in run cuda cuda12 tpu; do
    extras=(--extra eval --extra viz)
    if [ "$kind" != run ]; then extras+=(--extra "$kind"); fi
    lock "$kind-$tag.txt" "$python" --constraints "launch/requirements/test-$tag.txt" \
      "${extras[@]}" "$@" setup.py
  done
  # Clients and servers of S3 want python-dateutil < 3, and Beam numpy < 2.5, protobuf < 7,
  # pillow < 13 and pyarrow < 26. Others are the same. All but `addresses`, which comes over
  # any of the above, are for environments of their own.
  for kind in 'addresses gs s3 https' 'remote test gs s3 https stores' 'beam test beam'; do
    read -r kind extras <<<"$kind"
    sed -n 's/^\([a-z0-9][^ ]*==[^ ]*\).*/\1/p' "launch/requirements/test-$tag.txt" |
      grep -Ev '^(python-dateutil|protobuf|pyarrow|pillow|numpy)==' >"$most"
    read -r -a extras <<<"eval viz $extras"
    lock "$kind-$tag.txt" "$python" --no-annotate --constraints "$most" \
      "${extras[@]/#/--extra=}" "$@" setup.py
  done
done
