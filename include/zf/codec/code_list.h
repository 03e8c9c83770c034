/* SPDX-License-Identifier: Apache-2.0 */
/* The globals of many files' pickles, each once. */
#ifndef ZF_CODEC_CODE_LIST_H
#define ZF_CODEC_CODE_LIST_H

#include <zf/base/table.h>
#include <zf/codec/code.h>

struct zf_code_place {
    char *file, *member; /* owned; member "" = the file itself */
    uint64_t at;         /* byte offset in the file … */
    bool packed;         /* … or, if this is set, in the compressed member */
};

struct zf_code_item {
    UT_hash_handle hh; /* by module and name, each with its NUL */
    enum zf_code_class is;
    uint64_t files; /* number of files that import it */
    uint64_t last;  /* index of the last one of them */
    struct zf_code_place first,
        called; /* called.file NULL: it is neither called nor passed to a call */
};
static inline const char *zf_code_item_module(const struct zf_code_item *i)
{
    return i->hh.key;
}
static inline const char *zf_code_item_name(const struct zf_code_item *i)
{
    return (const char *)i->hh.key + strlen(i->hh.key) + 1;
}

/* A pickle whose walk ended early. */
struct zf_code_stop {
    struct zf_code_place at;
    char *why; /* owned */
    bool
        python_stops; /* Python stops there, too; else only zerofs cannot read on, while Python may */
};

struct zf_code_list {
    struct zf_code_item *items; /* in the order in which they were found */
    zf_vec(struct zf_code_stop) stop;
    uint64_t files, pickles; /* files that have pickles */
    uint64_t last;
};
void zf_code_list_fini(struct zf_code_list *l);
static inline void zf_auto_code_list(struct zf_code_list *l)
{
    zf_code_list_fini(l);
}

/* Adds the globals of src's pickles.  file: its name in struct zf_code_place.  Errors: those of zf_code_file. */
bool zf_code_list_add(struct zf_code_list *l, const char *file, struct zf_source *src,
                      const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif
