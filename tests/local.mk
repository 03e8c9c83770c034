# SPDX-License-Identifier: Apache-2.0
# Every test speaks TAP: cmocka programs through CMOCKA_MESSAGE_OUTPUT, scripts by themselves.
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_EXTENSIONS = .sh .py
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = $(SHELL)
PY_LOG_DRIVER = $(LOG_DRIVER)
PY_LOG_COMPILER = python3
AM_TESTS_ENVIRONMENT = \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	MALLOC_PERTURB_=165; export MALLOC_PERTURB_; \
	ZEROFS='$(abs_top_builddir)/zerofs'; export ZEROFS; \
	XDG_CACHE_HOME=/dev/null; export XDG_CACHE_HOME; \
	TSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/support/tsan.supp'; export TSAN_OPTIONS; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	ZF_DATA='$(abs_top_srcdir)/tests/data'; export ZF_DATA;

# What each room's unit tests may link: the room and what lies under it, so an upward call fails to link.
ZF_BASE = libzf-base.la
ZF_SOURCE = tests/support/libstore-mem.la libzf-source.la $(ZF_BASE)
ZF_CODEC = libzf-codec.la $(ZF_SOURCE)
ZF_MODEL = libzf-model.la $(ZF_SOURCE)
ZF_ASSEMBLE = libzf-assemble.la libzf-model.la libzf-codec.la $(ZF_SOURCE)
ZF_DCP = libzf-dcp.la $(ZF_ASSEMBLE)
ZF_FORMAT = libzf-find.la libzf-format.la $(ZF_DCP)
ZF_VIEW = libzf-view.la libzf-model.la libzf-codec.la $(ZF_SOURCE)
ZF_REMOTE = libzf-remote.la $(ZF_CODEC)
ZF_ALL = libzf-fs.la libzf-view.la $(ZF_FORMAT)
TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS) -I$(top_srcdir)/tests

check_LTLIBRARIES += tests/support/libstore-mem.la
tests_support_libstore_mem_la_SOURCES = tests/support/store_mem.c
tests_support_libstore_mem_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)

noinst_HEADERS += tests/support/bucket_oracle.h tests/support/build_verbs.h tests/support/far.h tests/support/fault.h tests/support/golden.h tests/support/in_memory.h tests/support/pickled.h \
	tests/support/folded.h tests/support/random.h tests/support/same_model.h tests/support/store_mem.h tests/support/unit.h tests/support/watched.h
EXTRA_DIST += tests/data tests/support/mkdcp.py tests/support/mkdeepspeed.py tests/support/mkolmo.py tests/support/mkmegatron.py tests/support/mkturned.py tests/support/mkzarr.py tests/support/bytefile.py tests/support/mounts.py tests/support/readers.py tests/support/sparsefile.py tests/support/dtensors.py tests/support/tap.py tests/support/torchfile.py \
	tests/support/tsan.supp

include tests/unit/base/local.mk
include tests/unit/source/local.mk
include tests/unit/codec/local.mk
include tests/unit/model/local.mk
include tests/unit/assemble/local.mk
include tests/unit/dcp/local.mk
include tests/unit/find/local.mk
include tests/unit/keep/local.mk
include tests/unit/format/local.mk
include tests/unit/view/local.mk
include tests/unit/overlay/local.mk
include tests/unit/fs/local.mk
include tests/unit/export/local.mk
include tests/unit/cmd/local.mk
include tests/unit/remote/local.mk
include tests/format/local.mk
include tests/frameworks/local.mk
include tests/cli/local.mk
include tests/mount/local.mk
include tests/remote/local.mk
include tests/fuzz/local.mk
include tests/house/local.mk
include tests/bench/local.mk

# For scripts that run a part of them.
.PHONY: list-tests
list-tests:
	@printf '%s\n' $(TESTS)
