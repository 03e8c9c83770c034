/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts in which a family's saves lie, as a table: probing and opening walk the same rows in the same order, so
 * that they cannot disagree about which layout a save has.
 *
 *     static const struct zf_layout olmo_layout[] = {
 *         {.what = "flat parameters of FSDP in", .file = "rank*.pt", .find = local_find, .open = local_open},
 *         {.what = ...},
 *         {0}};
 */
#ifndef ZF_ASSEMBLE_LAYOUTS_H
#define ZF_ASSEMBLE_LAYOUTS_H

#include <zf/assemble/open_opts.h>
#include <zf/base/err.h>

enum zf_fit {
    ZF_FIT_NO,
    ZF_FIT_WEAK,  /* only optimizer or RNG files: a save in a directory below is preferred */
    ZF_FIT_NAMES, /* file names look right */
    ZF_FIT_PROOF, /* a magic or a manifest was read */
};
struct zf_probe {
    enum zf_fit fit;
    /* the save was not written completely: others next to it are preferred */
    bool unfinished;
    char why[160]; /* shown by `info` and in the tie error */
};

/* The save that a family probes or opens.  Everything is borrowed. */
struct zf_save {
    struct zf_store *store; /* the directory of the save */
    struct zf_store *run;   /* the run directory that names it (-o tag, latest), or NULL */
    /* the directory in which the save was found; NULL: the user named the save itself */
    struct zf_store *outer;
    const char *tag; /* path from `run` to the save, or NULL */
    const char
        *file; /* the single file in `store` that the user named; NULL: the whole directory */
};

struct zf_layout {
    const char *what; /* first words of zf_probe.why, which ends with the location */
    const char *file; /* last part of the location, after the directory; or NULL */
    enum zf_fit
        fit; /* how certain the layout is when it is found; ZF_FIT_NO stands for ZF_FIT_PROOF */
    bool unfinished;
    /* The directory (or file) of the layout, "" for the root; NULL: it is not there.  Static, or borrowed from a
     * listing.  Looks at names and file headers; what cannot be read is not there (the store counts it). */
    const char *(*find)(const struct zf_save *save, const struct zf_open_opts *o);
    /* Drafts everything of the save; ctx: that of zf_layouts_open. */
    bool (*open)(void *ctx, const char *where, struct zf_err *err);
};

/* Probes for the first row that is found.  The table ends with a row without `find`. */
void zf_layouts_probe(const struct zf_layout *rows, const struct zf_save *save,
                      const struct zf_open_opts *o, struct zf_probe *out);
/* Opens the first row that is found.  Errors: ZF_E_UNKNOWN none is; of its open. */
bool zf_layouts_open(const struct zf_layout *rows, const struct zf_save *save,
                     const struct zf_open_opts *o, void *ctx, struct zf_err *err) ZF_CHECKED;

#endif
