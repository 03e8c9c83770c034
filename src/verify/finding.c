/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/verify/finding.h>

const char *zf_finding_kind_name(enum zf_finding_kind k)
{
    static const char *const name[ZF_FINDING_KINDS] = {[ZF_FOUND_STRUCTURE] = "structure",
                                                       [ZF_FOUND_ARCHIVE] = "archive",
                                                       [ZF_FOUND_SUM] = "sum",
                                                       [ZF_FOUND_COPY] = "copy",
                                                       [ZF_FOUND_COVERAGE] = "coverage",
                                                       [ZF_FOUND_VALUE] = "value",
                                                       [ZF_FOUND_CODE] = "code",
                                                       [ZF_FOUND_READ] = "read"};

    return name[k];
}

const char *zf_finding_weight_name(enum zf_finding_weight w)
{
    static const char *const name[ZF_WEIGHTS] = {[ZF_WEIGHT_NOTE] = "note",
                                                 [ZF_WEIGHT_DANGER] = "danger",
                                                 [ZF_WEIGHT_DAMAGE] = "damage",
                                                 [ZF_WEIGHT_UNREAD] = "unread"};

    return name[w];
}
