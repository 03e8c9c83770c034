/* SPDX-License-Identifier: Apache-2.0 */
/* Links tight_arena.c into a test: each zf_arena_get is a request to the heap, which broken_io.h can let fail. */
