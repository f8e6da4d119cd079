#!/usr/bin/env bash
# Writes launch/requirements/: the packages of all extras but kernels and dev, with versions
# and hashes, a file for Python 3.11 and one for later ones, whose jax is newer.
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
extras=(eval viz test cuda cuda12 tpu gs s3 https stores ray hf)
for python in 3.11 3.12; do
  output="launch/requirements/py${python/./}.txt"
  # Build tools too: seqeval, which has no wheel, needs setuptools-scm.
  printf 'pip>=25\nsetuptools>=77\nsetuptools-scm>=8\n' |
    "$UV" pip compile --no-config --quiet --universal --fork-strategy fewest \
      --python-version "$python" --generate-hashes --no-annotate --no-emit-index-url \
      --no-emit-find-links --custom-compile-command 'bash launch/lock.sh' \
      "${extras[@]/#/--extra=}" --output-file "$output" "$@" setup.py -
  echo "$output: $(grep -c '^[a-zA-Z0-9].*==' "$output") packages"
done
