/* SPDX-License-Identifier: Apache-2.0 */
typedef int zf_fs_empty; /* until the room has a file */
