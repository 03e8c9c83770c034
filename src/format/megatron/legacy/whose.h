/* SPDX-License-Identifier: Apache-2.0 */
/* Does each folder hold what its name says, or another rank's file? */
#ifndef FORMAT_MEGATRON_LEGACY_WHOSE_H
#define FORMAT_MEGATRON_LEGACY_WHOSE_H

#include "save.h"

/* Errors: ZF_E_FORMAT naming both folders: the sentence is the reason why they are not joined; of
 * reading; ZF_E_NOMEM. */
bool legacy_whose_check(const struct legacy_save *ls, struct zf_err *err) ZF_CHECKED;

#endif
