#!/bin/bash
# Tests and measures on a machine's first GPU. It runs in the folder that gpu_folder.sh makes, from
# anywhere, and needs nothing else but NVIDIA's driver and NVRTC.
#
#   OUT=DIR         where results.jsonl, results.md and logs.tar.gz go: ./results
#   PARTS="..."     of: tests sanitizer training figures
#   MNIST=DIR       the full data set; without it, and where the folder has none, the bundled part
#   PEAK_TFLOPS=N   the card's matrix rate in f32, where it is not in the list below
#   STEPS=N         steps of training: 20000;  LEAST=0.99  the accuracy that they must reach
#   BENCH_STEPS=N   measured steps of a benchmark: 200
#   BATCHES="..."   images in a step of a benchmark: 50 1024
#   COPY_MB=N       MiB of each copy that is measured: 1024
#   TESTS="..."     PROGRAM/MODULE of tests
#   SECONDS_EACH=N  the most seconds that a program may take: 1200
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
parts=${PARTS:-tests sanitizer training figures}
tests=${TESTS:-gpu/sessions gpu/steps gpu/training gpu/random_graphs engine/gradients}
steps=${STEPS:-20000}
bench_steps=${BENCH_STEPS:-200}
batches=${BATCHES:-50 1024}
copy_mb=${COPY_MB:-1024}
seconds_each=${SECONDS_EACH:-1200}
mnist=${MNIST:-}
export REQUIRE_GPU=1 THALWEG_ROOT=$here

stop() {
    echo "gpu.sh: $1" >&2
    exit 1
}

[ -f "$here/bin.tar.gz" ] ||
    stop "there is no $here/bin.tar.gz: make a folder by tests/gpu_folder.sh OUT, and run the gpu.sh that is there"
[ -z "$mnist" ] || [ -d "$mnist" ] || stop "MNIST names $mnist, and there is no such folder"
mkdir -p "${OUT:-results}"
out=$(cd "${OUT:-results}" && pwd)
work=$(mktemp -d)
tar -xzf "$here/bin.tar.gz" -C "$work"
bin=$work/bin logs=$work/logs
mkdir "$logs"
# What is compiled is compiled anew: that it can be is a part of what is tested.
export THALWEG_CACHE=$work/cache
finished= child= md=
pack() {
    [ -z "$md" ] || [ -n "$finished" ] || say "Stopped early: what is above is not all."
    tar -czf "$out/logs.tar.gz" -C "$work" logs
    rm -rf "$work"
}
trap pack EXIT
# A limit on the whole leaves what has been found until then.
trap '[ -z "$child" ] || { kill "$child"; wait "$child"; } || true; exit 143' TERM INT

# NVRTC and others are where pip or the toolkit puts them. Those of pip come first: they are of one
# release, while a toolkit may be older than its neighbours. Only our programs see these folders:
# PyTorch brings its own.
libraries=
for folder in $(python3 -c 'import glob, site
for s in site.getsitepackages() + [site.getusersitepackages()]:
    print(*glob.glob(s + "/nvidia/*/lib"))' 2> "$logs/python.log" || true) \
    /usr/lib/python3*/site-packages/nvidia/*/lib /usr/local/cuda/lib64; do
    [ ! -d "$folder" ] || libraries=$libraries$folder:
done
libraries=$libraries${LD_LIBRARY_PATH:-}

LD_LIBRARY_PATH=$libraries "$bin/gpu_floors" --describe > "$logs/card.txt" || stop "it needs a GPU that works, and there is none: see above"

jsonl=$out/results.jsonl
md=$out/results.md
: > "$jsonl"
: > "$md"
failures=0

say() {
    printf '%s\n' "$1" | tee -a "$md"
}

# A string of JSON.
quoted() {
    printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr '\n\t' '  ')"
}

# Notes what was done, whether it went well, and in how many seconds.
note() {
    printf '{"what":%s,"result":%s,"seconds":%s,"note":%s}\n' \
        "$(quoted "$1")" "$(quoted "$2")" "$3" "$(quoted "$4")" >> "$jsonl"
    say "| $1 | $2 | $3 | $4 |"
    if [ "$2" = FAILED ]; then failures=$((failures + 1)); fi
}

# Runs a program with its output in a file: `attempt NAME FILE COMMAND...`, and notes it where it fails.
attempt() {
    local name=$1 file=$2 start=$SECONDS status=0
    shift 2
    # Waited for and not called: a signal to this script is then heeded at once.
    LD_LIBRARY_PATH=$libraries timeout "$seconds_each" "$@" > "$file" 2> "$file.err" &
    child=$!
    wait "$child" || status=$?
    child=
    taken=$((SECONDS - start))
    [ "$status" -ne 0 ] || return 0
    tail -n 40 "$file" "$file.err" >&2
    local why="exit status $status, see $(basename "$file")"
    [ "$status" -ne 124 ] || why="stopped after $seconds_each s"
    note "$name" FAILED "$taken" "$why"
    return 1
}

