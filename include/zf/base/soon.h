/* SPDX-License-Identifier: Apache-2.0 */
/* Announces bytes that will be read soon (zf/source/want.h). */
#ifndef ZF_BASE_SOON_H
#define ZF_BASE_SOON_H

enum zf_soon {
    ZF_SOON_ALL, /* they are fetched, as many at once as were named: storage is slow */
    ZF_SOON_LED, /* what reads ahead by itself is led on through them: storage is fast, but one reader's next bytes are
                  * asked of it late, and slowly where the reader goes on in another file */
    ZF_SOON_NOW, /* the caller reads them next, in several reads: where each of those would wait for a server, the server
                  * is asked for all of them before zf_source_want returns; elsewhere nothing is done */
};

#endif
