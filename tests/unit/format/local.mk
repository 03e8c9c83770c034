# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
format_tests = \
	tests/unit/format/test_names \
	$(NULL)
check_PROGRAMS += $(format_tests)
TESTS += $(format_tests)

tests_unit_format_test_names_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir) $(JANSSON_CFLAGS)
tests_unit_format_test_names_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS)
endif
