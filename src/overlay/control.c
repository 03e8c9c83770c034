/* SPDX-License-Identifier: Apache-2.0 */
/* A tree around a tree: handles inode numbers above 2^63, which no checkpoint's tree uses, and the
 * name .zerofs in the root; everything else is passed to the inner tree. */
#include <zf/base/thread.h>
#include <zf/overlay/control.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zf/codec/json.h>
#include <zf/overlay/index.h>
#include <zf/overlay/lost.h>
#include <zf/view.h>

/* The first inode number that no checkpoint's tree uses. */
#define BASE (1ull << 63)

/* MOUNT and those after it exist only in a mount; otherwise only the files before it are listed. */
enum control_file { DIR_ITSELF, INDEX, STATS, LOG, MOUNT, MODES, N_FILES };

static const char *const names[N_FILES] = {
    [DIR_ITSELF] = ".zerofs", [INDEX] = "index.json", [STATS] = "stats.json", [LOG] = "log",
    [MOUNT] = "mount.json",   [MODES] = "modes.json"};

struct control {
    struct zf_tree base;
    struct zf_tree *inner; /* or NULL */
    struct zf_control_opts o;
    pthread_mutex_t lock; /* protects the index, which is made at the first use */
    char *index;
    size_t index_len;
    char *mount;         /* NULL = none */
    char *_Atomic modes; /* NULL = not known yet; set once */
    uint16_t withheld;   /* permission bits removed from all modes */
};

static struct control *control_of(struct zf_tree *t)
{
    return (struct control *)t;
}

static bool control_mine(uint64_t ino, enum control_file *out)
{
    if (ino < BASE || ino - BASE >= N_FILES)
        return false;
    *out = (enum control_file)(ino - BASE);
    return true;
}

/* The tree that an inode number belongs to; NULL: a control file, or there is no tree. */
static struct zf_tree *control_inner(struct zf_tree *t, uint64_t ino)
{
    enum control_file f;

    return control_mine(ino, &f) ? NULL : control_of(t)->inner;
}

static const char *control_index_once(struct control *c, size_t *n_out, struct zf_err *err)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&c->lock);
    if (!c->index)
        c->index = c->o.index(c->o.ctx, &c->index_len, err);
    *n_out = c->index_len;
    return c->index;
}

/* The current text of a control file; *owned_out: must the caller free it? */
static const char *control_text_of(struct control *c, enum control_file f, size_t *n_out,
                                   bool *owned_out, struct zf_err *err)
{
    *owned_out = f < MOUNT && (f != INDEX || c->o.live);
    if (f >= MOUNT) {
        const char *modes = c->modes, *known = f == MOUNT ? c->mount : modes ? modes : "";

        *n_out = c->mount ? strlen(known) : 0;
        return c->mount ? known
                        : zf_null(zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "this is not a mount"));
    }
    if (!*owned_out)
        return control_index_once(c, n_out, err);
    char *text = f == INDEX   ? c->o.index(c->o.ctx, n_out, err)
                 : f == STATS ? c->o.stats(c->o.ctx, n_out, err)
                 : c->o.log   ? zf_log_text(c->o.log, n_out)
                              : c->o.log_text(c->o.ctx, n_out);
    if (!text && f == LOG)
        (void)zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the log");
    return text;
}

static bool control_stat_mine(struct control *c, enum control_file f, struct zf_stat *out)
{
    struct zf_err err;
    struct zf_stat root;

    *out = (struct zf_stat){.ino = BASE + f,
                            .kind = ZF_NODE_FILE,
                            .nlink = 1,
                            .live = f != MOUNT && (c->o.live || f != INDEX)};
    if (c->inner && c->inner->ops->stat(c->inner, ZF_TREE_ROOT, &root))
        out->mtime = root.mtime;
    if (f == DIR_ITSELF) {
        out->kind = ZF_NODE_DIR;
        out->nlink = 2;
        out->live = c->o.live;
        return true;
    }
    bool owned;
    size_t n;
    const char *text = control_text_of(c, f, &n, &owned, &err);
    out->size = text ? n : 0;
    if (owned)
        free((char *)text);
    return text != NULL;
}

static bool control_lookup(struct zf_tree *t, uint64_t dir, const char *name, struct zf_stat *out)
{
    struct control *c = control_of(t);
    struct zf_tree *in = control_inner(t, dir);

    if (dir == ZF_TREE_ROOT && strcmp(name, names[DIR_ITSELF]) == 0)
        return control_stat_mine(c, DIR_ITSELF, out);
    if (dir != BASE + DIR_ITSELF)
        return in && in->ops->lookup(in, dir, name, out);
    for (int f = INDEX; f < N_FILES; f++)
        if (strcmp(names[f], name) == 0)
            return control_stat_mine(c, (enum control_file)f, out);
    return false;
}

static bool control_found(const struct control *c, bool found, struct zf_stat *out)
{
    if (found)
        out->withheld |= c->withheld;
    return found;
}

