# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/remote/serve.py

# What is kept on disk.
TESTS += tests/remote/test_cache.py
EXTRA_DIST += tests/remote/test_cache.py

# Fetched before it is asked for.
TESTS += tests/remote/test_ahead.py tests/remote/test_counts.py
EXTRA_DIST += tests/remote/test_ahead.py tests/remote/test_counts.py

# A model kept from one mount to the next.
TESTS += tests/remote/test_kept.py
EXTRA_DIST += tests/remote/test_kept.py

# What src/remote does without a network, against botocore and Python's own modules.
if HAVE_CURL
check_PROGRAMS += tests/remote/aws_dump
tests_remote_aws_dump_SOURCES = tests/remote/aws_dump.c
tests_remote_aws_dump_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_remote_aws_dump_LDADD = $(ZF_REMOTE) $(JANSSON_LIBS)

TESTS += tests/remote/test_aws.py tests/remote/test_s3_list.py
endif
TESTS += tests/remote/test_gs.py tests/remote/test_s3.py
EXTRA_DIST += tests/remote/aws_dump.py tests/remote/s3server.py \
	tests/remote/test_aws.py tests/remote/test_gs.py tests/remote/test_s3.py tests/remote/test_s3_list.py

# Servers are on the loopback, on ports that the kernel chooses, and end with the test.
TESTS += tests/remote/test_transport.py
EXTRA_DIST += tests/remote/test_transport.py

# Answers that are not what was asked for, byte for byte.
TESTS += tests/remote/test_hostile.py
EXTRA_DIST += tests/remote/rawserver.py tests/remote/test_hostile.py

# Places: web servers, a manifest, names, the hub.
TESTS += tests/remote/test_places.py tests/remote/test_nginx.py
EXTRA_DIST += tests/remote/hub.py tests/remote/nginx.py tests/remote/places.py tests/remote/test_places.py tests/remote/test_nginx.py

# Each request fails in turn.
TESTS += tests/remote/test_faults.py
EXTRA_DIST += tests/remote/test_faults.py
