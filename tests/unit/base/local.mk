# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
base_tests = \
	tests/unit/base/test_arena \
	$(NULL)
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)

tests_unit_base_test_arena_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_base_test_arena_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
endif
