# Sourced by what runs PyTorch beside ours: install_torch FOLDER makes a virtual environment there, unless it has one.
#
#     install_torch "$scratch/torch" || exit 0
#     "$scratch/torch/bin/python" bench/train/torch_step.py
install_torch() {  # install_torch FOLDER
  local pip=$1/bin/pip
  "$1/bin/python" -c 'import torch, numpy' 2>/dev/null && return
  python3 -m venv "$1" >/dev/null || return
  "$pip" install --quiet --no-cache-dir torch numpy || return
  "$1/bin/python" -c 'import torch, numpy'
}

# Memory that is freed stays with the process and lies in huge pages: without this PyTorch waits for the kernel.
torch_malloc=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184
