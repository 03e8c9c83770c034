/* SPDX-License-Identifier: Apache-2.0 */
/* A list of named texts as bytes. */
#ifndef ASSEMBLE_AGREE_LIST_H
#define ASSEMBLE_AGREE_LIST_H

#include <zf/assemble/agree.h>
#include <zf/base/out.h>
#include <zf/base/vec.h>

/* The bytes of one zf_agree_add: whether it is needed (a byte), the key with its zero byte, and for each value
 * how many bytes of the name before it (of the key) its name begins with, the rest of its name, and its text. */
struct agree_section {
    uint64_t at, n; /* of zf_agree.bytes */
};

struct zf_agree {
    uint64_t budget;
    char *file;
    struct zf_out bytes;
    zf_vec(struct agree_section) section;
    struct zf_out name, text; /* of the value that is looked at */
    struct zf_out last;       /* the name that was added last */
    bool data, device;        /* see zf_agree_read_data, zf_agree_has_device */
};

#endif
