#!/usr/bin/env bash
# Builds Stint and shows it at work on real input: one job for every file of a folder, worked by
# two shell workers that return each file's SHA-256, while one worker and the broker are killed
# with `kill -9` half-way. Ends with a check of every result against sha256sum.
#
#   deploy/quickstart.sh [FOLDER] [--serve]
#
#   FOLDER   files to take, the first 5,000 regular ones (default: /usr/include)
#   --serve  leave the broker running and print how to talk to it
#
# With STINT_BIN set to a folder that holds stintd and stint, nothing is installed or built.
#
# It writes only to the build folder (and through apt, see install-deps.sh), and removes what the
# run itself wrote there. Exit code: 0 all results right, 1 something is missing or wrong, 2 this
# system or the arguments cannot be served.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
most_files=5000
lease=2s # short, so that the jobs of the killed worker are taken over while you watch
grace=3s # how long a restarted broker waits for each lease to be renewed
bin=${STINT_BIN-$root/build/dev/bin}

# One program, fixed here: the payload is a path and arrives on stdin, never in a command line,
# so that no file name can be mistaken for shell text. sha256sum's line is the job's result.
work_command='exec xargs -0 sha256sum -z --'

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }
fail() {
  printf 'quickstart: %s\n' "$@" >&2
  exit "${exit_code:-1}"
}

folder='' serve=no
for argument in "$@"; do
  case $argument in
    --serve) serve=yes ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    -*) exit_code=2 fail "unknown option '$argument'; usage: deploy/quickstart.sh [FOLDER] [--serve]" ;;
    *)
      [[ -z $folder ]] || exit_code=2 fail "two folders are given, '$folder' and '$argument'; it takes one"
      folder=$argument
      ;;
  esac
done
folder=${folder:-/usr/include}
[[ -d $folder ]] || exit_code=2 fail "'$folder' is not a folder; usage: deploy/quickstart.sh [FOLDER] [--serve]"
folder=$(cd "$folder" && pwd)

broker_pid='' worker_pids=() run='' done_well=no
clean_up() {
  local pids=("${worker_pids[@]}")
  [[ $serve == yes && $done_well == yes ]] || pids+=("$broker_pid")
  for pid in "${pids[@]}"; do
    if [[ -n $pid ]] && kill -9 "$pid" 2>/dev/null; then
      wait "$pid" 2>/dev/null || true
    fi
  done
  [[ -z $run || ($serve == yes && $done_well == yes) ]] || rm -rf "$run"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# --- Install and build -------------------------------------------------------------------------

if [[ -x $bin/stintd && -x $bin/stint ]]; then
  say "Stint quickstart: about 20 seconds (it was built before; changed sources are rebuilt)"
else
  say "Stint quickstart: the first run installs packages (1 minute) and compiles (4 minutes on two"
  say "free cores, up to 20 on a busy machine), then works for some 10 seconds; a second run takes"
  say "under 20 seconds"
fi
if [[ -n ${STINT_BIN-} ]]; then
  say "1/7, 2/7 nothing to install or build: STINT_BIN is $STINT_BIN"
else
  say "1/7 install what is missing"
  "$root/deploy/install-deps.sh" --build
  say "2/7 build stintd and stint"
  export CCACHE_DIR=${CCACHE_DIR-$root/build/ccache}
  [[ -e $root/build/dev/build.ninja ]] || (cd "$root" && cmake --preset dev --log-level=WARNING)
  cmake --build "$root/build/dev" -j "$(nproc)" --target stintd stint
fi
mkdir -p "$root/build"

# --- Start -------------------------------------------------------------------------------------

run=$(mktemp -d "$root/build/quickstart.XXXXXX")
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export STINT_ADDRESS=127.0.0.1:$port
stint=$bin/stint

show_logs() {
  for log in "$run"/*.log; do
    printf -- '--- last lines of %s\n' "${log##*/}" >&2
    tail -n 15 "$log" >&2
  done
}
start_broker() {
  setsid "$bin/stintd" --data-dir "$run/data" --listen "$STINT_ADDRESS" --http-listen none \
    --restart-grace "$grace" >>"$run/broker.log" 2>&1 </dev/null &
  broker_pid=$!
  local end=$((SECONDS + 20))
  until timeout 2 "$stint" health >/dev/null 2>&1; do
    if ! kill -0 "$broker_pid" 2>/dev/null || ((SECONDS >= end)); then
      show_logs
      fail "the broker did not start"
    fi
    sleep 0.05
  done
}
start_worker() {
  "$stint" work files --exec "$work_command" --concurrency 4 --lease "$lease" \
    >>"$run/worker$1.log" 2>&1 </dev/null &
  worker_pids[$1]=$!
}
kill_now() { # process id; says nothing about the death it caused
  kill -9 "$1"
  wait "$1" 2>/dev/null || true
}

say "3/7 start the broker on $STINT_ADDRESS, data in ${run#"$root/"}"
start_broker

