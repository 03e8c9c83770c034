# SPDX-License-Identifier: Apache-2.0
# Commands have tests in tests/cli; here is what can be asked without a checkpoint.
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/cmd/test_options
TESTS += tests/unit/cmd/test_options

tests_unit_cmd_test_options_SOURCES = tests/unit/cmd/test_options.c src/cmd/option_value.c src/cmd/options.c
tests_unit_cmd_test_options_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_cmd_test_options_LDADD = $(ZF_VIEW) $(CMOCKA_LIBS)
endif
