# SPDX-License-Identifier: Apache-2.0

# Prints figures, proves nothing: not run by `make check`.
EXTRA_PROGRAMS += tests/bench/bench_pickle
tests_bench_bench_pickle_SOURCES = tests/bench/bench_pickle.c
tests_bench_bench_pickle_LDADD = $(ZF_CODEC)

EXTRA_PROGRAMS += tests/bench/bench_cast
tests_bench_bench_cast_SOURCES = tests/bench/bench_cast.c
tests_bench_bench_cast_LDADD = $(ZF_MODEL)

tests_bench_bench_read_SOURCES = tests/bench/bench_read.c
tests_bench_bench_read_LDADD = $(ZF_ALL) -lpthread

tests_bench_null_SOURCES = tests/bench/null.c
tests_bench_null_LDADD = $(FUSE_LIBS)

EXTRA_PROGRAMS += tests/bench/delay
tests_bench_delay_SOURCES = tests/bench/delay.c
tests_bench_delay_LDADD = -lpthread

EXTRA_DIST += tests/bench/remote.py tests/bench/reading.py tests/bench/tools.py
EXTRA_DIST += tests/bench/latency.c tests/bench/stat_once.c tests/bench/scale.py tests/bench/bench.py tests/bench/load_pickle.py

# Ratios within one run; `make bench BENCH='read export'` runs these parts alone.
# Preloaded into a daemon, not linked.
bench_preloaded = tests/bench/latency.so tests/bench/stat_once.so
tests/bench/latency.so: tests/bench/latency.c
	$(AM_V_CC)$(CC) $(CFLAGS) -shared -fPIC -o $@ $(srcdir)/tests/bench/latency.c -ldl
tests/bench/stat_once.so: tests/bench/stat_once.c
	$(AM_V_CC)$(CC) $(CFLAGS) -shared -fPIC -o $@ $(srcdir)/tests/bench/stat_once.c -ldl
CLEANFILES += $(bench_preloaded)

.PHONY: bench
bench: zerofs$(EXEEXT) tests/bench/bench_cast$(EXEEXT) tests/bench/bench_read$(EXEEXT) tests/bench/null$(EXEEXT) tests/bench/delay$(EXEEXT) $(bench_preloaded)
	top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' \
		python3 -B $(srcdir)/tests/bench/bench.py $(BENCH)
