/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/coord.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool zf_coord_is_first(struct zf_coord c)
{
    static const struct zf_coord first;

    return memcmp(&c, &first, sizeof c) == 0;
}

uint64_t zf_coord_number(const struct zf_mesh *mesh, struct zf_coord c)
{
    uint64_t n = 0;

    for (int a = ZF_N_AXES; a-- > 0;)
        n = n * zf_mesh_parts(mesh, (enum zf_axis)a) + c.at[a];
    return n;
}

const char *zf_coord_text(const struct zf_mesh *mesh, struct zf_coord c, char *out)
{
    static const char *const word[] = {[ZF_AXIS_TENSOR] = "tp",
                                       [ZF_AXIS_EXPERT] = "ep",
                                       [ZF_AXIS_PIPELINE] = "pp",
                                       [ZF_AXIS_VIRTUAL] = "vp"};
    int n = 0;

    for (int a = 0; a < ZF_N_AXES; a++)
        if (a != ZF_AXIS_DATA && mesh->size[a] > 1)
            n += snprintf(out + n, ZF_COORD_MAX - (size_t)n, "%s%" PRIu32 ".", word[a], c.at[a]);
    (void)snprintf(out + n, ZF_COORD_MAX - (size_t)n, "rank%" PRIu32, c.at[ZF_AXIS_DATA]);
    return out;
}
