# SPDX-License-Identifier: Apache-2.0
noinst_HEADERS += tests/support/broken_io.h tests/support/next.h
if HAVE_CMOCKA
find_tests = \
	tests/unit/find/test_faults \
	tests/unit/find/test_layouts \
	tests/unit/find/test_locate \
	tests/unit/find/test_save_name \
	$(NULL)
check_PROGRAMS += $(find_tests)
TESTS += $(find_tests)
tests_unit_find_test_faults_SOURCES = tests/unit/find/test_faults.c tests/support/broken_io.c
tests_unit_find_test_faults_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_find_test_faults_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) -ldl
tests_unit_find_test_layouts_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_find_test_layouts_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
tests_unit_find_test_locate_SOURCES = tests/unit/find/test_locate.c tests/support/golden.c
tests_unit_find_test_locate_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_find_test_locate_LDADD = $(ZF_FORMAT) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_find_test_save_name_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_find_test_save_name_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
endif
