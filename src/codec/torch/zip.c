/* SPDX-License-Identifier: Apache-2.0 */
/* torch.save since 1.6: a zip with one pickle and a member per storage.
 * Source: torch/serialization.py _save, caffe2/serialize/inline_container.cc. */
#include <string.h>

#include <zf/base/name.h>

#include "file.h"

/* Finds the archive's folder, that of data.pkl.  torch takes it from the first member, but a re-zipped
 * archive may begin with any member.  Two data.pkl at the same level are refused as ambiguous. */
static bool zip_find_prefix(struct zf_torch *t, uint64_t *pkl_out, struct zf_err *err)
{
    uint64_t top = 0, any = 0, pkl = 0;

    for (uint64_t i = 0; i < t->n_records; i++) {
        const char *name = zf_zip_member(t->zip, i).name;

        if (!zf_name_ends(name, "/data.pkl"))
            continue;
        if (strchr(name, '/') + strlen("/data.pkl") == name + strlen(name))
            pkl = top++ == 0 ? i : pkl;
        else if (any++ == 0 && top == 0)
            pkl = i;
    }
    if (top > 1 || (top == 0 && any > 1)) {
        return torch_bad(t, err, ZF_E_FORMAT, "%llu members are named data.pkl, expected one",
                         (unsigned long long)(top ? top : any));
    }
    if (top + any == 0) {
        return torch_bad(t, err, ZF_E_UNKNOWN,
                         "a zip archive, but not written by torch.save: it has no data.pkl");
    }
    const char *name = zf_zip_member(t->zip, pkl).name;

    t->prefix = zf_arena_str(t->arena, name, strlen(name) - strlen("data.pkl"), err);
    *pkl_out = pkl;
    return t->prefix != NULL;
}

/* Finds the index of the member prefix + dir + name. */
static bool zip_find_member(struct zf_torch *t, const char *dir, const char *name, uint64_t *i_out)
{
    char buf[256];
    size_t need = strlen(t->prefix) + strlen(dir) + strlen(name) + 1;
    zf_auto(mem) char *big = need > sizeof buf ? malloc(need) : NULL;
    char *p = need > sizeof buf ? big : buf;

    if (!p)
        return false;
    stpcpy(stpcpy(stpcpy(p, t->prefix), dir), name);
    *i_out = t->zip_next;
    if (*i_out < t->n_records && strcmp(zf_zip_member(t->zip, *i_out).name, p) == 0)
        return true;
    return zf_zip_find(t->zip, p, i_out);
}

/* Reads the record `byteorder`; torch before 2.1 has none. */
static bool zip_load_byteorder(struct zf_torch *t, struct zf_err *err)
{
    uint64_t i;
    char word[8] = "";

    if (!zip_find_member(t, "", "byteorder", &i))
        return true;
    zf_auto(source) struct zf_source *src = zf_zip_source(t->zip, i, err);

    if (!src || !zf_source_pread(src, word, src->size < 7 ? src->size : 7, 0, err))
        return false;
    t->big = strcmp(word, "big") == 0;
    if (!t->big && strcmp(word, "little") != 0)
        return torch_bad(t, err, ZF_E_FORMAT, "byteorder is \"%s\", not little or big", word);
    return true;
}

static bool zip_load_pickle(struct zf_torch *t, uint64_t pkl, struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_zip_source(t->zip, pkl, err);

    if (!src)
        return false;
    if (src->size > t->lim.pickle_bytes) {
        return zf_fail_limit(err, ZF_LIMIT_pickle_bytes, ZF_OFF_NONE,
                             "data.pkl has %llu bytes, more than the limit pickle_bytes=%llu",
                             (unsigned long long)src->size,
                             (unsigned long long)t->lim.pickle_bytes) ||
               zf_err_in(err, "%s", t->src->name);
    }
    /* Refuses a decompression bomb before inflating it. */
    if (src->size > src->stored && src->size - src->stored > t->lim.meta_slack) {
        return zf_fail_limit(err, ZF_LIMIT_meta_slack, ZF_OFF_NONE,
                             "data.pkl has %llu bytes but only %llu on disk, which is more to "
                             "decompress than the limit meta_slack=%llu",
                             (unsigned long long)src->size, (unsigned long long)src->stored,
                             (unsigned long long)t->lim.meta_slack) ||
               zf_err_in(err, "%s", t->src->name);
    }
    zf_auto(mem) uint8_t *p = malloc(src->size ? src->size : 1);

    if (!p)
        return torch_no_room(t, src->size, err);
    if (!zf_source_pread(src, p, src->size, 0, err))
        return false;
    const uint8_t *text = p; /* t may take ownership below */
    t->pickle_bytes = src->stored;
    if (torch_known_take(t, &p, src->size))
        return true;
    struct zf_bytes in = zf_bytes_of(text, src->size);
    t->root = zf_pickle_load_with(
        &in, t->arena, &t->lim,
        &(struct zf_pickle_with){.stored = src->stored, .folded = torch_form_folds}, err);
    return t->root || zf_err_in(err, "%s", src->name);
}

