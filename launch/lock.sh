#!/usr/bin/env bash
# Writes launch/requirements/: all packages with versions and hashes, for each Python.
#
#   bash launch/lock.sh             keeps current versions that setup.py still allows
#   bash launch/lock.sh --upgrade   upgrades to the newest versions that it allows
#
# Needs uv (in the extra `dev`) and a package index. The files contain no index or path.
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

# lock OUTPUT PYTHON ARGUMENTS...: locks one version for all platforms and later Pythons.
lock() {
  local output="launch/requirements/$1" python=$2
  shift 2
  "$UV" pip compile --no-config --quiet --universal --fork-strategy fewest \
    --python-version "$python" --generate-hashes --no-emit-index-url \
    --no-emit-find-links --custom-compile-command 'bash launch/lock.sh' \
    --output-file "$output" "$@"
  echo "$output: $(grep -c '^[a-zA-Z0-9].*==' "$output") packages"
}

# Build tools, common to all. seqeval, which has no wheel, needs setuptools-scm.
printf 'pip>=25\nsetuptools>=77\nsetuptools-scm>=8\n' |
  lock build.txt 3.11 "$@" -
for python in 3.11 3.12; do
  tag="py${python/./}"
  lock "test-$tag.txt" "$python" --constraints launch/requirements/build.txt \
    --extra eval --extra viz --extra test "$@" setup.py
  # The same versions, so that one venv can be used for all kinds.
  for kind in run cuda cuda12 tpu; do
    extras=(--extra eval --extra viz)
    if [ "$kind" != run ]; then extras+=(--extra "$kind"); fi
    lock "$kind-$tag.txt" "$python" --constraints "launch/requirements/test-$tag.txt" \
      "${extras[@]}" "$@" setup.py
  done
  # S3 clients and servers need python-dateutil < 3; Beam needs numpy < 2.5, protobuf < 7,
  # pillow < 13 and pyarrow < 26. All other versions are the same. `addresses` is installed
  # into any of the above environments, the others into separate ones.
  for kind in 'addresses gs s3 https' 'remote test gs s3 https stores' 'beam test beam'; do
    read -r kind extras <<<"$kind"
    sed -n 's/^\([a-z0-9][^ ]*==[^ ]*\).*/\1/p' "launch/requirements/test-$tag.txt" |
      grep -Ev '^(python-dateutil|protobuf|pyarrow|pillow|numpy)==' >"$most"
    read -r -a extras <<<"eval viz $extras"
    lock "$kind-$tag.txt" "$python" --no-annotate --constraints "$most" \
      "${extras[@]/#/--extra=}" "$@" setup.py
  done
done
