#!/usr/bin/env bash
# Every example in every document and in the help of every command runs: a command line in a block that is indented or
# fenced, or in `…` in the text, exits 0, in a scratch folder where the lines before it in the same document have left
# their files. tests/readme.sh runs those of ```console blocks, and compares what they print.
#
#     tests/examples.sh             each in a short form: see shorten
#     tests/examples.sh --all       each as it stands, but for what is not here: see furnish and elsewhere
#     tests/examples.sh --list      only print what would run, by document
#     tests/examples.sh --only TEXT [--all]    documents whose name has it in it: docs/plan, help:train
#     tests/examples.sh --program PATH
#
# What cannot run here is told as `# skipped: EXAMPLE: why`.
source "$(dirname "$0")/check.bash"
all=
list=
only=
others=()
while (($#)); do
  case $1 in
    --all) all=yes ;;
    --list) list=yes ;;
    --only) only=$2 && shift ;;
    *) others+=("$1") ;;
  esac
  shift
done
read_options "${others[@]}"
root=$PWD
[[ $program == /* ]] || program=$root/$program

# ---- Finding them

# The code of a document, a line each, without what stands behind it as a remark; lines that end in \ are joined.
code_lines() {
  awk '
    /^```/ { fenced = !fenced; console = fenced && /console/; next }
    fenced && !console { print; next }
    !fenced && /^    / { print }' "$1"
}

# What stands in `…`, over the ends of lines, too.
code_in_text() {
  awk '/^```/ { fenced = !fenced; next } !fenced && !/^    /' "$1" | tr '\n' ' ' | grep -oE '`[^`]+`' | tr -d '`'
}

join_lines() { sed -E -e ':a' -e '/\\$/{N;s/ *\\\n */ /;ta' -e '}'; }

commands_only() {
  sed -nE -e 's/^ *(\$ )?(\.\/)?(twinpod|mpirun -n [0-9]+ (\.\/)?twinpod)( .*)?$/\3\5/p' | sed -E -e 's/  +#.*$//' -e 's/ +$//'
}

# A line that says how commands are written, or less than a command.
is_usage() {
  case $1 in
    *…* | *'[-'* | *'[fl'* | *'[T'* | *'|'*'|'* | *'DEVICE|'* | *'LOG'* | *' COMMAND'* | *' NAME'* | *CLUSTER* | *' MODEL'* | *'RUNS.yaml'*) return 0 ;;
    twinpod | 'twinpod train' | 'twinpod simulate' | 'twinpod collective' | 'twinpod doctor' | 'twinpod bench machine' | 'twinpod estimate --stages') return 0 ;;
    'twinpod show device|'* | 'twinpod show devices|'*) return 0 ;;
  esac
  return 1
}

examples_of() {  # examples_of DOCUMENT|help:COMMAND
  local line
  case $1 in
    help:*) "$program" "${1#help:}" --help | sed '1,/^examples:/d' | sed -E '/^  #/d' ;;
    *) code_lines "$1" && code_in_text "$1" ;;
  esac | join_lines | commands_only | while IFS= read -r line; do
    if ! is_usage "$line"; then printf '%s\n' "$line"; fi
  done | awk '!seen[$0]++'
}

# ---- Making them possible

# Why it cannot run on one machine that has neither other hosts nor somebody to stop it; else nothing.
elsewhere() {
  case $1 in
    *'--hosts 10.'*) echo "needs two hosts; tests/train_hosts.sh has them" ;;
  esac
}

