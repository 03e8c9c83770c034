# SPDX-License-Identifier: Apache-2.0
# The request handlers have tests in tests/mount, where a kernel asks.
if HAVE_CMOCKA
fs_tests = \
	tests/unit/fs/test_ahead \
	tests/unit/fs/test_attach \
	tests/unit/fs/test_mode \
	tests/unit/fs/test_mountpoint \
	$(NULL)
check_PROGRAMS += $(fs_tests)
TESTS += $(fs_tests)

tests_unit_fs_test_ahead_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_fs_test_ahead_LDADD = libzf-fs.la $(ZF_VIEW) $(FUSE_LIBS) $(CMOCKA_LIBS)
tests_unit_fs_test_attach_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_fs_test_attach_LDADD = libzf-fs.la $(ZF_VIEW) $(FUSE_LIBS) $(CMOCKA_LIBS) -ldl
tests_unit_fs_test_mode_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/src
tests_unit_fs_test_mode_LDADD = libzf-fs.la $(ZF_VIEW) $(FUSE_LIBS) $(CMOCKA_LIBS)
tests_unit_fs_test_mountpoint_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_fs_test_mountpoint_LDADD = libzf-fs.la $(ZF_VIEW) $(FUSE_LIBS) $(CMOCKA_LIBS)
endif
