# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
export_tests = \
	tests/unit/export/test_copy \
	tests/unit/export/test_dest \
	tests/unit/export/test_journal \
	tests/unit/export/test_plan \
	tests/unit/export/test_settle \
	$(NULL)
check_PROGRAMS += $(export_tests)
TESTS += $(export_tests)

tests_unit_export_test_copy_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_export_test_copy_LDADD = libzf-export.la $(ZF_VIEW) $(CMOCKA_LIBS)
tests_unit_export_test_dest_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_export_test_dest_LDADD = libzf-export.la $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_export_test_journal_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_export_test_journal_LDADD = libzf-export.la $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_export_test_plan_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_export_test_plan_LDADD = libzf-export.la $(ZF_VIEW) $(CMOCKA_LIBS)
tests_unit_export_test_settle_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_export_test_settle_LDADD = libzf-export.la $(ZF_BASE) $(CMOCKA_LIBS)
endif