static bool control_op_lookup(struct zf_tree *t, uint64_t dir, const char *name,
                              struct zf_stat *out)
{
    return control_found(control_of(t), control_lookup(t, dir, name, out), out);
}

static bool control_stat(struct control *c, uint64_t ino, struct zf_stat *out)
{
    enum control_file f;

    if (control_mine(ino, &f))
        return control_stat_mine(c, f, out);
    if (c->inner)
        return c->inner->ops->stat(c->inner, ino, out);
    *out = (struct zf_stat){.ino = ino, .kind = ZF_NODE_DIR, .nlink = 2, .live = true};
    return ino == ZF_TREE_ROOT;
}

static bool control_op_stat(struct zf_tree *t, uint64_t ino, struct zf_stat *out)
{
    struct control *c = control_of(t);

    return control_found(c, control_stat(c, ino, out), out);
}

static bool control_entry(struct zf_tree *t, uint64_t dir, uint64_t at, char *name,
                          struct zf_stat *out)
{
    struct control *c = control_of(t);
    struct zf_tree *in = control_inner(t, dir);

    if (dir != BASE + DIR_ITSELF)
        return in && in->ops->entry(in, dir, at, name, out);
    if (at >= (c->mount ? N_FILES : MOUNT) - INDEX)
        return false;
    strcpy(name, names[INDEX + at]);
    return control_stat_mine(c, (enum control_file)(INDEX + at), out);
}

static bool control_op_entry(struct zf_tree *t, uint64_t dir, uint64_t at, char *name,
                             struct zf_stat *out)
{
    return control_found(control_of(t), control_entry(t, dir, at, name, out), out);
}

static bool control_op_parent(struct zf_tree *t, uint64_t dir, uint64_t *out)
{
    struct zf_tree *in = control_inner(t, dir);

    *out = ZF_TREE_ROOT;
    return !in || in->ops->parent(in, dir, out);
}

static bool control_op_enter(struct zf_tree *t, uint64_t dir, struct zf_err *err)
{
    const struct control *c = control_of(t);
    struct zf_tree *in = control_inner(t, dir);

    if (dir >= BASE || (in && (!in->ops->enter || in->ops->enter(in, dir, err))))
        return true;
    if (!in)
        c->o.why(c->o.ctx, err);
    if (c->o.tells)
        zf_log_say(c->o.log, err);
    return false;
}

/* Makes hf/ ready first, because the index lists it and so its size depends on it. */
static bool control_op_ready(struct zf_tree *t, uint64_t dir, const char *name, struct zf_err *err)
{
    const struct control *c = control_of(t);
    enum control_file f;

    if (!control_mine(dir, &f))
        return !c->inner || !c->inner->ops->ready || c->inner->ops->ready(c->inner, dir, name, err);
    return !c->o.ready || (name && strcmp(name, names[INDEX]) != 0) || c->o.ready(c->o.ctx, err);
}

static bool control_op_read(struct zf_tree *t, uint64_t ino, void *buf, size_t n, uint64_t off,
                            size_t *n_out, struct zf_err *err)
{
    struct control *c = control_of(t);
    enum control_file f;
    bool owned;
    size_t len = 0;

    *n_out = 0;
    if (!control_mine(ino, &f)) {
        return c->inner ? c->inner->ops->read(c->inner, ino, buf, n, off, n_out, err)
                        : zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "no file has inode %llu",
                                  (unsigned long long)ino);
    }
    if (f == DIR_ITSELF)
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "a directory cannot be read");
    const char *text = control_text_of(c, f, &len, &owned, err);
    if (text && off < len) {
        *n_out = len - off < n ? (size_t)(len - off) : n;
        memcpy(buf, text + off, *n_out);
    }
    if (owned)
        free((char *)text);
    return text != NULL;
}

static void control_op_want(struct zf_tree *t, uint64_t ino, uint64_t off, uint64_t n,
                            enum zf_prefetch how)
{
    struct zf_tree *in = control_inner(t, ino);

    if (in && in->ops->want)
        in->ops->want(in, ino, off, n, how);
}

static bool control_op_readlink(struct zf_tree *t, uint64_t ino, char *buf, size_t n)
{
    struct zf_tree *in = control_inner(t, ino);

    return in && in->ops->readlink && in->ops->readlink(in, ino, buf, n);
}

static bool control_op_xattr(struct zf_tree *t, uint64_t ino, size_t i, struct zf_xattr *out)
{
    struct zf_tree *in = control_inner(t, ino);

    return in && in->ops->xattr(in, ino, i, out);
}

/* The inner tree's count; the numbers of the control files are far above. */
static uint64_t control_op_inos(struct zf_tree *t)
{
    struct zf_tree *in = control_of(t)->inner;

    return in && in->ops->inos ? in->ops->inos(in) : 0;
}

/* The control files exist as long as the tree. */
static bool control_op_hold(struct zf_tree *t, uint64_t ino)
{
    struct zf_tree *in = control_inner(t, ino);

    return !in || !in->ops->hold || in->ops->hold(in, ino);
}

