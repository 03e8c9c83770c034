/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a file of settings, or what a credential service answers. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "src/remote/aws.h"
#include "src/remote/gs.h"

static void settings(const char *p, size_t n)
{
    struct zf_err err = {.code = ZF_OK};
    zf_auto(ini) struct ini ini = {0};

    if (!ini_parse(&ini, p, n, &err))
        return;
    for (size_t i = 0; i < ini.option.n; i++) {
        if (!ini.option.at[i].value || ini.option.at[i].section >= ini.section.n)
            abort();
        free(ini_nested(ini.option.at[i].value, "endpoint_url"));
    }
    for (size_t i = 0; i < ini.section.n && i < 20; i++) {
        (void)ini_section_of(&ini, "profile", ini.section.at[i]);
        (void)ini_get(&ini, i, "region");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    struct zf_err err = {.code = ZF_OK};
    zf_auto(aws_key) struct aws_key key = {0};
    zf_auto(gs_cred) struct gs_cred cred = {0};
    zf_auto(out) struct zf_out form = {0};
    uint64_t seconds;
    char *token = NULL;

    settings(p, size);
    if (aws_reply_json(&key, p, size, &err) && !(key.id && key.secret && key.token && key.expires))
        abort();
    if (gs_cred_token(p, size, &token, &seconds, &err) != (token != NULL))
        abort();
    free(token);
    if (gs_cred_read(&cred, p, size, &err))
        (void)!gs_cred_form(&cred, 1767323045, &form, &err);
    return 0;
}
