#!/usr/bin/env bash
# What the accelerator of this machine computes, and how fast: three checks, one JSON.
#
#   bash launch/accelerator.sh                           about four minutes
#   bash launch/accelerator.sh --seconds=20 --to=runs/short.json
#   bash launch/accelerator.sh --preset=toy             where 210m is too large
#
# Small programs against numpy; every attention backend against the reference, forward and
# backward; two minutes of training on the bundled corpus. No network is needed once the
# environment is there. The exit code is 1 if a check fails. --help says more.
#
#   ACCELERATOR   cpu, cuda or tpu: which packages the environment gets; if not set, cuda
#                 where nvidia-smi is, tpu where /dev/accel0 or /dev/vfio/0 is, else cpu
#   VENV          the environment's folder, .venv if not set; made when it is missing
#   PYTHON_RUN    the interpreter to run instead of that environment's
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
esac
found=cpu
if command -v nvidia-smi >/dev/null; then found=cuda; fi
if [ -e /dev/accel0 ] || [ -e /dev/vfio/0 ]; then found=tpu; fi
kind="$(kind_of "${ACCELERATOR:-$found}")"
cd "$ROOT"
python="${PYTHON_RUN:-$VENV/bin/python}"
if [ -z "${PYTHON_RUN:-}" ]; then ready_venv "$kind"; fi
exec "$python" -m jepa_text.planning.accelerator "$@"
