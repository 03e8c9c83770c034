# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
keep_tests = tests/unit/keep/test_keep
check_PROGRAMS += $(keep_tests)
TESTS += $(keep_tests)
tests_unit_keep_test_keep_SOURCES = tests/unit/keep/test_keep.c tests/support/broken_io.c tests/support/tight_arena.c
tests_unit_keep_test_keep_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src -I$(top_srcdir)
tests_unit_keep_test_keep_LDADD = libzf-keep.la $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS) -ldl
endif
