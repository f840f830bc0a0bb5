#!/usr/bin/env bash
# Every shell script of ours passes shellcheck.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mapfile -d '' -t files < <(
  find . \( -path './build*' -o -name node_modules -o -path ./.git \) -prune -o \
    -type f \( -name '*.sh' -o -path './.ci/run' \) -print0
)
[[ ${#files[@]} -gt 0 ]] || { echo "shellcheck: found no scripts" >&2; exit 1; }
shellcheck "${files[@]}"
echo "shellcheck: ${#files[@]} scripts pass"
