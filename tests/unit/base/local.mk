# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
base_tests = \
	tests/unit/base/test_ahead \
	tests/unit/base/test_arena \
	tests/unit/base/test_buffer \
	tests/unit/base/test_bytes \
	tests/unit/base/test_err \
	tests/unit/base/test_name \
	tests/unit/base/test_table \
	tests/unit/base/test_tables \
	tests/unit/base/test_text \
	tests/unit/base/test_vec \
	tests/unit/base/test_words \
	$(NULL)
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)

tests_unit_base_test_ahead_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_ahead_LDADD = $(ZF_BASE) $(CMOCKA_LIBS) -lpthread
tests_unit_base_test_arena_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_arena_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_buffer_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_buffer_LDADD = $(ZF_BASE) $(CMOCKA_LIBS) -lpthread
tests_unit_base_test_bytes_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_bytes_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_err_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_err_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_name_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_name_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_tables_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_tables_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_table_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_table_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_text_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_text_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_vec_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_vec_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
tests_unit_base_test_words_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_words_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
endif
