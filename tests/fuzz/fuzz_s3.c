/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are the answer of an object store: a page of a listing, a refusal, credentials of STS.  What a
 * listing tells is never a name that a path could not have, nor the same name twice. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/table.h>

#include "fuzz.h"
#include "src/remote/aws.h"
#include "src/remote/s3_error.h"
#include "src/remote/listings.h"

static void list(const uint8_t *data, size_t size, const char *prefix)
{
    const struct zf_limits lim = {.dir_entries = 100};
    struct zf_err err = {.code = ZF_OK};
    zf_auto(entries) struct entries all = {.text = NULL};
    zf_auto(s3_list) struct s3_list l = {.prefix = prefix, .out = &all};
    bool ok = entries_init(&all, &lim, &err);

    all.once = true;
    /* The same page again is an endless listing as soon as it says that there is more. */
    for (unsigned i = 0; ok && i < 2; i++) {
        ok = s3_list_page(&l, data, size, &err);
        if (ok && !l.more)
            break;
        if (ok ? i == 1 : err.code == ZF_OK || !err.msg[0])
            abort();
    }
    for (size_t i = 0; i < all.n; i++) {
        const char *name = all.at[i].name;

        if (!name[0] || strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0 ||
            entries_find(&all, name) != &all.at[i])
            abort();
    }
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
    if (s3_error_fail(&e, 403, &asked, &err) || strpbrk(err.msg, "\r\n"))
        abort();
    err = (struct zf_err){.code = ZF_OK};
    if (aws_reply_xml(&key, data, size, &err) &&
        !(key.id && key.secret && key.token && key.expires))
        abort();
    return 0;
}
