/* SPDX-License-Identifier: Apache-2.0 */
/* For test_code.py: the globals that Python would import for each file named on stdin, one JSON document a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/out.h>
#include <zf/codec/code.h>
#include <zf/source/store.h>

static void put_offset(struct zf_out *o, uint64_t off)
{
    if (off == ZF_OFF_NONE) {
        zf_out_str(o, ",null");
    } else {
        zf_out_str(o, ",");
        zf_out_dec(o, off);
    }
}

static bool put_pickle(void *ctx, const struct zf_code_pickle *p, struct zf_err *err)
{
    struct zf_out *o = ctx;

    zf_out_str(o, o->n > 1 ? ",[" : "[");
    zf_out_json(o, p->member, strlen(p->member));
    zf_out_str(o, ",");
    zf_out_json(o, p->walk->why.msg, strlen(p->walk->why.msg));
    zf_out_str(o, ",[");
    for (size_t i = 0; i < p->walk->use.n; i++) {
        const struct zf_code_use *u = &p->walk->use.at[i];
        const char *is = zf_code_class_name(zf_code_class(u));

        zf_out_str(o, i ? ",[" : "[");
        zf_out_json(o, u->module, strlen(u->module));
        zf_out_str(o, ",");
        zf_out_json(o, u->name, strlen(u->name));
        put_offset(o, u->at);
        put_offset(o, u->called);
        put_offset(o, u->given);
        zf_out_str(o, ",");
        zf_out_json(o, is, strlen(is));
        zf_out_str(o, "]");
    }
    zf_out_str(o, "]]");
    return zf_out_ok(o, err);
}

int main(void)
{
    const struct zf_limits lim = zf_limits_default();
    char path[4096];

    while (fgets(path, sizeof path, stdin)) {
        zf_auto(out) struct zf_out o = {0};
        struct zf_err err;
        char msg[1024];

        path[strcspn(path, "\n")] = '\0';
        zf_auto(store) struct zf_store *st = zf_store_dir(path, &lim, &err);
        zf_auto(source) struct zf_source *src =
            st ? zf_store_open(st, zf_store_focus(st), &err) : NULL;
        zf_out_str(&o, "[");
        if (!src || !zf_code_file(src, &lim, put_pickle, &o, &err)) {
            printf("! %s\n", zf_err_text(&err, msg, sizeof msg));
            continue;
        }
        printf("%s]\n", zf_out_text(&o));
    }
    return 0;
}
