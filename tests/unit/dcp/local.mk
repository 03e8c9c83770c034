# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
dcp_tests = \
	tests/unit/dcp/test_ask \
	$(NULL)
check_PROGRAMS += $(dcp_tests)
TESTS += $(dcp_tests)
tests_unit_dcp_test_ask_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_dcp_test_ask_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
endif
