/* SPDX-License-Identifier: Apache-2.0 */
/* Is a .distcp file the one that .metadata describes?  Items have neither a name nor a checksum, so another rank's file
 * would be accepted wherever its items fit.  But each item has a frame, which torch.save writes around a tensor: it
 * starts and ends with the item, and states dtype, shape and size.  A file is not trusted at all if it has bytes after
 * its last item, a frame that contradicts the metadata, or two adjacent broken frames: from the first item of another
 * length on, all offsets differ.  A single broken frame between intact ones is damage, and only its item is lost.  An
 * intact save pays for none of this; an item that is read is compared with its frame in any case (items.c). */
#include "placing.h"

#include <zf/assemble/degraded.h>
#include <zf/base/num.h>

#include "items.h"
#include "whole.h"

#define FRAMES_LOOKS 4096 /* items opened while mounting, in files of the right length */

enum frame { FRAME_FITS, FRAME_BROKEN, FRAME_REFUTED };

/* Can the item be opened as something whole? */
static bool frames_opens(struct dcp_placing *p, const struct dcp_chunk *c, struct zf_err *err)
{
    zf_auto(dcp_look) struct dcp_look look = {0};

    return dcp_look_init(&look, p->file[c->item.file], c->item, p->lim->inflate_bytes, p->lim, err);
}

/* Compares the item's frame with the metadata; sets *err unless it fits.  An unreadable frame proves nothing. */
static enum frame frames_judge(struct dcp_placing *p, const struct dcp_chunk *c, struct zf_err *err)
{
    const struct dcp_key *k = &p->d->key.at[c->key];
    const struct dcp_record r = dcp_record_of(p->d, c);
    const struct zf_item item = {.rec_off = c->item.off, .len = dcp_data_len(p->d, c)};
    struct zf_source *file = p->file[c->item.file];
    bool sound = false, fits;

    p->n_frames++;
    if (c->item.len == 0 || !zf_within(c->item.off, c->item.len, file->size) ||
        c->item.wrap == ZF_DCP_OTHER)
        return FRAME_FITS;
    if (k->is_bytes)
        fits = dcp_whole(file, c->item, p->lim, err);
    else if (c->empty || k->composed || k->doubtful)
        fits = frames_opens(p, c, err);
    else
        fits = dcp_item_agrees(file, &r, &item, p->lim, &sound, err);
    if (fits || !dcp_item_refuted(err)) {
        zf_err_clear(err);
        return FRAME_FITS;
    }
    return sound ? FRAME_REFUTED : FRAME_BROKEN;
}

/* Checks the frame of item i of order [n] and, if it is broken, those of its neighbours. */
static bool frames_look(struct dcp_placing *p, const uint32_t *order, uint64_t n, uint64_t i,
                        struct zf_err *err)
{
    struct dcp_chunk *c = &p->d->chunk.at[order[i]];
    struct dcp_file *f = &p->d->file.at[c->item.file];
    struct zf_err other = {.code = ZF_OK};
    enum frame is = frames_judge(p, c, err);

    if (is == FRAME_FITS)
        return true;
    f->foreign =
        is == FRAME_REFUTED ||
        (i > 0 && frames_judge(p, &p->d->chunk.at[order[i - 1]], &other) != FRAME_FITS) ||
        (i + 1 < n && frames_judge(p, &p->d->chunk.at[order[i + 1]], &other) != FRAME_FITS);
    if (c->lost && !f->foreign) {
        zf_err_clear(err); /* it was noted before */
        return true;
    }
    return dcp_mark_lost(p, c, err);
}

bool dcp_frames_check(struct dcp_placing *p, const uint32_t *order, uint64_t n, struct zf_err *err)
{
    const uint32_t number = p->d->chunk.at[order[0]].item.file;
    struct dcp_file *f = &p->d->file.at[number];
    const struct zf_source *file = p->file[number];

    if (!file || !zf_build_degraded(p->b))
        return true;
    f->foreign = file->size > f->end && !p->d->patched;
    /* the last one first: if the layouts of two files differ anywhere, they differ there */
    for (uint64_t k = 0; k < n && !f->foreign; k++) {
        if (k > 0 && p->n_frames >= FRAMES_LOOKS && file->size == f->end)
            break;
        if (!frames_look(p, order, n, k == 0 ? n - 1 : k - 1, err))
            return false;
    }
    for (uint64_t i = 0; f->foreign && i < n; i++)
        p->d->chunk.at[order[i]].lost = true;
    return !f->foreign ||
           zf_build_note(p->b, err,
                         "%s is not the file that .metadata describes: none of it is used",
                         f->path);
}
