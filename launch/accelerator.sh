#!/usr/bin/env bash
# Is the accelerator of this machine right, and how fast is it? One JSON, and one page.
#
#   bash launch/accelerator.sh                     ten minutes; three on a CPU
#   bash launch/accelerator.sh --minutes=30        and more of the speeds
#   bash launch/accelerator.sh --sizes=tiny,toy    where 210m is too large
#   bash launch/accelerator.sh --to=runs/here.json --peer-python=/usr/bin/python3
#
# Small programs against numpy; every attention backend against the reference; a short run
# against the CPU's; tokens/s and MFU of steps, beside transformers where an interpreter
# has it; a trace; the training loop. What fails stops nothing; the exit code is then 1.
# No network is needed once the environment is there. docs/guides/planning.md says more.
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
