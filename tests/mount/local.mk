# SPDX-License-Identifier: Apache-2.0
# Against the kernel: each script mounts below a directory of its own.
TESTS += \
	tests/mount/change.sh \
	tests/mount/damage.sh \
	tests/mount/death.sh \
	tests/mount/fs.sh \
	tests/mount/life.sh \
	tests/mount/mount.sh \
	tests/mount/show.sh \
	tests/mount/start.sh
EXTRA_DIST += \
	tests/mount/change.sh \
	tests/mount/damage.sh \
	tests/mount/death.sh \
	tests/mount/fs.sh \
	tests/mount/lib.sh \
	tests/mount/life.sh \
	tests/mount/look/can_mount.py \
	tests/mount/look/change.py \
	tests/mount/look/damage.py \
	tests/mount/look/death.py \
	tests/mount/look/fs.py \
	tests/mount/look/life.py \
	tests/mount/look/mount.py \
	tests/mount/look/show.py \
	tests/mount/look/start.py \
	tests/mount/mount.sh \
	tests/mount/show.sh \
	tests/mount/start.sh

# Killed between a request and its answer.
check_PROGRAMS += tests/mount/unanswered
tests_mount_unanswered_LDADD =

# Opened by handle, as an NFS server does.
TESTS += tests/mount/test_handles.py
EXTRA_DIST += tests/mount/test_handles.py

# A socket in the device's place: what a kernel would not ask.
TESTS += tests/mount/test_protocol.py
EXTRA_DIST += tests/mount/test_protocol.py

# Other file systems below a checkpoint.
TESTS += tests/mount/xdev.sh
EXTRA_DIST += tests/mount/xdev.sh

# Storage that hangs, and saves that are replaced while they are opened from it.
check_PROGRAMS += tests/mount/stall
noinst_HEADERS += tests/mount/shown.h
tests_mount_stall_LDADD = $(FUSE_LIBS) -lpthread
TESTS += tests/mount/save.sh tests/mount/stall.sh
EXTRA_DIST += tests/mount/look/save.py tests/mount/look/stall.py tests/mount/save.sh tests/mount/stall.sh

# The saves of a run that come and go, for as long as one likes: not among the tests of `make check`.
EXTRA_DIST += tests/mount/soak.py

# Everything that can happen to a shard, in any order; ZEROFS_RACE_SECONDS=120 for longer.
TESTS += tests/mount/race.sh
EXTRA_DIST += tests/mount/look/race.py tests/mount/race.sh

# Storage with latency.
check_PROGRAMS += tests/mount/slow
tests_mount_slow_LDADD = $(FUSE_LIBS) -lpthread
TESTS += tests/mount/ahead.sh
EXTRA_DIST += tests/mount/ahead.sh tests/mount/look/ahead.py

# Models that are kept for the next mount.
TESTS += tests/mount/test_model_cache.py
EXTRA_DIST += tests/mount/test_model_cache.py

# Short of threads, descriptors, bytes.
TESTS += tests/mount/test_short.py
EXTRA_DIST += tests/mount/test_short.py

# One point, one mount after the other; ZEROFS_REMOUNTS=500 for more.
TESTS += tests/mount/test_remount.py
EXTRA_DIST += tests/mount/late.c tests/mount/test_remount.py
check_DATA = tests/mount/late.so
CLEANFILES += tests/mount/late.so
tests/mount/late.so: tests/mount/late.c
	$(AM_V_CC)$(CC) $(CFLAGS) -shared -fPIC -o $@ $(srcdir)/tests/mount/late.c -ldl

# The read part of `make bench`, small; its tools are programs of tests/bench.
check_PROGRAMS += tests/bench/null tests/bench/bench_read
TESTS += tests/mount/test_bench.py
EXTRA_DIST += tests/mount/test_bench.py
