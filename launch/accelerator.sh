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
#   ACCELERATOR   cpu, cuda, cuda12 or tpu: which packages the environment gets; if not
#                 set, by what is here: of NVIDIA's GPUs those for the driver's CUDA, 13
#                 from driver 580 on, else 12; AMD's are refused
#   VENV          the environment's folder, .venv if not set; made when it is missing
#   PYTHON_RUN    the interpreter to run instead of that environment's
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

# Says what the device that is here needs: cpu, cuda, cuda12 or tpu.
needed() {
  local driver
  if command -v nvidia-smi >/dev/null; then
    driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null || :)"
    driver="${driver%%.*}"
    case "$driver" in
      '' | *[!0-9]*) fail "accelerator.sh: nvidia-smi is here, but names no GPU with a driver; call it to see why. ACCELERATOR=cpu checks the CPU." ;;
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
    fail "accelerator.sh: this machine has AMD GPUs (ROCm), for which jepa_text has no kernels, no environment and no test. ACCELERATOR=cpu checks the CPU."
  else
    echo cpu
  fi
}

device="${ACCELERATOR:-$(needed)}"
kind="$(kind_of "$device")"
say device "$device"
# Without it jax takes the CPU where the device does not start, and says little.
case "$device" in
  cpu) platforms=cpu ;;
  tpu) platforms=tpu,cpu ;;
  *) platforms=cuda,cpu ;;
esac
export JAX_PLATFORMS="${JAX_PLATFORMS:-$platforms}"
cd "$ROOT"
python="${PYTHON_RUN:-$VENV/bin/python}"
if [ -z "${PYTHON_RUN:-}" ]; then ready_venv "$kind"; fi
exec "$python" -m jepa_text.planning.accelerator "$@"
