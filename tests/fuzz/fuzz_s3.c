/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are the answer of an object store: a page of a listing, a refusal, credentials of STS.  What a
 * listing tells is never a name that a path could not have, nor the same name twice. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/table.h>

#include "fuzz.h"
#include "src/remote/aws_reply.h"
#include "src/remote/s3_error.h"
#include "src/remote/s3_list.h"

struct told {
    UT_hash_handle hh;
};

static bool tell(void *ctx, const struct place_entry *item, struct zf_err *err)
{
    struct told **told = ctx;

    if (!item->name[0] || strchr(item->name, '/') || strcmp(item->name, "..") == 0 ||
        strcmp(item->name, ".") == 0 || zf_table_find_str(*told, item->name)) {
        abort();
    }
    return zf_table_make_str(*told, item->name, err) != NULL;
}

static void list(const uint8_t *data, size_t size, const char *prefix)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(uthash) struct told *told = NULL;
    zf_auto(s3_list) struct s3_list l = {.prefix = prefix, .max = 100, .add = tell, .ctx = &told};

    /* The same page again is an endless listing as soon as it says that there is more. */
    for (unsigned i = 0; i < 2; i++) {
        if (!s3_list_page(&l, data, size, &err)) {
            if (err.code == ZF_OK || !err.msg[0]) {
                abort();
            }
            return;
        }
        if (!l.more) {
            (void)!s3_list_end(&l, &err);
            return;
        }
    }
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(aws_key) struct aws_key key = {0};
    struct s3_asked asked = {.store = "S3", .bucket = "b", .region = "us-east-1"};
    struct s3_error e;

    list(data, size, "");
    list(data, size, "p/");
    s3_error_read(&e, data, size);
    if (s3_error_fail(&e, 403, &asked, &err) || strpbrk(err.msg, "\r\n")) {
        abort();
    }
    err = (struct zf_err){.code = ZF_OK};
    if (aws_reply_xml(&key, data, size, &err) &&
        !(key.id && key.secret && key.token && key.expires)) {
        abort();
    }
    return 0;
}