wants() {
    [[ " $parts " == *" $1 "* ]]
}

# The value of a workload in a file of JSON lines; nothing where it has none.
value() {
    sed -nE 's/.*"workload": ?"'"$2"'".*"value": ?([0-9.eE+-]+).*/\1/p' "$1" | head -n 1
}

calculate() {
    awk "BEGIN { printf \"%.6g\", ($1) }"
}

header() {
    say ""
    say "## $1"
    say ""
    say "$2"
    say "$(sed -E 's/[^|]+/---/g' <<< "$2")"
}

about() {
    local machine commit driver="not there"
    machine="$(uname -srm), $(nproc) processors, $(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1)"
    if command -v nvidia-smi > "$logs/which.log"; then
        driver=$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader 2>&1 || true)
    fi
    commit=$(cat "$here/commit")
    printf '{"machine":%s,"nvidia_smi":%s,"card":%s,"commit":%s,"date":%s}\n' "$(quoted "$machine")" \
        "$(quoted "$driver")" "$(quoted "$(cat "$logs/card.txt")")" "$(quoted "$commit")" \
        "$(quoted "$(date -u +%FT%TZ)")" >> "$jsonl"
    say "# On a GPU, $(date -u +%F)"
    say ""
    say "- machine: $machine"
    say "- nvidia-smi: $driver"
    while read -r line; do say "- $line"; done < "$logs/card.txt"
    say "- commit: $commit"
    say "- parts: $parts"
}

run_tests() {
    header "Tests" "| what | result | seconds | note |"
    local test file
    for test in $tests; do
        file=$logs/${test/\//_}.txt
        if attempt "$test" "$file" "$bin/${test%/*}" "${test#*/}::" --nocapture; then
            # A test that is skipped passes: here none may be.
            if grep -q SKIPPED "$file"; then
                note "$test" FAILED "$taken" "a test was skipped, see $(basename "$file")"
            else
                note "$test" passed "$taken" "$(grep -o '[0-9]* passed' "$file" | tail -n 1)"
            fi
        fi
    done
}

run_sanitizer() {
    header "compute-sanitizer" "| what | result | seconds | note |"
    if ! command -v compute-sanitizer > "$logs/which.log"; then
        note "op table" skipped 0 "there is no compute-sanitizer"
        return
    fi
    if attempt "op table, memcheck" "$logs/memcheck.txt" \
        compute-sanitizer --tool memcheck --error-exitcode 99 "$bin/gpu" sessions:: --test-threads 1; then
        note "op table, memcheck" passed "$taken" "$(grep 'ERROR SUMMARY' "$logs/memcheck.txt" | tail -n 1)"
    fi
}

run_training() {
    header "Training deep MNIST" "| what | result | seconds | note |"
    local data=${mnist:-$here/data/full_mnist} least=0.99 which="all images"
    if [ ! -d "$data" ]; then
        # A sixth of the images does not reach as far.
        data=$here/data/mnist least=0.975 which="the bundled 10,000 images, of which less is asked: MNIST=DIR names all"
    fi
    least=${LEAST:-$least}
    for layout in NHWC NCHW; do
        local file=$logs/train_$layout.txt name="deep MNIST, $layout, $steps steps"
        attempt "$name" "$file" "$bin/deep_mnist" --device /gpu:0 --train-steps "$steps" \
            --data-format $layout --data-dir "$data" --json || continue
        local accuracy speed result=passed
        accuracy=$(value "$file" deep_mnist_test_accuracy)
        speed=$(value "$file" "deep_mnist_train_$layout")
        accuracy=$(calculate "${accuracy:-0}")
        if [ "$(calculate "$accuracy >= $least")" != 1 ]; then result=FAILED; fi
        note "$name" "$result" "$taken" "accuracy $accuracy (at least $least), $(calculate "${speed:-0}") images/s; $which"
    done
}

# The rate of products of f32 by NVIDIA's data sheets, without tensor cores, in TFLOP/s.
peak_tflops() {
    case $(cat "$logs/card.txt") in
        *H100\ PCIe*) echo 51 ;;
        *H100* | *H200*) echo 67 ;;
        *A100*) echo 19.5 ;;
        *L40S*) echo 91.6 ;;
        *L4*) echo 30.3 ;;
        *V100*) echo 15.7 ;;
        *T4*) echo 8.1 ;;
    esac
}

# Adds a figure: `figure WHO WORKLOAD BATCH VALUE UNIT FLOOR WHY`; the floor is in the same unit.
figure() {
    local against=""
    if [ -z "$4" ]; then
        note "$2, batch $3" FAILED 0 "$1 has printed no value"
        return
    fi
    if [ -n "$6" ]; then
        case $5 in
            */s) against=$(calculate "$6 / $4") ;;
            *) against=$(calculate "$4 / $6") ;;
        esac
    fi
    printf '{"by":%s,"workload":"%s","batch":%s,"value":%s,"unit":"%s","floor":%s,"times_floor":%s,"why":%s}\n' \
        "$(quoted "$1")" "$2" "$3" "$4" "$5" "${6:-null}" "${against:-null}" "$(quoted "$7")" >> "$jsonl"
    say "| $2 | $3 | $1 | $(calculate "$4") $5 | ${6:-} | $against | $7 |"
}