static bool zip_find(struct zf_torch *t, const char *key, uint64_t *record_out, uint64_t *bytes_out,
                     struct zf_err *err)
{
    if (!zip_find_member(t, "data/", key, record_out)) {
        return torch_bad(t, err, ZF_E_FORMAT,
                         "storage \"%.80s\" is missing: there is no member \"%.80sdata/%.80s\"",
                         key, t->prefix, key);
    }
    t->zip_next = *record_out + 1;
    *bytes_out = zf_zip_member(t->zip, *record_out).size;
    return true;
}

static struct zf_source *zip_open(struct zf_torch *t, uint64_t record, uint64_t bytes,
                                  struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = zf_zip_source(t->zip, record, err);

    if (!src || src->size == bytes)
        return src ? zf_source_ref(src) : NULL;
    return zf_window_new(src, 0, bytes, NULL, err);
}

/* True for members below data/ and, for tensors in the code of TorchScript, constants/. */
static bool zip_is_storage(const struct zf_torch *t, uint64_t record)
{
    const struct zf_zip_member m = zf_zip_member(t->zip, record);
    size_t n = strlen(t->prefix);
    bool inside = strncmp(m.name, t->prefix, n) == 0;

    return inside && m.size > 0 &&
           (strncmp(m.name + n, "data/", strlen("data/")) == 0 ||
            strncmp(m.name + n, "constants/", strlen("constants/")) == 0);
}

/* Has another file the same pickle?  torch writes data.pkl first, so the end record, the first entry and that member
 * answer this; the other entries of such a file, whose data are not needed, are never read.  Failures are
 * ignored here: they occur again when the archive is opened. */
static bool zip_is_known(struct zf_torch *t)
{
    struct zf_err err;

    if (!t->known)
        return false;
    zf_auto(zip) struct zf_zip *z = zf_zip_open_first(t->src, &t->lim, &err);
    const struct zf_zip_member m =
        z && zf_zip_count(z) ? zf_zip_member(z, 0) : (struct zf_zip_member){.name = ""};
    const char *slash = strchr(m.name, '/');

    if (!slash || strcmp(slash, "/data.pkl") != 0 || m.method != 0 ||
        !torch_known_may_have(t, m.size))
        return false;
    zf_auto(source) struct zf_source *src = zf_zip_source(z, 0, &err);
    zf_auto(mem) uint8_t *p = src ? malloc((size_t)m.size) : NULL;

    if (!p || !zf_source_pread(src, p, (size_t)m.size, 0, &err) || !torch_known_has(t, p, m.size))
        return false;
    t->pickle_bytes = m.size;
    return true;
}

static const struct torch_container_ops zip_ops = {
    .name = "zip",
    .is_storage = zip_is_storage,
    .find = zip_find,
    .open = zip_open,
};

static const struct torch_container_ops script_ops = {
    .name = "torchscript",
    .is_storage = zip_is_storage,
    .find = zip_find,
    .open = zip_open,
};

bool torch_zip_open(struct zf_torch *t, struct zf_err *err)
{
    uint64_t pkl = 0, i;

    if (zip_is_known(t))
        return true;
    t->zip = zf_zip_open(t->src, &t->lim, err);
    if (!t->zip)
        return false;
    t->n_records = zf_zip_count(t->zip);
    t->met = calloc(t->n_records ? (size_t)t->n_records : 1, sizeof *t->met);
    if (!t->met)
        return zf_fail_sys(err, "allocate memory");
    if (!zip_find_prefix(t, &pkl, err) || !zip_load_byteorder(t, err) ||
        !zip_load_pickle(t, pkl, err))
        return false;
    /* Overlapping members would make two tensors of the same bytes.  All storages are checked at once,
     * because most of them are needed in any case. */
    if (!zf_zip_check_overlap(t->zip, err))
        return false;
    t->ops = zip_find_member(t, "", "constants.pkl", &i) ? &script_ops : &zip_ops;
    return true;
}
