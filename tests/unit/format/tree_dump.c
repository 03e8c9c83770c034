/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a checkpoint and prints what it holds, one tab-separated line a thing:
 * "tensor SET NAME DTYPE SHAPE HEX", "blob PATH TEXT" (\n as spaces), "note TEXT".  For test
 * scripts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/find.h>

static bool print_bytes(const struct zf_map *m, bool hex)
{
    struct zf_err err = {.code = ZF_OK};
    size_t n = (size_t)zf_map_size(m);
    zf_auto(mem) unsigned char *p = malloc(n + 1);

    if (!p || !zf_map_read(m, p, n, 0, &err)) {
        printf("unreadable: %s", err.msg);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (hex)
            printf("%02x", p[i]);
        else
            putchar(p[i] == '\n' ? ' ' : p[i]);
    return true;
}

static void print_set(const struct zf_set *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct zf_tensor *t = &s->tensor[i];

        printf("tensor\t%s\t%s\t%s\t", s->path, t->name, zf_dtype_info(t->dtype)->suffix);
        for (uint32_t d = 0; d < t->ndim; d++)
            printf("%s%" PRIu64, d ? "," : "", t->shape[d]);
        putchar('\t');
        print_bytes(t->data, true);
        printf("\t%s\n", s->tensor[t->alias_of].name);
    }
}

int main(int argc, char **argv)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_open_opts o = {.lim = &lim};
    struct zf_err err = {.code = ZF_OK};
    char text[800];

    for (; argc > 2; argc--, argv++) {
        o.fill_lost = o.fill_lost || strcmp(argv[1], "-n") == 0; /* degraded, lost values are NaN */
        o.degraded = o.degraded || o.fill_lost || strcmp(argv[1], "-d") == 0;
        o.tp_rules = strncmp(argv[1], "-r", 2) == 0 ? argv[1] + 2 : o.tp_rules;
    }
    zf_auto(store) struct zf_store *st = argc == 2 ? zf_store_dir(argv[1], &lim, &err) : NULL;
    zf_auto(checkpoint) struct zf_checkpoint *c = st ? zf_open(st, &o, &err) : NULL;
    if (!c) {
        fprintf(stderr, "%s\n", zf_err_text(&err, text, sizeof text));
        return 1;
    }
    printf("format\t%s\t%s\n", c->format, c->has_step ? "step" : "");
    for (uint32_t i = 0; i < c->n_sets; i++)
        print_set(&c->set[i]);
    for (uint32_t i = 0; i < c->n_blobs; i++) {
        printf("blob\t%s\t", c->blob[i].path);
        print_bytes(c->blob[i].data, false);
        putchar('\n');
    }
    for (uint32_t i = 0; i < c->n_notes; i++)
        printf("note\t%s\n", c->note[i].text);
    return 0;
}