# The most images a second at a batch, and why: what a step cannot do without, one of them after all
# others have been hidden behind it.
floor_of_deep_mnist() {
    local batch=$1
    # Adam reads a gradient, a weight and two moments, and writes three of them, of 3,274,634 elements.
    awk -v n="$batch" -v copies="$device" -v feeds="$host" -v empty="$empty" -v rate="$rate" 'BEGIN {
        most = 3274634 * 28 / (copies * 1e9); why = "Adam moves 92 MB at the rate of copies"
        t = n * 794 * 4 / (feeds * 1e9); if (t > most) { most = t; why = "images from the host" }
        t = empty / 1e6; if (t > most) { most = t; why = "one replay" }
        if (rate != "") {
            t = n * 82e6 / (rate * 1e12)
            if (t > most) { most = t; why = "82 MFLOP an image at " rate " TFLOP/s in f32" }
        }
        printf "%.6g %s", n / most, why
    }'
}

run_peers() {
    local script=$here/peers/pytorch_deep_mnist.py batch=$1 floor=$2 why=$3
    local file=$logs/pytorch_$batch.txt
    if [ ! -f "$script" ]; then
        say "| deep_mnist_train | $batch | PyTorch | skipped: the folder has no peers | | | |"
    elif ! python3 -c 'import torch; assert torch.cuda.is_available()' > "$file" 2>&1; then
        say "| deep_mnist_train | $batch | PyTorch | skipped: no python3 with a torch that has a GPU | | | |"
    else
        # A peer that fails is no failure of ours; variants that were measured before one failed count.
        local status=0
        timeout "$seconds_each" python3 "$script" --device cuda --batch "$batch" --steps "$bench_steps" \
            --compile > "$file" 2> "$file.err" || status=$?
        for workload in $(sed -nE 's/.*"workload": ?"([^"]+)".*/\1/p' "$file"); do
            figure "PyTorch" "$workload" "$batch" "$(value "$file" "$workload")" images/s "$floor" \
                "$why; its images are on the card"
        done
        [ "$status" -eq 0 ] || say "| deep_mnist_train | $batch | PyTorch | ended with status $status, see pytorch_$batch.txt.err | | | |"
    fi
}

run_figures() {
    header "Figures" "| workload | batch | by | value | floor | times the floor | why |"
    local file=$logs/floors.txt floor why
    attempt "floors" "$file" "$bin/gpu_floors" --json --megabytes "$copy_mb" || return 0
    for workload in $(sed -nE 's/.*"workload":"([^"]+)".*/\1/p' "$file"); do
        figure "this card" "$workload" 1 "$(value "$file" "$workload")" \
            "$(sed -nE 's/.*"'"$workload"'".*"unit":"([^"]+)".*/\1/p' "$file")" "" "measured: a floor of others"
    done
    local device host empty rate
    device=$(value "$file" copy_device_to_device)
    host=$(value "$file" copy_host_to_device)
    empty=$(value "$file" replay_empty_graph)
    rate=${PEAK_TFLOPS:-$(peak_tflops)}
    file=$logs/linear_regression.txt
    if attempt "linear regression" "$file" "$bin/linear_regression" --device /gpu:0 --benchmark --json; then
        for workload in linear_regression_step_run linear_regression_step_callable; do
            figure Thalweg $workload 1 "$(value "$file" $workload)" us/step "$empty" "replay of an empty graph, waited for"
        done
    fi
    for batch in $batches; do
        read -r floor why <<< "$(floor_of_deep_mnist "$batch")"
        for layout in NHWC NCHW; do
            file=$logs/bench_${layout}_$batch.txt
            attempt "deep MNIST, $layout, batch $batch" "$file" "$bin/deep_mnist" --device /gpu:0 --benchmark --json \
                --data-format $layout --batch-size "$batch" --warmup 10 --steps "$bench_steps" || continue
            figure Thalweg "deep_mnist_train_$layout" "$batch" "$(value "$file" "deep_mnist_train_$layout")" images/s "$floor" "$why"
            figure Thalweg deep_mnist_first_step "$batch" "$(value "$file" deep_mnist_first_step)" s "" "from the start of the process"
        done
        run_peers "$batch" "$floor" "$why"
    done
    say ""
    [ -n "$rate" ] || say "The card's matrix rate is not in the list: PEAK_TFLOPS=N states it. Floors here are without it."
    say "A floor is the longest of what a step cannot do without: bytes at the bandwidth of copies, operations at the stated rate in f32, one replay. Nothing can be faster without another precision."
}

about
! wants tests || run_tests
! wants sanitizer || run_sanitizer
! wants training || run_training
! wants figures || run_figures
say ""
finished=yes
if [ "$failures" -gt 0 ]; then
    say "$failures FAILED."
    exit 1
fi
say "Nothing failed."
