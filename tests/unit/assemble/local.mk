# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
assemble_tests = \
	tests/unit/assemble/test_values \
	$(NULL)
check_PROGRAMS += $(assemble_tests)
TESTS += $(assemble_tests)
tests_unit_assemble_test_values_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_assemble_test_values_LDADD = $(ZF_FORMAT) $(CMOCKA_LIBS)
endif
