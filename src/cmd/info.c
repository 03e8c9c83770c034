/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs info: what a checkpoint holds, as text or JSON, without a mount. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/codec/json.h>
#include <zf/overlay/index.h>
#include <zf/mountpoint.h>
#include <zf/overlay/lost.h>

#include "info.h"
#include "mounted.h"
#include "open.h"
#include "print.h"

/* A set in numbers: names, and bytes and elements of every tied tensor once. */
struct tally {
    uint64_t tensors, elems, bytes, lost;
    uint64_t of_type[ZF_DT_COUNT];
};

static struct tally info_count(const struct zf_set *s)
{
    struct tally t = {0};

    for (uint32_t i = 0; i < s->n; i++) {
        const struct zf_tensor *x = &s->tensor[i];
        uint64_t n;

        t.tensors++;
        t.lost += x->lost;
        t.of_type[x->dtype]++;
        if (x->alias_of == i && zf_elems(x->ndim, x->shape, &n)) {
            t.elems += n;
            t.bytes += zf_map_size(x->data);
        }
    }
    return t;
}

static void info_print_set(const struct zf_set *s)
{
    struct tally t = info_count(s);
    const char *sep = "";

    (void)printf("  /%-24s %8" PRIu64 " tensors  %14" PRIu64 " elements  ", s->path, t.tensors,
                 t.elems);
    print_bytes(stdout, t.bytes);
    (void)fputs("  (", stdout);
    for (int d = 0; d < ZF_DT_COUNT; d++) {
        if (t.of_type[d]) {
            (void)printf("%s%s", sep, zf_dtype_info((enum zf_dtype)d)->suffix);
            sep = " ";
        }
    }
    (void)fputs(")", stdout);
    if (t.lost) {
        (void)printf("  %" PRIu64 " damaged", t.lost);
    }
    (void)fputc('\n', stdout);
}

static void info_print_host(void *ctx, const struct zf_host_stats *s)
{
    (void)ctx;
    (void)printf("fetched  ");
    print_bytes(stdout, s->bytes);
    (void)printf(" from %s in %" PRIu64 " requests, %" PRIu64 " of them again\n", s->host,
                 s->requests, s->retries);
}

/* The commit that an address of the hub was resolved to.  NULL: there is none. */
static const char *info_at(const char *path, const struct zf_checkpoint *c)
{
    const char *at = zf_store_name(c->store);

    return strncmp(path, "hf://", 5) == 0 && strcmp(path, at) != 0 ? at : NULL;
}

/* The file system of a checkpoint that lies across a network or in user space, and for how long it may hide a change
 * from whoever looks, by default.  docs/sources.md has what was tried. */
struct info_source {
    struct zf_mount mount;
    const char *hides;
};

static bool info_source(const struct zf_checkpoint *c, const char *path, struct info_source *out)
{
    static const struct {
        const char *type, *hides;
    } known[] = {
        {"fuse.rclone", "for 5 minutes (--dir-cache-time)"},
        {"fuse.s3fs", "for 15 minutes (-o stat_cache_expire)"},
        {"fuse.sshfs", "for 20 seconds (-o dcache_timeout)"},
        {"nfs", "for 60 seconds (-o actimeo)"},
        {"nfs4", "for 60 seconds (-o actimeo)"},
    };

    if (!zf_store_lags(c->store)) {
        return false;
    }
    *out = (struct info_source){.hides = "as long as it keeps attributes"};
    if (!zf_mount_at(path, &out->mount) || !out->mount.type[0]) {
        memcpy(out->mount.type, "unknown", sizeof "unknown");
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        out->hides = strcmp(known[i].type, out->mount.type) ? out->hides : known[i].hides;
    }
    return true;
}

