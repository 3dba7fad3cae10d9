#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs one test for t/run, FILE or FILE:CASE,..., behind `nice` if it is one of T_NICE. prove hides
# a test's comments; this one repeats on stderr those of the checks that failed, or the end of the
# output if the test broke off.
set -uo pipefail

# With a higher number, two other tests that compute would leave it less than a tenth of the time.
nice=
[[ " ${T_NICE:-} " != *" $1 "* ]] || nice="nice -n 5"

cases=${1#"${1%%:*}"}
cases=${cases//[:,]/ }
output=$(mktemp)
trap 'rm -f "$output"' EXIT

$nice ${T_WRAP:-} timeout --foreground -k 10 "${T_TIMEOUT:-900}" "${1%%:*}" $cases | tee "$output"
status=${PIPESTATUS[0]}
if [ $status -ne 0 ]; then
    {
        echo "# $* ended with status $status$([ $status -ne 124 ] || echo ' (too slow)')"
        awk '/^not ok/ { show = 1; print; next } /^ok/ { show = 0 } show { print }' "$output"
        grep -q '^not ok' "$output" || tail -n 10 "$output" | sed 's/^/# /'
    } >&2
fi
# prove says nothing of single checks that are skipped.
if [ -n "${CI:-}" ] && grep -E '^ok .*# SKIP' "$output" >&2; then
    echo "# $*: with CI set a skipped check is a failure" >&2
    status=1
fi
exit $status
