# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
assemble_tests = \
	tests/unit/assemble/test_adapter \
	tests/unit/assemble/test_agree \
	tests/unit/assemble/test_assign \
	tests/unit/assemble/test_coord \
	tests/unit/assemble/test_cut \
	tests/unit/assemble/test_dtensor_ranges \
	tests/unit/assemble/test_files \
	tests/unit/assemble/test_names \
	tests/unit/assemble/test_flat_vector \
	tests/unit/assemble/test_py_pattern \
	tests/unit/assemble/test_tensor_ref \
	tests/unit/assemble/test_torch_ahead \
	tests/unit/assemble/test_tree_join \
	tests/unit/assemble/test_values \
	$(NULL)
check_PROGRAMS += $(assemble_tests)
TESTS += $(assemble_tests)
tests_unit_assemble_test_adapter_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_adapter_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_agree_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_agree_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_assign_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_assign_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_coord_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_assemble_test_coord_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_cut_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_cut_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_dtensor_ranges_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)
tests_unit_assemble_test_dtensor_ranges_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_files_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_files_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_names_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir) $(JANSSON_CFLAGS)
tests_unit_assemble_test_names_LDADD = $(ZF_ASSEMBLE) $(JANSSON_LIBS) $(CMOCKA_LIBS)
tests_unit_assemble_test_flat_vector_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_flat_vector_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_py_pattern_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_py_pattern_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_tensor_ref_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_tensor_ref_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_torch_ahead_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_torch_ahead_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS) -lpthread
tests_unit_assemble_test_tree_join_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_tree_join_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
tests_unit_assemble_test_values_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_values_LDADD = $(ZF_ASSEMBLE) $(CMOCKA_LIBS)
endif
