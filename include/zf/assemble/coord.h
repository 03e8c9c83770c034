/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's coordinates in the mesh of a training job.  Trainers number ranks along axes
 * of their own; formats translate their file names into these coordinates. */
#ifndef ZF_ASSEMBLE_COORD_H
#define ZF_ASSEMBLE_COORD_H

#include <stdbool.h>
#include <stdint.h>

/* In the order in which ranks are numbered, the fastest first.  Source: megatron/core/
 * parallel_state.py (0.5 ... 0.14), order "tp-cp-ep-dp-pp"; virtual stages are no ranks. */
enum zf_axis {
    ZF_AXIS_TENSOR,
    ZF_AXIS_EXPERT,
    ZF_AXIS_DATA,
    ZF_AXIS_PIPELINE,
    ZF_AXIS_VIRTUAL, /* chunk of layers of a pipeline stage: one rank has all of its stage */
    ZF_N_AXES
};

struct zf_coord {
    uint32_t at[ZF_N_AXES];
};

/* Parts along each axis; 0 is the same as 1. */
struct zf_mesh {
    uint32_t size[ZF_N_AXES];
};

static inline uint32_t zf_mesh_parts(const struct zf_mesh *mesh, enum zf_axis axis)
{
    return mesh->size[axis] ? mesh->size[axis] : 1;
}

/* The coordinates of a data rank where files differ in the data rank only. */
static inline struct zf_coord zf_coord_data(uint32_t rank)
{
    return (struct zf_coord){.at[ZF_AXIS_DATA] = rank};
}

/* True if it is 0 on every axis.  Values that all files repeat are read from this rank's file. */
bool zf_coord_is_first(struct zf_coord c);

/* The linear index of c in the mesh.  c must be inside the mesh. */
uint64_t zf_coord_number(const struct zf_mesh *mesh, struct zf_coord c);

#define ZF_COORD_MAX 80

/* Writes "rank3" or, if the mesh has more than one part on other axes, these in front: "tp1.pp0.rank3".
 * out [ZF_COORD_MAX] is returned. */
const char *zf_coord_text(const struct zf_mesh *mesh, struct zf_coord c, char *out);

#endif
