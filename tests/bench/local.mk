# SPDX-License-Identifier: Apache-2.0

# Prints figures, proves nothing: not run by `make check`.
EXTRA_PROGRAMS += tests/bench/bench_pickle
tests_bench_bench_pickle_SOURCES = tests/bench/bench_pickle.c
tests_bench_bench_pickle_LDADD = $(ZF_CODEC)