# A path with a line break cannot be a line of a list; every other path can.
list=$run/files
find "$folder" -type f -readable ! -path $'*\n*' -print 2>/dev/null | sed "${most_files}q" >"$list" || true
total=$(wc -l <"$list")
left_out=$(find "$folder" -type f -readable -path $'*\n*' -printf x 2>/dev/null | wc -c) || true
((left_out == 0)) || say "    left out: $left_out with a line break in their path, which no line can hold"
((total > 0)) || exit_code=2 fail "there is no readable file under '$folder'"
say "4/7 enqueue $total jobs, one for each file under $folder"
"$stint" enqueue files --from-lines "$list" >/dev/null

# --- Work, with two murders --------------------------------------------------------------------

completed=0
read_completed() {
  local stats
  stats=$(timeout 5 "$stint" queues stats files --json 2>>"$run/stats.log") || return 0
  completed=$(sed -n 's/.*"completed": *"\{0,1\}\([0-9]*\).*/\1/p' <<<"$stats" | head -n 1)
  completed=${completed:-0}
}
wait_for() { # number of completed jobs; gives up when nothing completes for a minute
  local last=-1 end=$((SECONDS + 60))
  while read_completed && ((completed < $1)); do
    if ((completed != last)); then
      last=$completed
      end=$((SECONDS + 60))
    elif ((SECONDS >= end)); then
      show_logs
      fail "nothing was completed for a minute: $completed of $total jobs are done"
    fi
    sleep 0.1
  done
}

work_start=$SECONDS
say "5/7 two workers, 4 jobs at a time each, leases of $lease (default 15 s) to keep this short"
start_worker 1
start_worker 2
wait_for $((total / 2))
kill_now "${worker_pids[1]}"
say "    $completed of $total done: worker 1 killed with kill -9; it cannot say goodbye"
kill_now "$broker_pid"
if ((completed < total)); then
  say "    the broker killed with kill -9, in the middle of its writes"
else
  say "    the broker killed with kill -9; so few files were done before, take more to see it harder"
fi
start_broker
say "    the broker is back on the same data; worker 2 reconnects by itself"
start_worker 3
say "    worker 3 replaces worker 1; jobs that worker 1 held are taken over when their leases lapse"
wait_for "$total"
work_seconds=$((SECONDS - work_start))
say "6/7 all $total jobs are completed"

# --- Check -------------------------------------------------------------------------------------

say "7/7 check every result against sha256sum"
"$stint" jobs list files --all --view full --json >"$run/jobs.json"
tr '\n' '\0' <"$list" | xargs -0 sha256sum -z -- >"$run/expected"
check=0
python3 - "$run/jobs.json" "$run/expected" "$work_seconds" <<'PYTHON' || check=1
import base64, json, sys

def jobs_of(text):
    """The jobs of the CLI's answer: JSON documents, each a job or a page of them."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        document, position = decoder.raw_decode(text, position)
        pages = document if isinstance(document, list) else document.get("jobs", [document])
        yield from pages
        while position < len(text) and text[position].isspace():
            position += 1

def file_of(line):
    return line[66:]  # 64 digits, two blanks, then the path

expected = {file_of(line): line for line in open(sys.argv[2], "rb").read().split(b"\0") if line}
completed = taken_over = losses = wrong = 0
seen = set()
for job in jobs_of(open(sys.argv[1], encoding="utf-8").read()):
    path = base64.b64decode(job["spec"]["payload"])
    result = base64.b64decode(job.get("result", "")).rstrip(b"\0\n")
    lost = int(job.get("attempt", 1)) - 1 - int(job.get("failures", 0))
    losses += lost
    taken_over += lost > 0
    completed += job["state"].endswith("COMPLETED")
    if path in seen or result != expected.get(path):
        wrong += 1
    seen.add(path)
missing = len(set(expected) - seen)
good = not missing and not wrong and completed == len(expected)
for name, value in (
    ("files", len(expected)), ("jobs completed", completed),
    ("jobs taken over", f"{taken_over} (their worker was killed, another finished them)"
                        if taken_over else "0 (worker 1 held none when it was killed)"),
    ("losses", f"{losses} (leases that lapsed)"), ("seconds of work", sys.argv[3]),
    ("check", f"{missing} missing, {wrong} wrong: " + ("every result is right" if good else "FAILED")),
):
    print(f"    {name:<17} {value}")
sys.exit(0 if good else 1)
PYTHON
((check == 0)) || fail "results are missing or wrong; this must never happen, please report it"

done_well=yes
if [[ $serve == yes ]]; then
  say "done; the broker goes on. Talk to it:"
  cat <<TEXT
      export STINT_ADDRESS=$STINT_ADDRESS PATH=\$PATH:$bin
      stint queues stats files
      stint enqueue hello --payload world
      stint work hello --exec 'cat'
    Stop it and remove its data:
      kill $broker_pid; rm -r $run
TEXT
else
  say "done; everything the run wrote is removed. Keep a broker to play with: add --serve"
fi
