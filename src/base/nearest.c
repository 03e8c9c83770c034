/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates are ranked by edit distance (insertions, deletions, substitutions, and swaps of
 * neighbours), computed only up to the distance of the worst name kept so far: a band of the usual
 * table, so that 10^6 names of a checkpoint take well under a second.  A name that continues the
 * wanted one after a '.' (l1.weight.f32 for l1.weight) or a '/' ranks first, since leaving out the
 * suffix is the most common mistake. */
#include <zf/base/nearest.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name with more edits than this is not suggested. */
#define MOST_EDITS 3u
#define LONGEST 512u

static unsigned nearest_min3(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* The number of edits from a[n_a] to b[n_b]; any number above `most` if there are more. */
static unsigned nearest_edits(const char *a, size_t n_a, const char *b, size_t n_b, unsigned most)
{
    unsigned row[3][LONGEST + 1];

    if (n_a > LONGEST || n_b > LONGEST || (n_a > n_b ? n_a - n_b : n_b - n_a) > most)
        return most + 1;
    for (size_t j = 0; j <= n_b; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n_a; i++) {
        unsigned *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        size_t lo = i > most ? i - most : 1, hi = i + most < n_b ? i + most : n_b;
        unsigned best = most + 1;

        now[lo - 1] = lo == 1 ? (unsigned)i : most + 1;
        for (size_t j = lo; j <= hi; j++) {
            /* Outside its band, the row above was not computed: too far. */
            unsigned above = j < i + most ? up[j] : most + 1;

            now[j] = nearest_min3(above + 1, now[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < now[j])
                now[j] = up2[j - 2] + 1;
            best = now[j] < best ? now[j] : best;
        }
        if (best > most)
            return most + 1;
    }
    return row[n_a % 3][n_b];
}

static unsigned nearest_cost(const char *want, const char *name, unsigned most)
{
    size_t n = strlen(want), len = strlen(name);

    if (n && len > n && strncmp(want, name, n) == 0 && (name[n] == '.' || name[n] == '/'))
        return 0;
    return nearest_edits(want, n, name, len, most);
}

void zf_nearest_offer(struct zf_nearest *near, const char *name)
{
    /* Short words are similar by chance. */
    size_t n = strlen(near->want);
    unsigned most = n < 5 ? 1 : n < 12 ? 2 : MOST_EDITS, at = near->n;
    unsigned cost = nearest_cost(near->want, name, most);

    if (cost > most || (near->n == NEAREST_MAX && cost >= near->cost[NEAREST_MAX - 1]))
        return;
    char *copy = strdup(name);
    if (!copy)
        return; /* one suggestion less */
    if (near->n == NEAREST_MAX)
        free(near->name[--at]);
    else
        near->n++;
    for (; at > 0 && near->cost[at - 1] > cost; at--) {
        near->name[at] = near->name[at - 1];
        near->cost[at] = near->cost[at - 1];
    }
    near->name[at] = copy;
    near->cost[at] = cost;
}

const char *zf_nearest_text(const struct zf_nearest *near, char *out, size_t n)
{
    size_t at = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < near->n && at < n; i++) {
        const char *before = i == 0 ? "; did you mean " : i + 1 == near->n ? " or " : ", ";
        int k = snprintf(out + at, n - at, "%s%s%s", before, near->name[i],
                         i + 1 == near->n ? "?" : "");

        at += k > 0 ? (size_t)k : 0;
    }
    return out;
}

void zf_nearest_fini(struct zf_nearest *near)
{
    for (unsigned i = 0; i < near->n; i++)
        free(near->name[i]);
    near->n = 0;
}
