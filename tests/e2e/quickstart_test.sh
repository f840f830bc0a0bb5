#!/usr/bin/env bash
# The quickstart on a small folder whose file names are as bad as they get: every result is right,
# nothing is run that a file name says, nothing is left behind.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder="$work/in put"
mkdir "$folder"
cd "$folder"
# shellcheck disable=SC2016 # nothing in these names may be expanded
names=("a b'\"c" -n "--help" '$(touch ran)' $'\xff\xfe' 'back\slash' ';touch ran;' '`touch ran`')
for name in "${names[@]}"; do
  printf 'content of %s' "$name" >"./$name"
done
: >empty
for number in {1..91}; do
  echo "$number" >"file $number"
done
printf 'not taken: its path is two lines' >$'line\nbreak'
mkfifo pipe # not a regular file: reading it would never end

left_before=$(find "$STINT_SOURCE/build" -maxdepth 1 -name 'quickstart.*' | wc -l)
"$STINT_SOURCE/deploy/quickstart.sh" "$folder" | tee "$work/output"
left_after=$(find "$STINT_SOURCE/build" -maxdepth 1 -name 'quickstart.*' | wc -l)

expect() {
  grep -qE -- "$1" "$work/output" || { echo "the output does not say: $1" >&2; exit 1; }
}
expect 'files +100$'
expect 'jobs completed +100$'
expect 'check +0 missing, 0 wrong: every result is right'
[[ ! -e $folder/ran ]] || { echo "a file name was run as a command" >&2; exit 1; }
((left_before == left_after)) || { echo "a data folder was left in build/" >&2; exit 1; }
