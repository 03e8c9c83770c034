# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
if HAVE_CURL
remote_tests = \
	tests/unit/remote/test_diskcache \
	$(NULL)
check_PROGRAMS += $(remote_tests)
TESTS += $(remote_tests)

tests_unit_remote_test_diskcache_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_remote_test_diskcache_LDADD = libzf-remote.la $(ZF_SOURCE) $(CMOCKA_LIBS) -lpthread
endif
endif
