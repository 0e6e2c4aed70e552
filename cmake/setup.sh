# Install what is missing, configure, build: sourced by ./twinpod and ./test, which set `root` to the repository.
# Everything it prints goes to standard error.

say() { echo "twinpod: $*" >&2; }

# Packages of packages.txt that are not installed. $1: "test" for all of them, else those that building needs.
missing_packages() {
  local wanted installed
  if [[ ${1:-} == test ]]; then
    wanted=$(sed -E 's/#.*//; s/[[:space:]]+test[[:space:]]*$//; /^[[:space:]]*$/d' "$root/packages.txt")
  else
    wanted=$(sed -E 's/#.*//; /[[:space:]]test[[:space:]]*$/d; /^[[:space:]]*$/d' "$root/packages.txt")
  fi
  # shellcheck disable=SC2086  # one word for each package
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p')
  grep -vxF -f <(echo "$installed") <<<"$wanted"
}

install_missing() {
  local missing as_root=() log
  command -v dpkg-query >/dev/null || return 0  # not Debian: cmake will say what it cannot find
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || {
      say "these packages are missing, and installing them needs root or sudo: ${missing[*]}"
      return 1
    }
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  log=$(mktemp)
  if "${as_root[@]}" apt-get update >"$log" 2>&1 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" \
      >>"$log" 2>&1 </dev/null; then
    rm -f "$log"
  else
    cat "$log" >&2
    rm -f "$log"
    say "installing failed: ${missing[*]}"
    return 1
  fi
}

# Runs a command with its output in a log; on a terminal the last line is shown, on failure the whole log.
quietly() {
  local log=$1 line status
  shift
  if [[ -t 2 ]]; then
    "$@" 2>&1 </dev/null | tee "$log" | while IFS= read -r line; do printf '\r\033[K%.*s' "${COLUMNS:-80}" "$line" >&2; done
    status=${PIPESTATUS[0]}
    printf '\r\033[K' >&2
  else
    "$@" >"$log" 2>&1 </dev/null
    status=$?
  fi
  ((status == 0)) || cat "$log" >&2
  return "$status"
}

# build PRESET [TARGET...]: in build/PRESET.
build() {
  local preset=$1
  local folder=$root/build/$preset
  shift
  mkdir -p "$folder"
  (cd "$root" && quietly "$folder/configure.log" cmake --preset "$preset") || return 1
  quietly "$folder/build.log" cmake --build "$folder" -j "$(nproc)" ${1:+--target "$@"}
}

# True when nothing was touched since the last build of the program. A removed file touches its folder.
up_to_date() {
  local stamp=$root/build/release/.stamp
  [[ -e $stamp && -x $root/build/release/twinpod ]] || return 1
  [[ -z $(find "$root"/{src,cmake,CMakeLists.txt,CMakePresets.json,packages.txt} -newer "$stamp" -print -quit) ]]
}

# build_release [TARGET]. One at a time: two commands started together must not build in the same folder.
build_release() {
  local folder=$root/build/release
  mkdir -p "$folder"
  (
    flock 9
    touch "$folder/.started"  # what is edited during the build is newer than this
    build release "$@" && mv "$folder/.started" "$folder/.stamp"
  ) 9>"$folder/.lock"
}
