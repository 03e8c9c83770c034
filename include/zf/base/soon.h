/* SPDX-License-Identifier: Apache-2.0 */
/* Announces bytes that will be read soon (zf/source/want.h). */
#ifndef ZF_BASE_SOON_H
#define ZF_BASE_SOON_H

enum zf_soon {
    ZF_SOON_ALL, /* they are fetched, as many at once as were named: storage is slow */
    ZF_SOON_LED, /* what reads ahead by itself is led on through them: storage is fast, but one reader's next bytes are
                  * asked of it late, and slowly where the reader goes on in another file */
};

#endif
