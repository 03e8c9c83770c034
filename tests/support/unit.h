/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka needs four headers in this order; every unit test includes this one. */
#ifndef TESTS_SUPPORT_UNIT_H
#define TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <zf/base/err.h>

/* A failure must say this: code, offset (or ZF_OFF_NONE) and a part of the sentence. */
#define assert_err(err, want_code, want_off, part)                                                 \
    do {                                                                                           \
        assert_int_equal((err)->code, want_code);                                                  \
        assert_int_equal((err)->off, want_off);                                                    \
        if (!strstr((err)->msg, part)) {                                                           \
            fail_msg("\"%s\" is not in \"%s\"", part, (err)->msg);                                 \
        }                                                                                          \
    } while (0)

/* What should have worked says why it did not. */
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        if (!(call)) {                                                                             \
            char text_[800];                                                                       \
            fail_msg("%s: %s", #call, zf_err_text(err, text_, sizeof text_));                      \
        }                                                                                          \
    } while (0)

#endif
