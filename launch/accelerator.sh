#!/usr/bin/env bash
# Checks and benchmarks the accelerator of this machine; writes a JSON file and a page.
#
#   bash launch/accelerator.sh                     takes 10 minutes; 3 on a CPU
#   bash launch/accelerator.sh --minutes=30        measures more speeds
#   bash launch/accelerator.sh --sizes=tiny,toy    if 210m is too large
#   bash launch/accelerator.sh --to=runs/here.json --peer-python=/usr/bin/python3
#
# Compares small programs with numpy, every attention backend with the reference, and a
# short run with the CPU; measures tokens/s and MFU of steps, also of transformers if an
# interpreter has it; records a trace; runs the training loop. A failed check does not
# stop the others; the exit code is then 1. Needs no network once the environment exists.
# See docs/guides/planning.md.
#
#   ACCELERATOR   cpu, cuda, cuda12 or tpu: packages of the environment; by default detected:
#                 for NVIDIA GPUs, CUDA 13 with driver 580 or later, otherwise CUDA 12;
#                 AMD GPUs are not supported
#   VENV          folder of the environment, by default .venv; created if missing
#   PYTHON_RUN    Python interpreter to use instead of the environment's
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/venv.sh
source "$ROOT/launch/venv.sh"
for word in "$@"; do
  case "$word" in
    -h | --help)
      usage
      exit 0
      ;;
  esac
done

# Prints the ACCELERATOR for this machine's device: cpu, cuda, cuda12 or tpu.
needed() {
  local driver
  if command -v nvidia-smi >/dev/null; then
    driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null || :)"
    driver="${driver%%.*}"
    case "$driver" in
      '' | *[!0-9]*) fail "accelerator.sh: nvidia-smi is installed, but names no GPU with a driver. Run it to see why, or set ACCELERATOR=cpu to check the CPU." ;;
    esac
    if [ "$driver" -ge 580 ]; then
      echo cuda
    elif [ "$driver" -ge 525 ]; then
      echo cuda12
    else
      fail "accelerator.sh: NVIDIA's driver is $driver; jax needs 525 or later for CUDA 12, 580 for CUDA 13. Update it, or set ACCELERATOR=cpu."
    fi
  elif [ -e /dev/accel0 ] || [ -e /dev/vfio/0 ]; then
    echo tpu
  elif [ -e /dev/kfd ] || command -v rocm-smi >/dev/null; then
    fail "accelerator.sh: this machine has AMD GPUs (ROCm), for which jepa_text has no kernels, environment or tests. Set ACCELERATOR=cpu to check the CPU."
  else
    echo cpu
  fi
}

device="${ACCELERATOR:-$(needed)}"
extra="$(extra_of "$device")"
say device "$device"
# Without JAX_PLATFORMS, jax silently falls back to the CPU if the device fails to start.
case "$device" in
  cpu) platforms=cpu ;;
  tpu) platforms=tpu,cpu ;;
  *) platforms=cuda,cpu ;;
esac
export JAX_PLATFORMS="${JAX_PLATFORMS:-$platforms}"
cd "$ROOT"
python="${PYTHON_RUN:-$VENV/bin/python}"
if [ -z "${PYTHON_RUN:-}" ]; then ready_venv "$extra"; fi
exec "$python" -m jepa_text.planning.accelerator "$@"
