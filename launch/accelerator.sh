#!/usr/bin/env bash
# Checks the accelerator of this machine, then times training steps on it.
#
#   bash launch/accelerator.sh
#   bash launch/accelerator.sh --config.model.preset=610m --config.rows=8
#
# The checks are `pytest -m accelerator`: small programs against numpy, every attention
# backend against the reference, a short training against the CPU, memory against the plan.
# Then `jepa-text benchmark` times steps of 210m (on a CPU, of a small model), also of
# transformers where that is installed; arguments are passed to it. See
# docs/guides/planning.md.
#
#   ACCELERATOR   cpu, cuda, cuda12 or tpu: packages of the environment; by default detected:
#                 for NVIDIA GPUs, CUDA 13 with driver 580 or later, otherwise CUDA 12;
#                 AMD GPUs are not supported
#   WORKDIR       folder of benchmark.json, by default runs/accelerator
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
if [ -z "${PYTHON_RUN:-}" ]; then ready_venv test "$extra"; fi

export ACCELERATOR="$device" JAX_DISABLE_MOST_OPTIMIZATIONS="${JAX_DISABLE_MOST_OPTIMIZATIONS:-0}"
export XLA_FLAGS="${XLA_FLAGS:-}"
"$python" -m pytest -m accelerator -rs tests/planning/test_accelerator.py

cases=objectives
if "$python" -c 'import torch, transformers' 2>/dev/null; then cases=peer; fi
size=()
if [ "$device" != cpu ]; then
  for setting in model.preset=210m model.dtype=bfloat16 vocab_size=128256 row_length=2048 rows=16; do
    # A key may be given once.
    case " $*" in *" --config.${setting%%=*}="*) ;; *) size+=("--config.$setting") ;; esac
  done
fi
"$python" -m jepa_text.main benchmark --config="configs/benchmark.py:$cases" \
  --workdir="${WORKDIR:-runs/accelerator}" "${size[@]}" "$@"