# Names that stand for something, in the place of which something is here.
furnish() {
  local text=$1
  text=${text//program JOB/program examples/llama3-70b.yaml}
  text=${text//train JOB/train job.yaml}
  text=${text//\/nfs\/runs/nfs\/runs}
  text=${text//s3:\/\/models\/runs/nfs\/runs}  # tests/store_s3.sh has an object store
  if ! has_gloo; then text=${text//openmpi,gloo/openmpi}; fi
  # Ranks, of which there would be more than this machine can take in sensible time.
  [[ $text =~ ^mpirun\ -n\ [0-9]+\ (\./)?twinpod(.*)$ ]] && text="mpirun --allow-run-as-root --oversubscribe -n 2 twinpod${BASH_REMATCH[2]}"
  printf '%s\n' "$text"
}

has_gloo() { [[ -x $root/build/release/bench_gloo_peer ]]; }

# A fiftieth of the steps, small messages, few rounds.
shorten() {
  local text=$1
  text=$(awk '{
    for (i = 1; i < NF; ++i)
      if ($i ~ /^--(steps|checkpoint-every|step|every)$/ && !/simulate/) $(i + 1) = int(($(i + 1) + 49) / 50)
    print
  }' <<<"$text")
  case $text in
    *'train --resume'*) ;;
    *'twinpod train '*--steps*) ;;
    *'twinpod train '*) text+=" --steps 20" ;;
  esac
  case $text in
    *'bench comm'*--fault*) ;;
    *'bench comm'*) text="$(without_sizes "$text") --bytes 8..1KiB --blocks 1 --iterations 1 --warmup 0 --verb all_reduce" ;;
    *'bench machine'*) text="${text/ --quick/} --quick" ;;
    *'bench ps'*) text="$(without_sizes "$text") --bytes 64KiB --rounds 1" ;;
    *'bench store'*) text="$(without_sizes "$text") --bytes 4MiB --rounds 1" ;;
    *'twinpod study '*) text+=" --steps 8 --workers 2 --simulated-workers 2 --pace 1ms" ;;
    *--plans*) text+=" catalog/runs/few.yaml" ;;
    *--refit* | *--cross-validate* | *--leave-stack-out*) if [[ $text != *--collectives* ]]; then text=${text/validate/validate catalog\/runs\/few.yaml}; fi ;;
  esac
  printf '%s\n' "$text"
}

without_sizes() { sed -E 's/ --(bytes|verb|rounds) [^ ]+//g' <<<"$1"; }

# What a reader is supposed to have: a job, logs, a model of Hugging Face, tables of his own.
furnish_folder() {  # furnish_folder DOCUMENT
  ln -s "$root/docs" "$root/src" .
  cp -r "$root/examples" "$root/catalog" .
  sed 's|\.\./||g' examples/tiny-gpt.yaml >job.yaml
  mkdir -p path/to ~/.cache 2>/dev/null
  cat >path/to/config.json <<'END'
{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 16, "num_attention_heads": 16,
 "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 2048, "tie_word_embeddings": false}
END
  cp path/to/config.json config.json
  local log
  for log in run small train monday tuesday; do cp examples/calibrate/llama3-8b-16.log $log.log; done
  cp examples/calibrate/llama3-8b-128.log large.log
  cp examples/calibrate/llama3-70b-256.log long.log
  cp examples/calibrate/llama3-8b-16.yaml small.yaml
  cp examples/calibrate/llama3-8b-128.yaml large.yaml
  cp examples/calibrate/llama3-70b-256.yaml long.yaml
  case $1 in
    help:compare) echo 'cluster: {node: dgx-a100, devices: 2}' >>job.yaml ;;
    README.md | *calibrate* | docs/emit.md | docs/estimate.md) cp small.yaml job.yaml ;;
  esac
  cp catalog/runs/torchtitan.yaml my-runs.yaml
  cp catalog/runs/torchtitan.yaml catalog/runs/few.yaml
  cp catalog/measured/gemm.csv my-products.csv
}

# Files that an example reads and that none before it has made, for no reader would expect it to.
furnish_file() {
  local file
  for file in $1; do
    [[ -e $file ]] && continue
    case $file in
      ring8.xml) "$program" collective all_reduce --on dgx-a100 --algorithm ring --export ring8.xml ;;
      my-cluster.yaml) "$program" calibrate run.log=small.yaml -o my-cluster.yaml ;;
      here.yaml) if [[ $1 != *'-o here.yaml'* ]]; then "$program" bench machine --quick --ranks 1 -o here.yaml; fi ;;
      traces) if [[ $1 == *--workload* ]]; then "$program" simulate llama3-8b --on h100-superpod --devices 16 --tp 2 --pp 4 --chakra traces --all-ranks; fi ;;
      predicted.json | measured.json)
        "$program" simulate llama3-8b --on dgx-h100 --tp 8 --timeline "$file"
        ;;
      corpus/) cp -r docs corpus ;;
      mine.csv) one_f_one_b 4 15 >mine.csv ;;
      runs/) mkdir -p runs ;;
      tokens) if [[ $1 == *show* ]]; then "$program" data prepare docs -o tokens; fi ;;
      twinpod-failure.json) "$program" bench comm --ranks 4 --fault kill:2@17 ;;
      twinpod-failure.json.*) "$program" bench comm --ranks 4 --fault kill:2@17; cp twinpod-failure.json twinpod-failure.json.0 ;;
      runs/a*) if [[ $1 != *--store* && ! -e runs/a ]]; then save_some; fi ;;
      runs/b) cp -r runs/a runs/b ;;
      nfs/runs/a) mkdir -p nfs/runs && cp -r runs/a nfs/runs/a ;;
    esac
  done >/dev/null 2>&1
}

