#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a unit test.  cmocka before 1.1.6 writes a skipped test as "not ok N # SKIP", which TAP takes for a failure.
out=$("$@" 2>&1)
status=$?
printf '%s\n' "$out" | sed 's/^not ok \([0-9]*\) # SKIP/ok \1 # SKIP/'
exit "$status"
