#!/usr/bin/env bash
# Configuring fails when a module reaches up: in its USES, in an include, or for a package that is not its own.
cd "$(dirname "$0")/.." || exit 1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r CMakeLists.txt CMakePresets.json cmake src "$copy"
mkdir "$copy/tests" && cp tests/*.cpp "$copy/tests"
status=0

configure() { (cd "$copy" && cmake --preset release 2>&1 </dev/null); }

check() {  # check NAME CONDITION...
  local name=$1
  shift
  if "$@"; then
    echo "ok layering: $name"
  else
    echo "not ok layering: $name"
    status=1
  fi
}

fails_with() { ! output=$(configure) && [[ $output == *"$1"* ]]; }

check "the tree as it is configures" configure >"$copy/log"
grep '^\(not \)\?ok ' "$copy/log" || cat "$copy/log"

sed -i 's/^module(model .*USES core spec/& plan/' "$copy/CMakeLists.txt"
check "USES of a module above is refused" fails_with "layering: model may not use plan"
cp CMakeLists.txt "$copy"

sed -i 's/^module(spec .*USES core/& spec/' "$copy/CMakeLists.txt"
check "USES of the module itself is refused" fails_with "layering: spec may not use spec"
cp CMakeLists.txt "$copy"

echo '#include "plan/memory.hpp"' >"$copy/src/model/reaches_up.hpp"
check "include of a module above is refused" fails_with "layering: model may not use plan"
rm "$copy/src/model/reaches_up.hpp"

echo '#  include <spec/model.hpp>' >"$copy/src/core/reaches_up_test.cpp"
check "include in angle brackets in a test is refused" fails_with "layering: core may not use spec"
rm "$copy/src/core/reaches_up_test.cpp"

echo '#include <yaml.h>' >"$copy/src/model/reads_yaml.cpp"
check "include of a package of another module is refused" fails_with "layering: model may not use yaml.h"
rm "$copy/src/model/reads_yaml.cpp"

exit $status
