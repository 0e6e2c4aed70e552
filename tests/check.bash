# Sourced by the whole-program tests. Each check prints `ok NAME` or `not ok NAME`, or `skipped NAME: WHY` where it cannot
# be made; the script ends with finish_checks.
#
#     source "$(dirname "$0")/check.bash"
#     twinpod show devices >"$scratch/devices"
#     check "devices are listed" grep -q h100-sxm "$scratch/devices"
#     finish_checks
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed_checks=0
program=./twinpod

twinpod() { "$program" "$@"; }

check() {  # check NAME CONDITION...
  local name=$1
  shift
  if "$@"; then
    echo "ok $name"
  else
    echo "not ok $name"
    failed_checks=$((failed_checks + 1))
  fi
}

# What cannot be checked here, and why: ./test counts it as skipped, never as ok.
skip() { echo "skipped $1: $2"; }  # skip NAME WHY

finish_checks() { exit $((failed_checks > 0)); }

# Two files that must be alike; a line of the first with `…` matches anything from there on, and a line that is only `…`
# any number of lines.
matches() {  # matches EXPECTED ACTUAL
  awk -v expected="$1" '
    function like(want, have,   at) {
      at = index(want, "…")
      return at ? substr(have, 1, at - 1) == substr(want, 1, at - 1) : have == want
    }
    { have[++n] = $0 }
    END {
      while ((getline line < expected) > 0) want[++m] = line
      i = 1
      for (j = 1; j <= m; ++j) {
        if (want[j] == "…") {
          if (j == m) { i = n + 1; break }
          while (i <= n && !like(want[j + 1], have[i])) ++i
          continue
        }
        if (i > n || !like(want[j], have[i])) {
          printf "expected: %s\n   found: %s\n", want[j], (i > n ? "nothing more" : have[i])
          exit 1
        }
        ++i
      }
      if (i <= n) { printf "found more than was expected: %s\n", have[i]; exit 1 }
    }' "$2"
}

# read_options "$@": --program PATH sets `program`, --update sets `update`.
read_options() {
  update=
  while (($#)); do
    case $1 in
      --update) update=yes ;;
      --program)
        program=$2
        shift
        ;;
      *)
        echo "usage: $0 [--program PATH] [--update]" >&2
        exit 2
        ;;
    esac
    shift
  done
}
