#!/usr/bin/env bash
# Runs clang-tidy (see .clang-tidy) on every source of ours whose includes are cheap; gRPC, RocksDB
# and Asio would cost ten seconds a file. Their headers are seen through the others that use them.
#   clang_tidy_test.sh BUILD-FOLDER
# A file that passed is not judged again until it, a header of ours or a rule changes.
set -euo pipefail
build=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t sources < <(
  find storage server client -name '*.cc' -not -path '*/node_modules/*' | sort |
    xargs grep -LE '#include [<"](grpc|rocksdb/|boost/|stint/v1/.*\.grpc\.pb\.h)'
)
[[ ${#sources[@]} -gt 0 ]] || { echo "clang_tidy: found no sources" >&2; exit 1; }

passed=$build/clang-tidy-passed
mkdir -p "$passed"
headers=$(find storage server client sync -name '*.h' -print0 | sort -z | xargs -0 cat .clang-tidy | sha256sum)
export build passed headers

judge() {
  local stamp
  stamp=$passed/$({ echo "$1 $headers"; cat "$1"; } | sha256sum | cut -d' ' -f1)
  [[ -e $stamp ]] && return
  clang-tidy-14 --quiet -p "$build" "$1" 2>&1 && touch "$stamp"
}
export -f judge

# shellcheck disable=SC2016 # the inner shell expands it
if printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -n 1 bash -c 'judge "$1"' judge; then
  echo "clang_tidy: ${#sources[@]} sources pass"
else
  exit 1
fi
