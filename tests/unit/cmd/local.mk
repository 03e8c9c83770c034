# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/cmd/test_words
TESTS += tests/unit/cmd/test_words

tests_unit_cmd_test_words_SOURCES = tests/unit/cmd/test_words.c src/cmd/glob.c src/cmd/nearest.c
tests_unit_cmd_test_words_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_cmd_test_words_LDADD = $(ZF_BASE) $(CMOCKA_LIBS)
endif
