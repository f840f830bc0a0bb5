#!/usr/bin/env bash
# Every C++ file of ours is laid out as .clang-format says. To repair:
#   clang-format-14 -i FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mapfile -d '' -t files < <(
  find storage server client sync tests bench -path '*/node_modules' -prune -o \
    \( -name '*.cc' -o -name '*.h' \) -print0 2>/dev/null
)
[[ ${#files[@]} -gt 0 ]] || { echo "format: found no files" >&2; exit 1; }
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 20 clang-format-14 --dry-run -Werror
echo "format: ${#files[@]} files are as .clang-format says"