# Of 100, 200 and 300 steps, as far as they are kept, or a fiftieth of these: each behind a run of its own, as saves of steps
# that follow so fast would be passed over.
save_some() {
  if [[ $all ]]; then
    "$program" train job.yaml --steps 300 --checkpoint-every 100 --store runs/a
  else
    "$program" train job.yaml --steps 2 --store runs/a
    "$program" train --resume runs/a --steps 4
    "$program" train --resume runs/a --steps 6
  fi
}

# A schedule of one's own, as docs/program.md has it: each stage runs ahead by the stages behind it, then in turns.
one_f_one_b() {  # one_f_one_b STAGES MICRO_BATCHES
  awk -v stages="$1" -v m="$2" 'BEGIN {
    print "stage,order,phase,micro_batch,chunk"
    for (s = 0; s < stages; ++s)
      for (i = f = b = 0; i < 2 * m; ++i)
        if (f < m && f - b < stages - s) printf "%d,%d,F,%d,0\n", s, i, f++
        else printf "%d,%d,B,%d,0\n", s, i, b++
  }'
}

# Where a fiftieth of the steps is saved is up to the disk: the newest stands for the one that is named.
newest_step() { "$program" checkpoint ls runs/a --quick | awk 'NR == 3 { print $1 }'; }

# ---- Running them

expected_status() {
  case $1 in
    *--fault*) echo 1 ;;
    *) echo 0 ;;
  esac
}

run_one() {  # run_one DOCUMENT EXAMPLE
  local why text status
  why=$(elsewhere "$2")
  if [[ $why ]]; then
    echo "# skipped: $1: $2: $why"
    return
  fi
  text=$(furnish "$2")
  if [[ ! $all ]]; then text=$(shorten "$text"); fi
  if is_known "$text"; then return; fi
  furnish_file "$text"
  if [[ ! $all && $text =~ ^(.*checkpoint show runs/a --step )[0-9]+(.*)$ ]]; then
    text=${BASH_REMATCH[1]}$(newest_step)${BASH_REMATCH[2]}
  fi
  PATH=$scratch/bin:$PATH timeout 550 bash -c "$text" >out 2>err </dev/null
  status=$?
  if [[ $text == *'train --resume'* ]] && grep -q 'nothing is left' out; then
    echo "not ok $1: $2"
    echo "  $(cat out)"
  elif [[ $status == $(expected_status "$2") ]]; then
    echo "ok $1: $2"
  else
    echo "not ok $1: $2"
    echo "  ran as: $text"
    echo "  status $status, expected $(expected_status "$2"): $(tail -n 3 err)"
  fi
}

# Those that leave nothing behind run once in all documents.
is_known() {
  case $1 in
    *'>'* | *' -o '* | *--svg* | *--trace* | *--chakra* | *--timeline* | *--export* | *' data '* | *runs/* | *--store* | *--fault* | *doctor* | *job.yaml*) return 1 ;;
  esac
  ! mkdir "$scratch/known/$(md5sum <<<"$1" | cut -c1-32)" 2>/dev/null
}

run_document() {
  local folder=$scratch/in/${1//[\/:]/_} example
  mkdir -p "$folder" && cd "$folder" || return
  furnish_folder "$1" >/dev/null 2>&1
  (cd "$root" && examples_of "$1") >examples.txt
  while IFS= read -r example <&3; do run_one "$1" "$example"; done 3<examples.txt >log
  cd "$root" && cat "$folder/log" && rm -rf "$folder"
}

mkdir -p "$scratch"/{bin,known,in}
ln -s "$program" "$scratch/bin/twinpod"
documents=(README.md CONTRIBUTING.md docs/*.md catalog/README.md bench/README.md)
for command in $("$program" help | sed -nE 's/^  ([a-z]+) +.*/\1/p'); do documents+=("help:$command"); done

# The longest first, so that no core is idle at the end.
mapfile -t documents < <(printf '%s\n' help:train docs/train.md docs/ps.md docs/store.md docs/comm.md help:validate docs/accuracy.md \
  README.md "${documents[@]}" | awk '!seen[$0]++' | grep -F -- "$only")
if [[ $list ]]; then
  for document in "${documents[@]}"; do examples_of "$document" | sed "s|^|$document: |"; done
  exit
fi
export -f $(compgen -A function)
export program root all scratch
printf '%s\n' "${documents[@]}" | xargs -P 2 -I{} bash -c 'run_document {}' | tee "$scratch/results"
failed_checks=$(grep -c '^not ok ' "$scratch/results")
if [[ ! $only ]]; then check "examples: all were found" test "$(grep -cE '^(ok|not ok) ' "$scratch/results")" -gt 100; fi
finish_checks