static void info_print_text(const char *path, const struct zf_checkpoint *c, const char *config)
{
    const char *at = info_at(path, c);
    struct info_source on;

    (void)printf("%s\n", path);
    if (at) {
        (void)printf("commit   %s\n", at);
    }
    if (info_source(c, path, &on)) {
        (void)printf("on       %s: what changes there may stay hidden %s\n", on.mount.type,
                     on.hides);
    }
    (void)printf("format   %s: %s\n", c->format, c->why);
    if (c->tag[0]) {
        (void)fputs("tag      ", stdout);
        print_name(stdout, c->tag);
        (void)fputc('\n', stdout);
    }
    if (c->has_step) {
        (void)printf("step     %" PRId64 "\n", c->step);
    }
    (void)printf("pieces   %" PRIu64 "\n", c->n_pieces);
    (void)fputs("sets\n", stdout);
    for (uint32_t i = 0; i < c->n_sets; i++) {
        info_print_set(&c->set[i]);
    }
    if (c->n_blobs) {
        (void)printf("files    %" PRIu32 " beside the tensors\n", c->n_blobs);
    }
    if (c->kept) {
        (void)puts(
            "model    kept from an earlier time; nothing has changed since, and no shard was read");
    }
    zf_store_hosts(c->store, info_print_host, NULL);
    lost_print(stdout, c);
    for (uint32_t i = 0; i < c->n_notes + (config != NULL); i++) {
        (void)fputs(i ? "         " : "notes    ", stdout);
        print_name(stdout, i < c->n_notes ? c->note[i] : config);
        (void)fputc('\n', stdout);
    }
}

static json_t *info_json_set(const struct zf_set *s)
{
    struct tally t = info_count(s);
    json_t *types = json_object();

    for (int d = 0; d < ZF_DT_COUNT; d++) {
        if (t.of_type[d]) {
            (void)json_object_set_new(types, zf_dtype_info((enum zf_dtype)d)->suffix,
                                      json_integer((json_int_t)t.of_type[d]));
        }
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "path", s->path, "tensors",
                     (json_int_t)t.tensors, "elements", (json_int_t)t.elems, "bytes",
                     (json_int_t)t.bytes, "damaged", (json_int_t)t.lost, "dtypes", types);
}

static void info_print_json(const char *path, const struct zf_checkpoint *c, const char *config)
{
    json_t *sets = json_array(), *notes = zf_index_notes(c);

    for (uint32_t i = 0; i < c->n_sets; i++) {
        (void)json_array_append_new(sets, info_json_set(&c->set[i]));
    }
    if (config) {
        (void)json_array_append_new(notes, json_string(config));
    }
    json_t *j = json_pack("{s:s, s:o, s:s, s:o, s:o, s:o?, s:I, s:o, s:I, s:o, s:o}", "schema",
                          "zerofs.info/1", "path", zf_json_text(path), "format", c->format, "why",
                          zf_json_text(c->why), "tag", zf_json_text(c->tag), "step",
                          c->has_step ? json_integer(c->step) : NULL, "pieces",
                          (json_int_t)c->n_pieces, "sets", sets, "files", (json_int_t)c->n_blobs,
                          "notes", notes, "lost", zf_lost_json(c));
    json_t *hosts = json_array();
    zf_store_hosts(c->store, zf_index_add_host, hosts);
    if (json_array_size(hosts)) {
        (void)json_object_set(j, "hosts", hosts);
    }
    json_decref(hosts);
    struct info_source on;
    if (info_source(c, path, &on)) {
        (void)json_object_set_new(
            j, "on", json_pack("{s:s, s:s}", "type", on.mount.type, "hides", on.hides));
    }
    if (info_at(path, c)) {
        (void)json_object_set_new(j, "at", json_string(info_at(path, c)));
    }
    (void)json_object_set_new(j, "model_kept", json_boolean(c->kept));
    (void)json_dumpf(j, stdout, JSON_INDENT(1));
    (void)fputc('\n', stdout);
    json_decref(j);
}

int cmd_info(const struct opts *o, int n, char **word)
{
    struct zf_err err;
    zf_auto(checkpoint) struct zf_checkpoint *c = open_checkpoint(word[0], o, &err);

    (void)n;
    if (!c) {
        size_t len = strlen(err.msg);

        mounted_modes_say(word[0], err.msg + len, sizeof err.msg - len);
        return cmd_fail(&err);
    }
    zf_auto(mem) char *config = config_note(c, &o->lim);
    if (o->json) {
        info_print_json(word[0], c, config);
    } else {
        info_print_text(word[0], c, config);
    }
    return cmd_finish(EXIT_OK);
}
