/* SPDX-License-Identifier: Apache-2.0 */
typedef int zf_format_empty; /* until the room has a file */