static void control_op_drop(struct zf_tree *t, uint64_t ino)
{
    struct zf_tree *in = control_inner(t, ino);

    if (in && in->ops->drop)
        in->ops->drop(in, ino);
}

static void control_op_totals(struct zf_tree *t, uint64_t *files, uint64_t *bytes)
{
    struct zf_tree *in = control_of(t)->inner;

    *files = *bytes = 0;
    if (in)
        in->ops->totals(in, files, bytes);
}

static void control_op_free(struct zf_tree *t)
{
    struct control *c = control_of(t);

    zf_tree_free(c->inner);
    (void)pthread_mutex_destroy(&c->lock);
    free(c->index);
    free(c->mount);
    free(c->modes);
    free(c);
}

static const struct zf_tree_ops ops = {
    .lookup = control_op_lookup,
    .stat = control_op_stat,
    .entry = control_op_entry,
    .parent = control_op_parent,
    .enter = control_op_enter,
    .ready = control_op_ready,
    .read = control_op_read,
    .want = control_op_want,
    .readlink = control_op_readlink,
    .xattr = control_op_xattr,
    .totals = control_op_totals,
    .inos = control_op_inos,
    .hold = control_op_hold,
    .drop = control_op_drop,
    .free = control_op_free,
};

struct zf_tree *zf_control_new(struct zf_tree *inner, const struct zf_control_opts *o,
                               struct zf_err *err)
{
    struct control *c = calloc(1, sizeof *c);

    if (!c) {
        (void)zf_fail_sys(err, "make the control files");
        zf_tree_free(inner);
        return NULL;
    }
    c->base.ops = &ops;
    c->base.follows = inner && inner->follows;
    c->inner = inner;
    c->o = *o;
    (void)pthread_mutex_init(&c->lock, NULL);
    return &c->base;
}

void zf_control_set_mount(struct zf_tree *t, char *text)
{
    free(control_of(t)->mount);
    control_of(t)->mount = text;
}

void zf_control_set_modes(struct zf_tree *t, char *text)
{
    char *none = NULL;

    if (!atomic_compare_exchange_strong(&control_of(t)->modes, &none, text))
        free(text);
}

void zf_control_withhold(struct zf_tree *t, uint16_t bits)
{
    control_of(t)->withheld |= bits;
}

/* ---- one checkpoint -------------------------------------------------------------------------- */

static bool control_checkpoint_ready(void *ctx, struct zf_err *err)
{
    return zf_tree_model(ctx, err) != NULL;
}

static char *control_checkpoint_index(void *ctx, size_t *n_out, struct zf_err *err)
{
    const struct zf_checkpoint *c = zf_tree_model(ctx, err);

    return c ? zf_index_text(c, n_out, err) : NULL;
}

static void control_add_file(void *ctx, const struct zf_file_stats *s)
{
    json_t *files = ctx;

    (void)json_array_append_new(
        files, json_pack("{s:o, s:I, s:I, s:I, s:I}", "file", zf_json_text(s->path), "size",
                         (json_int_t)s->size, "reads", (json_int_t)s->reads, "bytes",
                         (json_int_t)s->bytes, "errors", (json_int_t)s->errors));
}

static char *control_checkpoint_stats(void *ctx, size_t *n_out, struct zf_err *err)
{
    struct zf_store *st = zf_tree_checkpoint(ctx)->store;
    json_t *files = json_array(), *hosts = json_array();

    zf_store_stats(st, control_add_file, files);
    zf_store_hosts(st, zf_index_add_host, hosts);
    return zf_index_dump(json_pack("{s:s, s:b, s:o, s:o}", "schema", "zerofs.stats/1", "model_kept",
                                   zf_tree_checkpoint(ctx)->kept, "sources", files, "hosts", hosts),
                         n_out, err);
}

/* How the model came, unless it was read and there was no other. */
static void control_say_kept(const struct zf_checkpoint *c, struct zf_log *log)
{
    struct zf_err said;

    zf_err_clear(&said);
    if (c->kept || c->not_kept) {
        (void)zf_fail(&said, ZF_E_STALE, ZF_OFF_NONE,
                      c->kept ? "metadata from the model cache; the checkpoint is unchanged%s"
                              : "%s",
                      c->kept ? "" : c->not_kept);
        zf_log_note(log, &said);
    }
}

struct zf_tree *zf_control_checkpoint(struct zf_tree *inner, struct zf_log *log, struct zf_err *err)
{
    struct zf_control_opts o = {.log = log,
                                .tells = true,
                                .ready = control_checkpoint_ready,
                                .index = control_checkpoint_index,
                                .stats = control_checkpoint_stats,
                                .ctx = inner};

    control_say_kept(zf_tree_checkpoint(inner), log);
    zf_lost_say(zf_tree_checkpoint(inner), log);
    return zf_control_new(inner, &o, err);
}
