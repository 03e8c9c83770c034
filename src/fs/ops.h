/* SPDX-License-Identifier: Apache-2.0 */
/* The request handlers. */
#ifndef ZF_FS_OPS_H
#define ZF_FS_OPS_H

#include "session.h"

extern const struct fuse_lowlevel_ops zf_ops;

#endif
